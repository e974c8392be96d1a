package verify

import (
	"cmp"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
)

// Lines by which runners print the outcome of a test while they run.
var (
	pytestLine = lazyregexp.New(`(?m)^(?:\[gw\d+\] \[ *\d+%\] (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) )?(\S+\.py::.*?)(?: (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b.*)?\s*$`)
	unitLine   = lazyregexp.New(`(?m)^(\S+) \(([\w.]+)\)(?:\n.*?)? \.\.\. (ok|FAIL|ERROR|skipped)?`)
	jestLine   = lazyregexp.New(`(?m)^\s*(?:●|×|✕|FAIL\s)\s*(\S.*(?: › | > ).*?)(?:\s+\d+\s?ms)?$`)
)

// noDetails is the message of a failure whose details the runner would print at its end.
const noDetails = "failed; the run was cut short before its details were printed"

// printed returns the outcomes in the output of a runner that did not end, and so did not
// write its report.
func printed(runner string, w runnerOutput, t runLocation) testResults {
	var res testResults
	switch runner {
	case "pytest":
		for _, m := range pytestLine.FindAllStringSubmatch(plainText(string(w.stdout)), -1) {
			file, test, _ := strings.Cut(m[2], "::")
			f := Failure{Package: file, Test: test, File: t.relPath(file), Message: noDetails, selector: m[2]}
			res.addOutcome(m[1]+m[3], f)
		}
	case "unittest", "django":
		for _, m := range unitLine.FindAllStringSubmatch(plainText(string(w.stderr)), -1) {
			f := Failure{Message: noDetails, selector: unitID(m[1], m[2])}
			i := strings.LastIndex(f.selector, ".")
			f.Package, f.Test = f.selector[:i], f.selector[i+1:]
			res.addOutcome(m[3], f)
		}
	case "jest", "vitest":
		for _, m := range jestLine.FindAllStringSubmatch(plainText(string(w.bothStreams())), -1) {
			f := Failure{Kind: KindTest, Test: m[1], Message: noDetails}
			if !res.seen[f.Test] {
				res.noteRun(f.Test)
				res.addFailure(f)
			}
		}
	}
	res.understood = res.passed+res.skipped+len(res.failures) > 0
	return res
}

// addOutcome counts a test, or adds it as a failure. A test without an outcome was running.
func (r *testResults) addOutcome(word string, f Failure) {
	switch word {
	case "ok", "PASSED", "XPASS":
		r.passed++
	case "SKIPPED", "XFAIL", "skipped":
		r.skipped++
	case "":
		f.Kind, f.Message = KindCut, "did not end"
		r.addFailure(f)
		return
	default:
		f.Kind, f.Message = KindTest, cmp.Or(f.Message, "failed")
		r.addFailure(f)
		return
	}
	r.noteRun(f.selector)
}
