package eval

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/croft-run/croft/eval/suite"
)

// An overhearer is a reporter that may show what suites write to their console, and
// says whether it did.
type overhearer interface {
	overhear(lines []byte) bool
}

// console shows what the code of a suite wrote to its console, under the name of the
// execution that it was about, if any: by the reporters that can, else as a note.
func (m *matrix) console(name string, logs []suite.Log) {
	if len(logs) == 0 {
		return
	}
	lines := consoleLines(name, logs)
	shown := false
	for _, r := range m.reporters {
		if o, ok := r.(overhearer); ok && o.overhear(lines) {
			shown = true
		}
	}
	if !shown {
		m.note("%s", strings.TrimSuffix(string(lines), "\n"))
	}
}

// consoleLines are logs as people read them, each line under the name.
func consoleLines(name string, logs []suite.Log) []byte {
	if name != "" {
		name = oneLine(name) + ": "
	}
	var b bytes.Buffer
	for _, l := range logs {
		for line := range strings.SplitSeq(strings.TrimSuffix(l.Text, "\n"), "\n") {
			fmt.Fprintf(&b, "%s%s\n", name, PlainText(line))
		}
	}
	return b.Bytes()
}

// overhear shows lines that stay, above what runs.
func (s *standard) overhear(lines []byte) bool { s.change(string(lines), nil); return true }

func (g *githubReporter) overhear(lines []byte) bool { return g.standard.overhear(lines) }

func (h *htmlReporter) overhear(lines []byte) bool {
	return h.standard != nil && h.standard.overhear(lines)
}
