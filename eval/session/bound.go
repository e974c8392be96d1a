package session

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Bounds of a report, which is kept in memory, passed to assertions and written several
// times. An agent's log has all of its output.
const (
	maxText   = 1 << 20  // bytes of one text: a message, the output of a tool, the final output
	manyTexts = 8 << 20  // bytes of texts after which each is cut to shortText
	shortText = 4 << 10  // bytes
	maxEvents = 16 << 20 // bytes of all events
	maxListed = 4 << 20  // bytes of each of: files that were read, commands, skills
	perEvent  = 256      // bytes of an event without its texts, in memory
)

// truncateText returns the beginning of a text that is too long, with a remark.
func truncateText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	head := strings.ToValidUTF8(text[:most], "")
	return fmt.Sprintf("%s\n... (%d more bytes are in the log of the agent)", head, len(text)-len(head))
}

// truncate cuts a text of an event.
func (b *Builder) truncate(text string) string {
	most := maxText
	if b.texts > manyTexts {
		most = shortText
	}
	text = truncateText(text, most)
	b.texts += len(text)
	return text
}

// truncateReport drops events, files, commands and skills beyond the bounds.
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

// truncateFields cuts the command, path and arguments of an event.
func (e *Event) truncateFields() {
	e.Command, e.Path = truncateText(e.Command, maxText), truncateText(e.Path, maxText)
	if len(e.Args) > maxText {
		e.Args = json.RawMessage(fmt.Sprintf(`{"leftOut":"%d bytes are in the log of the agent"}`, len(e.Args)))
	}
}

// takeWhile returns the elements before the first for which ok is false.
func takeWhile[T any](list []T, ok func(T) bool) []T {
	for i, x := range list {
		if !ok(x) {
			return list[:i:i]
		}
	}
	return list
}
