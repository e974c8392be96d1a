package tool

import (
	"bytes"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/secret"
)

// CheckMarks returns an error if a file would get marks of hidden values, such as
// [REDACTED:token], as its text: an agent that has read the file with hidden values writes them
// back without knowing them. Marks that the file has as its text may stay. old is the present
// content, nil if the file is new. verb is for the error.
func (c *Call) CheckMarks(verb, name string, old, next []byte) error {
	if c.scrub == nil {
		return nil // nothing is hidden
	}
	var shown []byte // old as the agent reads it
	for _, m := range secret.Marks(next) {
		mark := next[m.Start:m.End]
		if n := bytes.Count(old, mark); n > 0 {
			if shown == nil {
				shown = c.scrub.Bytes(old)
			}
			if bytes.Count(next, mark) <= n || bytes.Count(shown, mark) == n {
				continue
			}
		}
		line := 1 + bytes.Count(next[:m.Start], []byte("\n"))
		advice := "Use Edit on other lines, which keeps this one"
		if old == nil {
			advice = "Copy a file that has the value with a command"
		}
		return Errorf(fault.InvalidArgument, "refusing to %s %s: line %d has %s, which stands for a hidden value; nothing was written. "+
			"%s. If this text itself is meant, write it with a command", verb, name, line, mark, advice)
	}
	return nil
}

// hiddenNote is added to an error if text, which was not found in a file, has a mark of a hidden
// value; else it is "".
func (c *Call) hiddenNote(text string) string {
	if marks := secret.Marks([]byte(text)); c.scrub != nil && len(marks) > 0 {
		mark := text[marks[0].Start:marks[0].End]
		return ": " + mark + " stands for a hidden value, and the file has the value there; leave its line out of the text to be found"
	}
	return ""
}
