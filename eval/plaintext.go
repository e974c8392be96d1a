package eval

import (
	"bytes"
	"io"
	"strings"
	"unicode"
)

// What agents say ends up in what people read: in errors, and in the names of what
// they made. A terminal would obey what it finds there, and so would GitHub.

// PlainText is a text without what a terminal obeys, but for ends of lines and tabs.
func PlainText(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return plainRune(r, '\uFFFD')
	}, s)
}

// oneLine makes a text fit for one line of a terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune { return plainRune(r, ' ') }, s)
}

// plainRune is a rune, or another in the place of one that is a command: to a
// terminal, or to a renderer that lays text out from right to left.
func plainRune(r, other rune) rune {
	if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
		return other
	}
	return r
}

// A githubLog passes lines on to the log of a job of GitHub's, where a line that
// begins with two colons, or has ##[ in it, is a command.
type githubLog struct{ w io.Writer }

func (l githubLog) Write(p []byte) (int, error) {
	var b bytes.Buffer
	for line := range bytes.Lines(p) {
		if bytes.HasPrefix(bytes.TrimSpace(line), []byte("::")) {
			b.WriteString("| ")
		}
		b.Write(bytes.ReplaceAll(line, []byte("##["), []byte("# #[")))
	}
	if _, err := l.w.Write(b.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}
