package agent

import (
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
)

var (
	sedFile   = lazyregexp.New(`^sed\s+-n\s+['"][^'"]+['"]\s+(.+)$`)
	catFile   = lazyregexp.New(`^cat\s+(.+)$`)
	separator = lazyregexp.New(`&&|\|\||;`)
	shellLine = lazyregexp.New(`^(?:\S*/)?(?:ba|z|da|fi)?sh\s+-l?c\s+(.+)$`)
)

// filesRead returns the files that a command reads with sed -n or cat.
func filesRead(command string) []string {
	var found []string
	for _, part := range separator.Split(command, -1) {
		part = strings.TrimSpace(part)
		m := sedFile.FindStringSubmatch(part)
		if m == nil {
			m = catFile.FindStringSubmatch(part)
		}
		if m == nil {
			continue
		}
		words := strings.Fields(m[1])
		if len(words) == 0 {
			continue
		}
		file := trimQuotes(words[0])
		if file != "" && !strings.HasPrefix(file, "-") {
			found = append(found, file)
		}
	}
	return unique(found)
}

// trimQuotes removes a quote at the beginning and one at the end.
func trimQuotes(s string) string {
	if s != "" && (s[0] == '\'' || s[0] == '"') {
		s = s[1:]
	}
	if s != "" && (s[len(s)-1] == '\'' || s[len(s)-1] == '"') {
		s = s[:len(s)-1]
	}
	return s
}

// unwrapShell returns the script of a command line such as "bash -lc 'ls'".
func unwrapShell(command string) string {
	m := shellLine.FindStringSubmatch(command)
	if m == nil {
		return command
	}
	s := m[1]
	if len(s) >= 2 && s[0] == s[len(s)-1] && (s[0] == '\'' || s[0] == '"') {
		s = s[1 : len(s)-1]
	}
	return s
}
