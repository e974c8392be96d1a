package verify

import (
	"encoding/json"
	"regexp"
	"strings"
)

type mochaReport struct {
	Stats    *struct{ Passes, Pending, Failures int }
	Failures []mochaTest
	Passes   []mochaTest
}

type mochaTest struct {
	Title     string
	FullTitle string
	File      string
	Err       struct{ Message, Stack, Actual, Expected string }
}

// parseMocha parses the report of Mocha's JSON reporter. If a file can't be loaded, Mocha
// writes no report, and the error is on its streams.
func parseMocha(text []byte, reports [][]byte, t runLocation) testResults {
	var res testResults
	for _, report := range reports {
		var r mochaReport
		if json.Unmarshal(report, &r) != nil || r.Stats == nil {
			continue
		}
		res.understood = true
		res.passed += max(0, r.Stats.Passes)
		res.skipped += max(0, r.Stats.Pending)
		for _, p := range r.Passes {
			res.noteRun(t.relPath(p.File) + " " + p.FullTitle)
		}
		for _, m := range r.Failures {
			res.addFailure(m.toFailure(t))
		}
	}
	if m := nodeCrash.FindStringIndex(string(text)); m != nil && !res.understood {
		res.understood = true
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
	mochaHook = regexp.MustCompile(`^"(before|after)( all| each)" hook`)
	nodeCrash = regexp.MustCompile(`(?m)^\s*(?:Exception during run: )?(?:\w*Error(?: \[\w+\])?)(?:: .*)$`)
)

// crashFailure is the failure of a runner that crashed with a JavaScript error.
func crashFailure(t runLocation, text string) Failure {
	text = plainText(text)
	f := Failure{Kind: KindBuild, Output: text}
	f.Message = strings.TrimPrefix(strings.TrimSpace(withoutStack(text)), "Exception during run: ")
	f.File, f.Line, f.Column = t.nodeFrame(text)
	return f
}
