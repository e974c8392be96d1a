package session

import (
	"encoding/json"
	"fmt"
	"strings"
)

// A report is read into memory, handed to assertions and written several times, and
// an agent may say whatever it likes: so a report holds what people read, and the log
// of the agent all of it.
const (
	maxText   = 1 << 20  // bytes of one text: a message, the output of a tool, the final output
	manyTexts = 8 << 20  // bytes of texts after which of each only
	shortText = 4 << 10  // so many are kept
	maxEvents = 16 << 20 // bytes of all events
	maxListed = 4 << 20  // bytes of all files that were read, and of all commands
	perEvent  = 256      // bytes of an event beside its texts, in memory
)

// truncateText is the beginning of a text that is too long, with a remark that says so.
func truncateText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	head := strings.ToValidUTF8(text[:most], "")
	return fmt.Sprintf("%s\n... (%d more bytes are in the log of the agent)", head, len(text)-len(head))
}

// truncate is what of a text goes into an event.
func (b *Builder) truncate(text string) string {
	most := maxText
	if b.texts > manyTexts {
		most = shortText
	}
	text = truncateText(text, most)
	b.texts += len(text)
	return text
}

// truncateReport leaves out what is beyond a report: events, files and commands after those
// that fill it.
func (b *Builder) truncateReport() {
	for i := range b.Events {
		b.Events[i].truncateFields()
	}
	for i := range b.Commands {
		b.Commands[i].Command = truncateText(b.Commands[i].Command, maxText)
	}
	left := maxEvents
	kept := takeWhile(b.Events, func(e Event) bool {
		left -= perEvent + len(e.Text) + len(e.Output) + len(e.Args) + len(e.Command) + len(e.Path) + len(e.Tool) + len(e.Skill) + len(e.At)
		return left >= 0
	})
	b.leftOut, b.Events = len(b.Events)-len(kept), kept
	left = maxListed
	b.Reads = takeWhile(b.Reads, func(p string) bool { left -= perEvent + len(p); return left >= 0 })
	left = maxListed
	b.Commands = takeWhile(b.Commands, func(c Command) bool {
		left -= perEvent + len(c.Command) + len(c.Dir)
		return left >= 0
	})
	left = maxListed
	b.skills = takeWhile(b.skills, func(s string) bool { left -= perEvent + len(s); return left >= 0 })
}

// truncateFields cuts what is no text of a message or a tool, so that one event does not fill a
// report alone.
func (e *Event) truncateFields() {
	e.Command, e.Path = truncateText(e.Command, maxText), truncateText(e.Path, maxText)
	if len(e.Args) > maxText {
		e.Args = json.RawMessage(fmt.Sprintf(`{"leftOut":"%d bytes are in the log of the agent"}`, len(e.Args)))
	}
}

// takeWhile returns the elements before the first that is refused.
func takeWhile[T any](list []T, ok func(T) bool) []T {
	for i, x := range list {
		if !ok(x) {
			return list[:i:i]
		}
	}
	return list
}
