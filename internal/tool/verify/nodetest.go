package verify

import (
	"bytes"
	"encoding/json"
	"path"
	"strings"
)

// nodeReporter is a reporter for node's test runner that prints a JSON line per test. No
// built-in reporter has both the position and both sides of a comparison.
const nodeReporter = `export default async function* (source) {
  const text = (v) => {
    if (v === undefined) return undefined;
    if (typeof v === 'string') return v;
    try { return JSON.stringify(v, null, 2) ?? String(v); } catch { return String(v); }
  };
  for await (const { type, data } of source) {
    if (type === 'test:diagnostic' && String(data.message).includes('asynchronous activity after the test ended')) yield JSON.stringify({ late: data.message }) + '\n';
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const e = data.details?.error, c = typeof e?.cause === 'object' && e.cause ? e.cause : e;
    const message = typeof e?.cause === 'string' ? e.cause : c?.message;
    yield JSON.stringify({
      ok: type === 'test:pass', name: data.name, nesting: data.nesting, file: data.file, line: data.line, column: data.column,
      skip: data.skip !== undefined && data.skip !== false, todo: data.todo !== undefined && data.todo !== false, suite: data.details?.type === 'suite', type: e?.failureType,
      message, expected: text(c?.expected), actual: text(c?.actual), stack: c?.stack,
    }) + '\n';
  }
  yield JSON.stringify({ end: true }) + '\n';
}
`

type nodeEvent struct {
	OK       bool    `json:"ok"`
	Name     string  `json:"name"`
	Nesting  int     `json:"nesting"`
	File     string  `json:"file"`
	Line     int     `json:"line"`
	Column   int     `json:"column"`
	Skip     bool    `json:"skip"`
	Todo     bool    `json:"todo"`
	Suite    bool    `json:"suite"`
	Type     string  `json:"type"`
	Message  string  `json:"message"`
	Expected *string `json:"expected"`
	Actual   *string `json:"actual"`
	Stack    string  `json:"stack"`

	Late string `json:"late"` // in a line of its own: an error after the end of a test
	End  bool   `json:"end"`  // of the run
}

// parseNodeTest parses the output of nodeReporter. A test comes before its suite, so full
// names are built afterwards.
func parseNodeTest(text []byte, reports [][]byte, t runLocation) testResults {
	res := testResults{early: true}
	for _, report := range reports {
		var events []nodeEvent
		var late []string // not yet with the file whose process they ended
		for line := range bytes.Lines(report) {
			var e nodeEvent
			if json.Unmarshal(line, &e) != nil {
				continue
			}
			switch {
			case e.End:
				res.early = false
			case e.Late != "":
				late = append(late, e.Late)
			case e.Name != "" && e.Nesting >= 0:
				if !e.OK && e.isFile(t) && len(late) > 0 {
					e.Late, late = strings.Join(late, "\n"), nil
				}
				events = append(events, e)
			}
		}
		res.understood = res.understood || len(events) > 0
		names := nodeNames(events)
		ran := map[string]bool{} // files with tests of their own
		var empty []string
		for i, e := range events {
			if !e.isFile(t) {
				ran[e.File] = true
			} else if e.OK && !e.Skip {
				empty = append(empty, t.relPath(e.File))
			}
			e.addTo(&res, t, names[i], ran[e.File])
		}
		if len(empty) > 0 {
			res.notes = append(res.notes, "files that ended well and reported no test, each of which node counts as one: "+firstNames(empty))
		}
		for _, message := range late {
			res.addFailure(Failure{Kind: KindSetup, Message: message})
		}
	}
	explainBuildFailures(&res, string(text), t)
	return res
}

// isFile reports whether the event is of a file: one that failed outside of its tests, or
// that has reported none.
func (e *nodeEvent) isFile(t runLocation) bool {
	file := t.relPath(e.File)
	return t.relPath(e.Name) == file || strings.HasSuffix(file, "/"+e.Name)
}

// explainBuildFailures adds node's error text to files that could not be run: the report
// only says that they failed.
func explainBuildFailures(res *testResults, text string, t runLocation) {
	for i := range res.failures {
		f := &res.failures[i]
		if f.Kind != KindBuild {
			continue
		}
		for _, m := range nodeCrash.FindAllStringIndex(text, -1) {
			block, _, _ := strings.Cut(text[m[0]:], "\n\n")
			if !strings.Contains(block, path.Base(f.File)) {
				continue
			}
			c := crashFailure(t, block)
			f.Message, f.Output = c.Message, c.Output
			if c.File == f.File {
				f.Line, f.Column = c.Line, c.Column
			}
			break
		}
	}
}

// nodeNames returns the full name of each event. The parent of an event is the next one
// that is less deep.
func nodeNames(events []nodeEvent) []string {
	out := make([]string, len(events))
	var above []int // events that are not yet left, outermost first, when read backwards
	for i := len(events) - 1; i >= 0; i-- {
		for len(above) > 0 && events[above[len(above)-1]].Nesting >= events[i].Nesting {
			above = above[:len(above)-1]
		}
		out[i] = events[i].Name
		if len(above) > 0 {
			out[i] = out[above[len(above)-1]] + " > " + events[i].Name
		}
		above = append(above, i)
	}
	return out
}

// addTo adds an event. fileRan is whether its file has reported tests before.
func (e *nodeEvent) addTo(res *testResults, t runLocation, name string, fileRan bool) {
	file := t.relPath(e.File)
	selector := file + " " + e.Name
	switch {
	case e.Skip:
		res.skipped++
	case e.OK:
		if !e.Suite {
			res.passed++
			res.noteRun(selector)
		}
	case e.Todo: // may fail
		res.skipped++
	case e.Type == "subtestsFailed":
	default:
		f := Failure{Kind: KindTest, Package: file, Test: name, File: file, Line: e.Line, Column: e.Column, Message: e.Message, Output: e.Stack, selector: selector}
		if e.Expected != nil && e.Actual != nil {
			f.Expected, f.Actual = *e.Expected, *e.Actual
		}
		if place, line, column := t.nodeFrame(e.Stack); place != "" {
			f.File, f.Line, f.Column = place, line, column
		}
		if e.isFile(t) {
			f.Kind, f.Test, f.selector = KindBuild, "", file+" "
			f.Line, f.Column = 0, 0
			switch {
			case e.Late != "":
				f.Kind, f.Message = KindSetup, e.Late
			case fileRan:
				f.Kind, f.Message = KindSetup, "its process failed outside of its tests: "+e.Message
			case f.Message == "":
				f.Message = "the file could not be run"
			}
		}
		res.addFailure(f)
	}
}
