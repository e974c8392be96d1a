package eval

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
)

// A stackFrame is a position in a source file.
type stackFrame struct {
	file         string // a path, never a URL
	line, column int
}

var stackLine = lazyregexp.New(`^\s*at (?:.*\()?((?:file://)?/[^()]*?):(\d+):(\d+)\)?\s*$`)

// innermostFrame finds the innermost frame of a stack that is in a file.
func innermostFrame(stack string) (stackFrame, bool) {
	for line := range strings.Lines(stack) {
		m := stackLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		file := m[1]
		if u, err := url.Parse(file); err == nil && u.Scheme == "file" {
			file = u.Path
		}
		n, err1 := strconv.Atoi(m[2])
		col, err2 := strconv.Atoi(m[3])
		if err1 == nil && err2 == nil {
			return stackFrame{file, n, col}, true
		}
	}
	return stackFrame{}, false
}
