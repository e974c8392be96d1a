package verify

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
)

// jestReport is the output of jest --json and of Vitest's json reporter.
type jestReport struct {
	TestResults []struct {
		Name       string
		Status     string
		Message    string
		Assertions []jestTest `json:"assertionResults"`
	}
}

type jestTest struct {
	Ancestors []string `json:"ancestorTitles"`
	Title     string
	FullName  string
	Status    string
	Messages  []string `json:"failureMessages"`
	Location  *struct{ Line, Column int }
	Details   []struct {
		Matcher *struct {
			Actual, Expected json.RawMessage
		} `json:"matcherResult"`
	} `json:"failureDetails"`
}

// parseJest parses reports of Jest or Vitest.
func parseJest(reports [][]byte, t runLocation) testResults {
	res := testResults{early: true}
	for _, report := range reports {
		var r jestReport
		if json.Unmarshal(report, &r) != nil || r.TestResults == nil {
			continue
		}
		res.understood, res.early = true, false
		for _, file := range r.TestResults {
			name := t.relPath(file.Name)
			if len(file.Assertions) == 0 && file.Status == "failed" {
				res.addFailure(jestSuite(t, name, file.Message))
			}
			for _, a := range file.Assertions {
				res.noteRun(name + " " + a.FullName)
				switch a.Status {
				case "passed":
					res.passed++
				case "failed":
					res.addFailure(a.toFailure(t, name))
				default:
					res.skipped++
				}
			}
		}
	}
	return res
}

var (
	vitestHead  = lazyregexp.New(`(?m)^⎯+ Unhandled Errors ⎯+\n`)
	vitestError = lazyregexp.New(`(?m)^⎯+ ([\w ]+) ⎯+\n`)
	vitestEnd   = lazyregexp.New(`(?m)^⎯+$`)
	vitestFile  = lazyregexp.New(`This error originated in "([^"]+)" test file`)
)

// addVitestErrors adds the errors outside of tests, such as rejections that nothing handles.
// They fail the run, and its JSON report lacks them.
func addVitestErrors(res *testResults, text string, t runLocation) {
	text = plainText(text)
	head := vitestHead.FindStringIndex(text)
	if head == nil {
		return
	}
	text = text[head[1]:]
	if end := vitestEnd.FindStringIndex(text); end != nil {
		text = text[:end[0]]
	}
	heads := vitestError.FindAllStringSubmatchIndex(text, -1)
	for i, m := range heads {
		block := text[m[1]:]
		if i+1 < len(heads) {
			block = text[m[1]:heads[i+1][0]]
		}
		f := Failure{Kind: KindSetup, Message: text[m[2]:m[3]] + ": " + withoutStack(block), Output: block}
		if origin := vitestFile.FindStringSubmatch(block); origin != nil {
			f.Package = t.relPath(origin[1])
			f.selector = f.Package + " "
		}
		f.File, f.Line, f.Column = t.nodeFrame(block)
		res.addFailure(f)
	}
}

// jestSuite is the failure of a file that could not be loaded.
func jestSuite(t runLocation, name, message string) Failure {
	f := Failure{Kind: KindBuild, Package: name, File: name, Output: message, selector: name + " "}
	f.Message = strings.TrimSpace(strings.Replace(withoutStack(plainText(message)), "● Test suite failed to run", "", 1))
	if file, line, column := t.nodeFrame(message); file != "" {
		f.Line, f.Column = line, column
		if path.Base(file) != path.Base(name) { // Jest's paths are relative to its own root
			f.File = file
		}
	}
	return f
}

var (
	jestSides   = lazyregexp.New(`(?m)^Expected(?: value)?: (.*)\nReceived(?: value)?:\s+(.*)$`)
	vitestSides = lazyregexp.New(`(?s)^\w*Error: expected (.+) to (?:be|equal|deeply equal|strictly equal|strictly deep-equal) (.+?)(?: // .*)?$`)
	jestDiff    = lazyregexp.New(`(?s)\n([^\n]*- Expected[^\n]*\n[^\n]*\+ Received[^\n]*\n\n.*)`)
)

func (a *jestTest) toFailure(t runLocation, file string) Failure {
	f := Failure{Kind: KindTest, Package: file, Test: strings.Join(append(slices.Clone(a.Ancestors), a.Title), " > "), File: file, selector: file + " " + a.FullName}
	if a.Location != nil {
		f.Line, f.Column = a.Location.Line, a.Location.Column
	}
	f.Output = strings.Join(a.Messages, "\n")
	for _, m := range a.Messages {
		if name, line, column := t.nodeFrame(m); name != "" {
			f.File, f.Line, f.Column = name, line, column
			break
		}
	}
	if len(a.Messages) > 0 {
		f.Message = withoutStack(plainText(a.Messages[0]))
	}
	if m := jestDiff.FindStringSubmatch(f.Message); m != nil {
		f.Diff = strings.TrimSpace(m[1])
	}
	if m := jestSides.FindStringSubmatch(f.Message); m != nil {
		f.Expected, f.Actual = m[1], m[2]
	} else if m := vitestSides.FindStringSubmatch(f.Message); m != nil {
		f.Actual, f.Expected = m[1], m[2]
	}
	for _, d := range a.Details {
		if d.Matcher != nil && f.Expected == "" && len(d.Matcher.Expected) > 0 && len(d.Matcher.Actual) > 0 {
			f.Expected, f.Actual = string(d.Matcher.Expected), string(d.Matcher.Actual)
		}
	}
	return f
}

// suiteMark at the end of a selector means a suite: all its tests.
const suiteMark = "\x00"

// nodePattern returns a pattern that matches exactly these full names.
func nodePattern(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		suite, isSuite := strings.CutSuffix(n, suiteMark)
		quoted[i] = jsQuote(suite)
		if isSuite {
			quoted[i] += " .*"
		}
	}
	return "^(" + strings.Join(quoted, "|") + ")$"
}

var jsMeta = lazyregexp.New(`[.*+?^${}()|\[\]\\/]`)

// jsQuote quotes a text for a JavaScript regular expression.
func jsQuote(s string) string { return jsMeta.ReplaceAllString(s, `\$0`) }

// groupByFile groups failures by file; a file with a failure that is no test has no names.
func groupByFile(failures []Failure) (files []string, names map[string][]string) {
	names = map[string][]string{}
	whole := map[string]bool{}
	for _, f := range failures {
		if f.Package == "" {
			continue
		}
		if _, ok := names[f.Package]; !ok {
			files = append(files, f.Package)
			names[f.Package] = nil
		}
		_, full, _ := strings.Cut(f.selector, f.Package+" ")
		if full == "" {
			whole[f.Package] = true
		}
		names[f.Package] = append(names[f.Package], full)
	}
	for file := range whole {
		names[file] = nil
	}
	return files, names
}
