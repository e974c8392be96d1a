package verify

import (
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
)

var (
	unitHead  = lazyregexp.New(`^(FAIL|ERROR): (\S+) \(([\w.<>]+)\)(.*)$`)
	unitRan   = lazyregexp.New(`^Ran (\d+) tests? in `)
	unitSkip  = lazyregexp.New(`skipped=(\d+)`)
	unitFrame = lazyregexp.New(`(?m)^\s+File "([^"]+)", line (\d+)`)
	unitSides = lazyregexp.New(`(?m)^\w*AssertionError: (?:\w+ differ: )?(.+) != (.+?)(?: : (.*))?$`)
	unitName  = lazyregexp.New(`^(\S+) \(([\w.]+)\)`)
)

const unitRule = "======================================================================"

// parseUnittest parses the output of unittest's text runner on standard error, with -v for
// the names of passed tests. Django's runner and nose2 have the same format.
func parseUnittest(text []byte, t runLocation) testResults {
	res := testResults{early: true}
	all, total, failed := strings.Split(plainText(string(text)), "\n"), 0, map[string]bool{}
	for i := 0; i < len(all); i++ {
		if m := unitRan.FindStringSubmatch(all[i]); m != nil {
			res.understood, res.early = true, false
			total = atoiOrZero(m[1])
		}
		if m := unitSkip.FindStringSubmatch(all[i]); m != nil && strings.Contains(all[i], "(") {
			res.skipped = atoiOrZero(m[1])
		}
		if m := unitName.FindStringSubmatch(all[i]); m != nil {
			res.noteRun(unitID(m[1], m[2]))
		}
		if all[i] != unitRule || i+1 >= len(all) {
			continue
		}
		m := unitHead.FindStringSubmatch(all[i+1])
		if m == nil {
			continue
		}
		end := i + 2
		for end < len(all) && all[end] != unitRule && !unitRan.MatchString(all[end]) {
			end++
		}
		f := unitFailure(m, strings.Join(all[i+2:end], "\n"), t)
		failed[f.selector] = true
		res.addFailure(f)
		i = end - 1
	}
	res.passed = max(0, total-res.skipped-len(failed))
	return res
}

// unitID returns the name that runs a test alone. Python before 3.11 omits the method in
// the parentheses.
func unitID(method, class string) string {
	if strings.HasSuffix(class, "."+method) {
		return class
	}
	return class + "." + method
}

func unitFailure(m []string, body string, t runLocation) Failure {
	f := Failure{Kind: KindTest, selector: unitID(m[2], m[3])}
	if strings.Contains(m[3], "_FailedTest") {
		f.Kind, f.Package, f.selector = KindBuild, m[2], m[2]
	} else if i := strings.LastIndex(f.selector, "."); i >= 0 {
		f.Package, f.Test = f.selector[:i], f.selector[i+1:]+m[4]
	}
	if m[2] == "setUpClass" || m[2] == "setUpModule" {
		f.Kind, f.Package, f.Test, f.selector = KindSetup, m[3], "", m[3]
	}
	if i := strings.Index(body, "----\n"); i >= 0 {
		body = body[i+len("----\n"):]
	}
	body, _, _ = strings.Cut(body, "\n--------------------")
	for _, p := range unitFrame.FindAllStringSubmatch(body, -1) {
		if name := t.relPath(p[1]); t.isProjectFile(name) {
			f.File, f.Line = name, atoiOrZero(p[2])
		}
	}
	f.Output, f.Message = body, afterTraceback(body)
	if s := unitSides.FindStringSubmatch(f.Message); s != nil {
		f.Actual, f.Expected = s[1], s[2]
	}
	if i := strings.Index(f.Message, "\n- "); i >= 0 {
		f.Diff = strings.TrimSpace(f.Message[i+1:])
		f.Message = f.Message[:i]
	}
	return f
}

// afterTraceback returns the error message after the frames.
func afterTraceback(body string) string {
	all := strings.Split(strings.TrimRight(body, "\n"), "\n")
	last := 0
	for i, line := range all {
		if strings.HasPrefix(line, "  File ") {
			last = i + 1
			for last < len(all) && strings.HasPrefix(all[last], "    ") {
				last++
			}
		}
	}
	return strings.TrimSpace(strings.Join(all[min(last, len(all)):], "\n"))
}

func unittestRerun(argv []string, failures []Failure) [][]string {
	at := slices.Index(argv, "unittest")
	if at < 0 {
		return [][]string{argv}
	}
	out := append(slices.Clone(argv[:at+1]), "-v")
	for _, f := range failures {
		if f.selector != "" && !slices.Contains(out, f.selector) {
			out = append(out, f.selector)
		}
	}
	return [][]string{out}
}

func unittestArgv(argv []string) []string {
	at := slices.IndexFunc(argv, func(a string) bool { return a == "discover" })
	if at < 0 {
		at = slices.Index(argv, "unittest")
	}
	if at < 0 {
		return argv
	}
	return slices.Insert(slices.Clone(argv), at+1, "-v")
}
