package verify

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
)

// mochaReporter is a reporter for Mocha that appends a JSON line per test. Mocha's own JSON
// reporter writes at the end, and so loses all results of a run that hangs.
const mochaReporter = `const fs = require('fs');
const text = (v) => {
  if (v === undefined || typeof v === 'string') return v;
  try { return JSON.stringify(v, null, 2) ?? String(v); } catch { return String(v); }
};
module.exports = class {
  constructor(runner, options) {
    const put = (line) => fs.appendFileSync(options.reporterOption.output, JSON.stringify(line) + '\n');
    const on = (event, mark) => runner.on(event, (test, error) => {
      const e = error ?? test.err ?? {};
      console.log(mark + ' ' + test.fullTitle());
      put({
        event, title: test.title, fullTitle: test.fullTitle(), file: test.file ?? test.parent?.file,
        err: { message: text(e.message) ?? (error && String(error)), stack: text(e.stack), actual: text(e.actual), expected: text(e.expected) },
      });
    });
    put({ event: 'start' });
    on('pass', '\u2713');
    on('pending', '-');
    on('fail', '\u2717');
    runner.on('end', () => put({ event: 'end' }));
  }
};
`

type mochaTest struct {
	Event     string // start, pass, pending, fail or end
	Title     string
	FullTitle string
	File      string
	Err       struct{ Message, Stack, Actual, Expected string }
}

// parseMocha parses the report of mochaReporter. If a file can't be loaded, Mocha starts no
// reporter, and the error is on its streams.
func parseMocha(text []byte, reports [][]byte, t runLocation) testResults {
	res := testResults{early: true}
	for _, report := range reports {
		for line := range bytes.Lines(report) {
			var m mochaTest
			if json.Unmarshal(line, &m) != nil {
				continue
			}
			switch m.Event {
			case "start":
				res.understood = true
			case "end":
				res.early = false
			case "pass":
				res.passed++
				res.noteRun(t.relPath(m.File) + " " + m.FullTitle)
			case "pending":
				res.skipped++
			case "fail":
				res.addFailure(m.toFailure(t))
			}
		}
	}
	if m := nodeCrash.FindStringIndex(string(text)); m != nil && !res.understood {
		res.understood, res.early = true, false
		res.addFailure(crashFailure(t, string(text)[m[0]:]))
	}
	return res
}

func (m *mochaTest) toFailure(t runLocation) Failure {
	file := t.relPath(m.File)
	f := Failure{Kind: KindTest, Package: file, Test: m.FullTitle, File: file, Message: m.Err.Message, Expected: m.Err.Expected, Actual: m.Err.Actual, Output: m.Err.Stack}
	f.selector = file + " " + m.FullTitle
	if mochaHook.MatchString(m.Title) {
		f.Kind = KindSetup
		suite, _, _ := strings.Cut(m.FullTitle, ` "`)
		f.selector = file + " " + suite + suiteMark
	}
	if place, line, column := t.nodeFrame(m.Err.Stack); place != "" {
		f.File, f.Line, f.Column = place, line, column
	}
	return f
}

var (
	mochaHook = lazyregexp.New(`^"(before|after)( all| each)" hook`)
	nodeCrash = lazyregexp.New(`(?m)^\s*(?:Exception during run: )?(?:\w*Error(?: \[\w+\])?)(?:: .*)$`)
)

// crashFailure is the failure of a runner that crashed with a JavaScript error.
func crashFailure(t runLocation, text string) Failure {
	text = plainText(text)
	f := Failure{Kind: KindBuild, Output: text}
	f.Message = strings.TrimPrefix(strings.TrimSpace(withoutStack(text)), "Exception during run: ")
	f.File, f.Line, f.Column = t.nodeFrame(text)
	return f
}
