package verify

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
)

var (
	// ccForm is file:line:col: error: message, of C and C++ compilers.
	ccForm = lineForm{lazyregexp.New(`^(?P<file>[^\s:][^:]*):(?P<line>\d+)(?::(?P<column>\d+))?: (?:fatal )?(?P<severity>error|warning|note): (?P<message>.+)$`), Error}

	// ccPlace is a place in the output of a test, as assert and test libraries print it.
	ccPlace = lazyregexp.New(`(?m)([^\s:]+\.(?:c|cc|cpp|cxx|h|hh|hpp|m|mm)):(\d+):? (.*)$`)

	ctestLine    = lazyregexp.New(`(?m)^\s*\d+/\d+ Test\s+#\d+: (.+?) \.*\s*(Passed|Skipped|\*\*\*\S.*?)\s+[\d.]+ sec`)
	automakeLine = lazyregexp.New(`^(PASS|FAIL|XFAIL|XPASS|SKIP|ERROR): (\S.*)$`)
	tapLine      = lazyregexp.New(`^\s*(not ok|ok)(?: (\d+))?(?: -)?(?: ([^#]*))?(?:# *(?i:(skip|todo))\b.*)?$`)
	makeError    = lazyregexp.New(`^\w*make(?:\[\d+\])?: \*\*\* \[(?:([^\s:]+):(\d+): )?([^\]]+)\] (.+)$`)
)

// parseCTest parses the report of ctest --output-junit or, without one, its text.
func parseCTest(w runnerOutput, t runLocation) testResults {
	var res testResults
	for _, report := range w.reports {
		for _, c := range readJUnit(report) {
			res.understood = true
			problem := c.Failure
			if problem == nil {
				problem = c.Error
			}
			switch {
			case problem != nil:
				res.addFailure(nativeFailure(c.Name, strings.TrimSpace(problem.Message), c.Out, t))
				continue
			case c.Skipped != nil:
				res.skipped++
			default:
				res.passed++
			}
			res.noteRun(c.Name)
		}
	}
	if res.understood {
		return res
	}
	for _, m := range ctestLine.FindAllStringSubmatch(plainText(string(w.stdout)), -1) {
		res.understood = true
		switch {
		case m[2] == "Passed":
			res.passed++
		case strings.Contains(m[2], "Skipped"):
			res.skipped++
		default:
			res.addFailure(nativeFailure(m[1], strings.Trim(m[2], "*"), "", t))
		}
		res.noteRun(m[1])
	}
	return res
}

// nativeFailure returns a failed test, with the place that its output has.
func nativeFailure(name, message, output string, t runLocation) Failure {
	f := Failure{Kind: KindTest, Test: name, Message: message, Output: output, selector: name}
	for _, m := range ccPlace.FindAllStringSubmatch(output, -1) {
		if file := t.relPath(m[1]); t.isProjectFile(file) || f.File == "" {
			f.File, f.Line = file, atoiOrZero(m[2])
			f.Message = strings.TrimSpace(output[strings.Index(output, m[0])+len(m[0])-len(m[3]):])
			break
		}
	}
	if f.File == "" && output != "" {
		f.Message = strings.TrimSpace(message + "\n" + truncateStart(strings.TrimSpace(output), maxMessage/4))
	}
	return f
}

func ctestRerun(argv []string, failures []Failure) [][]string {
	var names []string
	for _, f := range failures {
		if f.selector == "" {
			return [][]string{argv}
		}
		names = append(names, regexp.QuoteMeta(f.selector))
	}
	return [][]string{append(slices.Clone(argv), "-R", "^("+strings.Join(names, "|")+")$")}
}

