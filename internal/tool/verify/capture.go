package verify

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/croft-run/croft/internal/plaintext"
	"github.com/croft-run/croft/internal/tail"
)

// A capture keeps the head and the tail of a text.
type capture struct{ tail.HeadTail }

func newCapture(limit int) *capture { return &capture{tail.HeadTail{Most: limit}} }

// String returns the text, with a note of what was dropped.
func (c *capture) String() string {
	head, tail, dropped := c.Kept()
	if dropped == 0 {
		return plainText(string(head) + string(tail))
	}
	text := strings.TrimSuffix(plainText(string(head)), "\n")
	return fmt.Sprintf("%s\n... (%d bytes dropped) ...\n%s", text, dropped, plainText(string(tail)))
}

func (c *capture) dropped() int64 {
	_, _, n := c.Kept()
	return n
}

// bytes returns the kept bytes, for a parser.
func (c *capture) bytes() []byte {
	kept, _ := c.Bytes()
	return kept
}

// lineWriter calls back with whole lines, without their line ending. A line longer than the
// limit comes in parts.
type lineWriter struct {
	each  func([]byte)
	part  []byte
	limit int
}

func (l *lineWriter) write(data []byte) {
	for {
		line, rest, ok := bytes.Cut(data, []byte("\n"))
		if !ok {
			l.part = append(l.part, data...)
			if l.limit > 0 && len(l.part) > l.limit {
				l.flush()
			}
			return
		}
		if len(l.part) > 0 {
			line = append(l.part, line...)
			l.part = nil
		}
		l.each(bytes.TrimSuffix(line, []byte("\r")))
		data = rest
	}
}

func (l *lineWriter) flush() {
	if len(l.part) > 0 {
		l.each(l.part)
		l.part = nil
	}
}

// plainText removes control sequences from a text and makes it valid UTF-8.
func plainText(s string) string { return plaintext.Clean(strings.ToValidUTF8(s, "\uFFFD")) }

// truncateEnd truncates a text at its end.
func truncateEnd(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + fmt.Sprintf("\n... (%d bytes dropped)", len(s)-limit)
}

// truncateStart truncates a text at its beginning.
func truncateStart(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return fmt.Sprintf("... (%d bytes dropped)\n", len(s)-limit) + strings.ToValidUTF8(s[len(s)-limit:], "")
}
