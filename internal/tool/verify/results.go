package verify

import (
	"path"
	"strconv"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/internal/textdiff"
)

// testResults are the results that a parser found.
type testResults struct {
	passed, skipped int
	failures        []Failure
	seen            map[string]bool // selectors of the tests that ran, whatever their outcome
	understood      bool            // the output has the runner's format
	early           bool            // what the runner writes at its end is missing
	notes           []string
}

func (r *testResults) noteRun(selector string) {
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	r.seen[selector] = true
}

func (r *testResults) addFailure(f Failure) {
	f.Message = truncateEnd(strings.TrimSpace(plainText(f.Message)), maxMessage)
	f.Output = truncateStart(strings.TrimRight(plainText(f.Output), "\n"), maxMessage)
	f.Expected, f.Actual = truncateEnd(plainText(f.Expected), maxMessage), truncateEnd(plainText(f.Actual), maxMessage)
	if f.Diff == "" && (f.Expected != "" || f.Actual != "") {
		f.Diff = diffOf(f.Expected, f.Actual)
	}
	f.Diff = truncateEnd(plainText(f.Diff), maxMessage)
	if f.selector != "" {
		r.noteRun(f.selector)
	}
	r.failures = append(r.failures, f)
}

// diffOf returns a line diff of two values.
func diffOf(want, got string) string {
	split := func(s string) []string {
		if s != "" && !strings.HasSuffix(s, "\n") {
			s += "\n"
		}
		return textdiff.Split([]byte(s))
	}
	a, b := split(want), split(got)
	var out strings.Builder
	for _, h := range textdiff.Hunks(a, b, textdiff.Lines(a, b), len(a)) { // one, with all lines
		out.WriteString(strings.Join(h.Lines, ""))
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// maxMessage bounds each text of a failure.
const maxMessage = 8 << 10

// A runLocation is where a tool ran, to resolve the file names in its output.
type runLocation struct {
	root   string // of the workspace, as commands see it; absolute
	dir    string // where the command ran, relative to the workspace
	module string // the path of the Go module in dir
}

// relPath returns a file name relative to the workspace, or unchanged if it is outside.
func (t runLocation) relPath(name string) string {
	name = strings.TrimPrefix(plainText(name), "file://")
	if name == "" {
		return ""
	}
	if !path.IsAbs(name) {
		name = path.Join(t.dir, name)
		if strings.HasPrefix(name, "../") {
			return name
		}
		return path.Clean(name)
	}
	name = path.Clean(name)
	if rel, ok := strings.CutPrefix(name, strings.TrimSuffix(t.root, "/")+"/"); ok && t.root != "" {
		return rel
	}
	return name
}

// isProjectFile reports whether a path from relPath belongs to the project, not to a
// dependency or the language.
func (t runLocation) isProjectFile(name string) bool {
	return name != "" && !path.IsAbs(name) && !strings.HasPrefix(name, "../") && !strings.Contains("/"+name, "/node_modules/") &&
		!strings.HasPrefix(name, "node:") && !strings.HasPrefix(name, "<") && !strings.Contains("/"+name, "/site-packages/") && !strings.Contains("/"+name, "/.venv/")
}

var stackFrame = lazyregexp.New(`(?m)^\s*(?:at|❯)\s+(?:.*\()?((?:file://)?[^():\s][^():]*):(\d+):(\d+)\)?$`)

var anyFrame = lazyregexp.New(`(?m)^\s*(?:at|❯) .*:\d+:\d+\)?$`)

// nodeFrame returns the first frame of a JavaScript stack in the project.
func (t runLocation) nodeFrame(stack string) (file string, line, column int) {
	for _, m := range stackFrame.FindAllStringSubmatch(plainText(stack), -1) {
		if f := t.relPath(m[1]); t.isProjectFile(f) {
			return f, atoiOrZero(m[2]), atoiOrZero(m[3])
		}
	}
	return "", 0, 0
}

// withoutStack returns the message before the frames of a JavaScript stack.
func withoutStack(text string) string {
	if loc := anyFrame.FindStringIndex(text); loc != nil {
		text = text[:loc[0]]
	}
	return strings.TrimRight(text, " \n")
}

// atoiOrZero returns a number, 0 if it can't be parsed.
func atoiOrZero(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
