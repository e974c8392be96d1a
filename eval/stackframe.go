package eval

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// A frame is a place in a source file.
type frame struct {
	file         string // a path, never a URL
	line, column int
}

var stackLine = regexp.MustCompile(`^\s*at (?:.*\()?((?:file://)?/[^()]*?):(\d+):(\d+)\)?\s*$`)

// frameOf finds the innermost place of a stack that is in a file.
func frameOf(stack string) (frame, bool) {
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
			return frame{file, n, col}, true
		}
	}
	return frame{}, false
}
