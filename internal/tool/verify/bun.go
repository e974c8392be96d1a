package verify

import (
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
)

var (
	bunFile  = lazyregexp.New(`^(\S.*\.(?:[cm]?[jt]sx?)):$`)
	bunTest  = lazyregexp.New(`^\((pass|fail|skip|todo)\) (.+?)(?: \[[\d.]+m?s\])?$`)
	bunError = lazyregexp.New(`(?m)^(?:\w*[eE]rror): (?s:(.*))`)
	bunRan   = lazyregexp.New(`^Ran \d+ tests? across \d+ files?\.`)
)

// parseBun parses the text output of bun test; its report file lacks messages.
func parseBun(text []byte, t runLocation) testResults {
	res := testResults{early: true}
	var file string
	var body []string
	between := false // in an error outside of any test
	for line := range strings.Lines(plainText(string(text))) {
		line = strings.TrimRight(line, "\n")
		if m := bunFile.FindStringSubmatch(line); m != nil && !strings.HasPrefix(line, " ") {
			file, body = t.relPath(m[1]), nil
			continue
		}
		m := bunTest.FindStringSubmatch(line)
		switch {
		case bunRan.MatchString(line):
			res.understood, res.early = true, false
		case line == "# Unhandled error between tests":
			body, between = nil, true
		case between && strings.HasPrefix(line, "-----"):
			if len(body) > 0 {
				f := bunFailure(t, file, "", body)
				f.Kind = KindBuild
				res.addFailure(f)
				between = false
			}
			body = nil
		case m == nil:
			body = append(body, line)
		default:
			res.understood = true
			switch m[1] {
			case "pass":
				res.passed++
				res.noteRun(file + " " + strings.ReplaceAll(m[2], " > ", " "))
			case "fail":
				res.addFailure(bunFailure(t, file, m[2], body))
			default:
				res.skipped++
			}
			body = nil
		}
	}
	return res
}

func bunFailure(t runLocation, file, name string, body []string) Failure {
	text := strings.Join(body, "\n")
	f := Failure{Kind: KindTest, Package: file, Test: name, File: file, Output: text, Message: strings.TrimSpace(text)}
	f.selector = file + " " + strings.ReplaceAll(name, " > ", " ")
	if m := bunError.FindStringSubmatch(text); m != nil {
		f.Message = withoutStack(m[1])
	}
	if m := jestSides.FindStringSubmatch(f.Message); m != nil {
		f.Expected, f.Actual = m[1], m[2]
	} else if strings.Contains(f.Message, "- Expected") {
		_, f.Diff, _ = strings.Cut(f.Message, "\n")
		f.Diff = strings.TrimSpace(f.Diff)
	}
	if place, line, column := t.nodeFrame(text); place != "" {
		f.File, f.Line, f.Column = place, line, column
	}
	return f
}
