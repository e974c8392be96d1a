package eval

import (
	"bytes"
	"io"
	"strings"
	"unicode"
)

// Output of agents is printed: in errors, and in names of files. Control characters in it
// could send commands to a terminal, and some lines are commands to GitHub Actions.

// PlainText replaces control characters, except newlines and tabs.
func PlainText(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return plainRune(r, '\uFFFD')
	}, s)
}

// oneLine replaces control characters and newlines by spaces.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune { return plainRune(r, ' ') }, s)
}

// plainRune replaces a control character, or a character that changes the direction of
// text.
func plainRune(r, other rune) rune {
	if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
		return other
	}
	return r
}

// A githubLog writes lines to the log of a GitHub job. It escapes lines that begin with
// two colons or contain ##[, which are workflow commands.
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