// parseMake parses the output of make: errors of compilers, results of automake's test
// driver and of TAP, and the target that failed.
func parseMake(text []byte, t runLocation) testResults {
	var res testResults
	var failed *Failure
	start := 0
	all := strings.Split(plainText(string(text)), "\n")
	for i, line := range all {
		if m := automakeLine.FindStringSubmatch(line); m != nil {
			res.addOutcome(makeOutcome(m[1]), makeFailure(m[2], all[start:i], t))
			start = i + 1
		} else if m := tapLine.FindStringSubmatch(line); m != nil && (m[2] != "" || m[3] != "") {
			name, word := strings.TrimSpace(m[3]), strings.ToUpper(m[1])
			if name == "" {
				name = m[2]
			}
			if m[4] != "" {
				word = "SKIP"
			}
			res.addOutcome(makeOutcome(word), makeFailure(name, all[start:i], t))
			start = i + 1
		} else if d, ok := ccForm.parseLine(line, t); ok && d.Severity == Error {
			res.understood = true
			res.addFailure(Failure{Kind: KindBuild, File: d.File, Line: d.Line, Column: d.Column, Message: d.Message})
		} else if m := makeError.FindStringSubmatch(line); m != nil && failed == nil {
			f := makeFailure(m[3], all[start:i], t)
			if failed = &f; f.File == "" {
				f.File, f.Line = t.relPath(m[1]), atoiOrZero(m[2])
				f.Message = strings.TrimSpace(m[4] + "\n" + f.Message)
			}
		}
	}
	if failed != nil && len(res.failures) == 0 {
		res.addFailure(*failed)
	}
	res.understood = res.understood || res.passed+res.skipped+len(res.failures) > 0
	return res
}

// makeOutcome converts the word of a result to one of addOutcome.
func makeOutcome(word string) string {
	switch word {
	case "PASS", "OK":
		return "ok"
	case "SKIP", "XFAIL":
		return "skipped"
	}
	return "FAIL"
}

// makeFailure returns a failed test or target. The lines before its result may have the
// reason.
func makeFailure(name string, before []string, t runLocation) Failure {
	output := strings.Join(before[max(0, len(before)-40):], "\n")
	f := nativeFailure(name, "", output, t)
	f.selector = "" // make runs all
	return f
}

// build configures and builds a project whose tests need it. It returns false if that
// failed, which the report then has.
func (t *testRun) build(ctx context.Context) (bool, error) {
	p := t.project
	if !t.runner.needsBuild || t.o.Command != "" {
		return true, nil
	}
	if _, err := t.ws.Stat(ctx, p.DepsDir, nil); err != nil && !p.Install.IsZero() {
		if ok, err := t.buildStep(ctx, p.Install.Argv, p.Install.Dir); !ok {
			return false, err
		}
	}
	if argv, ok := p.Build.All(); ok {
		return t.buildStep(ctx, argv, p.Build.Dir)
	}
	return true, nil
}

func (t *testRun) buildStep(ctx context.Context, argv []string, dir string) (bool, error) {
	run, err := Command(ctx, t.ws, argv, dir, t.o)
	if err != nil || run.ExitCode == 0 && run.Cause == "" {
		return err == nil, err
	}
	r := t.report
	r.Runner, r.Command, r.ExitCode, r.Cause, r.Duration = t.runner.name, argv, run.ExitCode, run.Cause, run.Duration
	t.out.Add([]byte(run.Stdout))
	t.err.Add([]byte(run.Stderr))
	place := runLocation{root: t.ws.Traits().Root, dir: dir}
	var res testResults
	for _, d := range parseForms([]byte(run.Stdout+"\n"+run.Stderr), place, ccForm) {
		if d.Severity == Error {
			res.addFailure(Failure{Kind: KindBuild, File: d.File, Line: d.Line, Column: d.Column, Message: d.Message})
		}
	}
	if len(res.failures) == 0 {
		message := fmt.Sprintf("%s: exit status %d\n%s", strings.Join(argv, " "), run.ExitCode, run.Stdout+run.Stderr)
		res.addFailure(Failure{Kind: KindBuild, Message: truncateStart(message, maxMessage/2)})
	}
	res.understood = true
	t.addResults(res)
	return false, nil
}
