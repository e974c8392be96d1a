package suite

import (
	"os"
	"strings"
	"unicode"
)

// sources has the lines of source files in stack traces. It belongs to the goroutine of
// its engine.
type sources struct{ files map[string][]string }

func newSources() *sources { return &sources{map[string][]string{}} }

// set sets the generated text of a file that is not JavaScript.
func (s *sources) set(path, text string) { s.files[path] = strings.Split(text, "\n") }

// line returns a line of a file, from 1.
func (s *sources) line(path string, n int) []rune {
	lines, ok := s.files[path]
	if !ok {
		if data, err := os.ReadFile(path); err == nil { // without it positions are less exact
			lines = strings.Split(string(data), "\n")
		}
		s.files[path] = lines
	}
	if n < 1 || n > len(lines) {
		return nil
	}
	return []rune(lines[n-1])
}

func isWord(c rune) bool { return c == '_' || c == '$' || unicode.IsLetter(c) || unicode.IsDigit(c) }

// alignFrame moves a position from the parenthesis of a call, as goja reports it, to the
// name that is called, as V8 does.
func (s *sources) alignFrame(f *stackFrame) {
	line := s.line(f.file, f.line)
	i := f.col - 1
	for i >= 0 && i < len(line) && line[i] == ' ' { // before new
		i++
		f.col = i + 1
	}
	if i < 1 || i >= len(line) || line[i] != '(' || !isWord(line[i-1]) {
		return
	}
	for i > 0 && isWord(line[i-1]) {
		i--
	}
	f.col = i + 1
}

// callText returns the source text of a call, for the message of an assertion without
// one: from the start of its expression to its closing parenthesis. It returns "" if the
// text can't be found.
func (s *sources) callText(f stackFrame) string {
	line := s.line(f.file, f.line)
	start := f.col - 1
	if start < 0 || start >= len(line) {
		return ""
	}
	for start > 0 && (isWord(line[start-1]) || line[start-1] == '.') {
		start--
	}
	var (
		out   []rune
		depth int
		quote rune
	)
	for n := f.line; n < f.line+20; n++ {
		from := 0
		if n == f.line {
			from = start
		} else {
			out = append(out, '\n')
		}
		line := s.line(f.file, n)
		for i := from; i < len(line); i++ {
			c := line[i]
			out = append(out, c)
			switch {
			case c == '\\' && i+1 < len(line):
				i++
				out = append(out, line[i])
			case quote != 0:
				if c == quote {
					quote = 0
				}
			case c == '"' || c == '\'' || c == '`':
				quote = c
			case c == '(':
				depth++
			case c == ')':
				if depth--; depth == 0 {
					return string(out)
				}
			}
		}
	}
	return ""
}
