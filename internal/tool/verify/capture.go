package verify

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/croft-run/croft/internal/plaintext"
)

// A capture keeps the head and the tail of a text.
type capture struct {
	limit   int
	head    []byte
	tail    []byte
	dropped int64
}

func (c *capture) write(data []byte) {
	if room := c.limit/2 - len(c.head); room > 0 {
		n := min(room, len(data))
		c.head = append(c.head, data[:n]...)
		data = data[n:]
	}
	c.tail = append(c.tail, data...)
	// The tail is moved only after it has doubled, which keeps writes cheap.
	if over := len(c.tail) - c.limit/2; over > c.limit/2 {
		c.dropped += int64(over)
		c.tail = append(c.tail[:0], c.tail[over:]...)
	}
}

// String returns the text, with a note of what was dropped.
func (c *capture) String() string {
	c.trimTail()
	if c.dropped == 0 {
		return plainText(string(c.head) + string(c.tail))
	}
	head, tail := plainText(string(c.head)), plainText(string(c.tail))
	return fmt.Sprintf("%s\n... (%d bytes dropped) ...\n%s", strings.TrimSuffix(head, "\n"), c.dropped, tail)
}

func (c *capture) trimTail() {
	if over := len(c.tail) - c.limit/2; over > 0 {
		c.dropped += int64(over)
		c.tail = c.tail[over:]
	}
}

// bytes returns the kept bytes, for a parser.
func (c *capture) bytes() []byte { return append(bytes.Clone(c.head), c.tail...) }

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
