package verify

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
)

// goEvent is one line of go test -json.
type goEvent struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Output      string
	FailedBuild string
}

// goParser parses the stream of go test -json. It keeps a bounded part of a test's output,
// and drops it when the test passes.
type goParser struct {
	tree     runLocation
	text     func(string)
	progress func(done, failed int, line string)

	res     testResults
	outputs map[goTest][]byte
	builds  map[string][]byte // output of builds by import path
	failed  map[goTest]bool   // tests with a failing subtest
	closed  map[string]bool   // packages whose failure has been reported
	nfailed int
}

type goTest struct{ pkg, test string }

const maxGoOutput = 64 << 10

func newGoParser(t runLocation) *goParser {
	return &goParser{
		tree: t, text: func(string) {}, progress: func(int, int, string) {},
		outputs: map[goTest][]byte{}, builds: map[string][]byte{}, failed: map[goTest]bool{}, closed: map[string]bool{},
	}
}

// parseLine parses one line of the stream. A line that is no event is text of the go
// command.
func (p *goParser) parseLine(line []byte) {
	var e goEvent
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &e) != nil || e.Action == "" {
		p.text(string(line) + "\n")
		return
	}
	p.res.understood = true
	key := goTest{e.Package, e.Test}
	switch e.Action {
	case "output":
		p.text(e.Output)
		p.keepOutput(p.outputs, key, e.Output)
	case "build-output":
		p.text(e.Output)
		if b := p.builds[e.ImportPath]; len(b)+len(e.Output) <= maxGoOutput {
			p.builds[e.ImportPath] = append(b, e.Output...)
		}
	case "pass", "skip", "fail":
		p.endTest(key, e)
	}
}

func (p *goParser) keepOutput(m map[goTest][]byte, key goTest, text string) {
	b := m[key]
	if len(b)+len(text) > maxGoOutput {
		b = b[min(len(b), len(text)):] // the end has the error
	}
	m[key] = append(b, truncateStart(text, maxGoOutput)...)
}

func (p *goParser) endTest(key goTest, e goEvent) {
	out := p.outputs[key]
	delete(p.outputs, key)
	if key.test == "" {
		if e.Action == "fail" && !p.closed[key.pkg] {
			p.packageFailed(key.pkg, e.FailedBuild, out)
		}
		return
	}
	p.res.noteRun(goSelector(key))
	switch e.Action {
	case "skip":
		p.res.skipped++
	case "pass":
		p.res.passed++
	default:
		p.testFailed(key, string(out))
	}
	p.progress(p.res.passed+p.res.skipped+p.nfailed, p.nfailed, key.test)
}

func goSelector(key goTest) string { return key.pkg + " " + key.test }

func (p *goParser) testFailed(key goTest, out string) {
	p.closed[key.pkg] = true
	f := p.parseFailure(key.pkg, out)
	f.Kind, f.Package, f.Test, f.selector = KindTest, key.pkg, key.test, goSelector(key)
	parent := p.failed[key] && f.Line == 0
	for up := key.test; strings.Contains(up, "/"); {
		up = up[:strings.LastIndex(up, "/")]
		p.failed[goTest{key.pkg, up}] = true
	}
	if parent {
		return // only subtests failed
	}
	p.nfailed++
	p.res.addFailure(f)
}

// packageFailed reports a package that failed without a failed test: it does not build, or
// exits outside of tests.
func (p *goParser) packageFailed(pkg, build string, out []byte) {
	f := Failure{Kind: KindSetup, Package: pkg, Output: string(out), selector: goSelector(goTest{pkg, ""})}
	if build != "" || strings.Contains(string(out), "[build failed]") || strings.Contains(string(out), "[setup failed]") {
		f.Kind = KindBuild
		if text := string(p.builds[build]); text != "" {
			f.Output = text
		}
		if list := parseGoText(f.Output, p.tree); len(list) > 0 {
			f.File, f.Line, f.Column, f.Message = list[0].File, list[0].Line, list[0].Column, list[0].Message
		}
	}
	if f.Message == "" {
		f.Message = goPlain(f.Output)
	}
	p.nfailed++
	p.res.addFailure(f)
}

var (
	goLine  = lazyregexp.New(`(?m)^\s+([\w.\-]+\.go):(\d+): (.*)`)
	goPanic = lazyregexp.New(`(?m)^panic: (.*)`)
	goFrame = lazyregexp.New(`(?m)^\s+(/\S+\.go):(\d+)`)
	goFrom  = lazyregexp.New(`(?s)(?:got|=)\s*:?\s*(.+?)\s*[,;\n]\s*want(?:ed)?\s*:?\s*(.+)$`)
	testify = lazyregexp.New(`(?m)^\s*expected\s*:\s?(.*)\n\s*actual\s*:\s?(.*)$`)
	goNoise = lazyregexp.New(`(?m)^\s*(=== (RUN|PAUSE|CONT|NAME)\b|--- (FAIL|PASS|SKIP)\b|(FAIL|PASS|exit status \d+)\b).*\n?`)
)

// parseFailure finds the position and the message in a test's output.
func (p *goParser) parseFailure(pkg, out string) Failure {
	f := Failure{Output: goPlain(out)}
	if m := goPanic.FindStringSubmatchIndex(out); m != nil {
		f.Message = "panic: " + out[m[2]:m[3]]
		for _, fr := range goFrame.FindAllStringSubmatch(out[m[1]:], -1) {
			if name := p.tree.relPath(fr[1]); p.tree.isProjectFile(name) {
				f.File, f.Line = name, atoiOrZero(fr[2])
				break
			}
		}
		return f
	}
	places := goLine.FindAllStringSubmatchIndex(out, -1)
	if len(places) == 0 {
		f.Message = f.Output
		return f
	}
	m := places[p.pickLine(out, places)]
	f.File, f.Line = path.Join(p.dirOf(pkg), out[m[2]:m[3]]), atoiOrZero(out[m[4]:m[5]])
	f.Message = out[m[6]:]
	for _, next := range places {
		if next[0] > m[0] {
			f.Message = out[m[6]:next[0]]
			break
		}
	}
	f.Message = dedent(goNoise.ReplaceAllString(f.Message, ""))
	f.Expected, f.Actual, f.Diff = goDifference(f.Message)
	return f
}

// pickLine picks the line to show: the first that mentions a difference, else the last,
// which is the fatal one.
func (p *goParser) pickLine(out string, places [][]int) int {
	for i, m := range places {
		text := out[m[6]:m[7]]
		if strings.Contains(text, "want") || strings.Contains(text, "expected") || strings.Contains(text, "(-") {
			return i
		}
	}
	return len(places) - 1
}

func goDifference(message string) (want, got, diff string) {
	if i := strings.Index(message, "(-want +got):\n"); i >= 0 {
		return "", "", strings.TrimRight(message[i+len("(-want +got):\n"):], "\n")
	}
	if m := testify.FindStringSubmatch(message); m != nil {
		return m[1], m[2], ""
	}
	if m := goFrom.FindStringSubmatch(message); m != nil {
		return strings.TrimSpace(m[2]), strings.TrimSpace(m[1]), ""
	}
	return "", "", ""
}

// dedent removes the indentation of continuation lines.
func dedent(s string) string {
	all := strings.Split(strings.TrimRight(s, "\n "), "\n")
	for i := range all {
		all[i] = strings.TrimPrefix(all[i], "        ")
	}
	return strings.Join(all, "\n")
}

// goPlain removes the lines that say which test runs.
func goPlain(out string) string { return strings.TrimSpace(goNoise.ReplaceAllString(out, "")) }

// dirOf returns the directory of a package, relative to the workspace.
func (p *goParser) dirOf(pkg string) string {
	pkg = strings.TrimSuffix(pkg, "_test")
	if p.tree.module != "" {
		if pkg == p.tree.module {
			return p.tree.dir
		}
		if rel, ok := strings.CutPrefix(pkg, p.tree.module+"/"); ok {
			return path.Join(p.tree.dir, rel)
		}
	}
	return p.tree.dir
}

// finish returns the results. Tests without an end were running when the stream stopped.
func (p *goParser) finish() testResults {
	for key, out := range p.outputs {
		if key.test == "" || p.failed[key] {
			continue
		}
		f := p.parseFailure(key.pkg, string(out))
		f.Kind, f.Package, f.Test, f.selector = KindCut, key.pkg, key.test, goSelector(key)
		f.Message = strings.TrimSpace("did not end\n" + f.Message)
		p.res.addFailure(f)
	}
	slices.SortStableFunc(p.res.failures, func(a, b Failure) int { return strings.Compare(a.Package, b.Package) })
	return p.res
}

// goArgv adds flags for JSON events and against cached results.
func goArgv(argv []string, extra ...string) []string {
	out := slices.Clone(argv)
	at := slices.Index(out, "test") + 1
	for _, flag := range append([]string{"-json", "-count=1"}, extra...) {
		if !slices.Contains(out, flag) {
			out = slices.Insert(out, at, flag)
			at++
		}
	}
	return out
}

// goRerun returns a command per package that runs exactly the failed tests; the pattern
// anchors each part of a subtest's name.
func goRerun(argv []string, failures []Failure) [][]string {
	var order []string
	tests := map[string][]string{}
	for _, f := range failures {
		if _, ok := tests[f.Package]; !ok {
			order = append(order, f.Package)
			tests[f.Package] = []string{}
		}
		if f.Test != "" {
			tests[f.Package] = append(tests[f.Package], goPattern(f.Test))
		}
	}
	slices.Sort(order)
	base := slices.DeleteFunc(slices.Clone(argv), func(a string) bool { return strings.HasPrefix(a, "./") || a == "." })
	var out [][]string
	for _, pkg := range order {
		cmd := slices.Clone(base)
		whole := slices.ContainsFunc(failures, func(f Failure) bool { return f.Package == pkg && f.Test == "" })
		if !whole {
			cmd = append(cmd, "-run="+strings.Join(tests[pkg], "|"))
		}
		out = append(out, append(cmd, pkg))
	}
	return out
}

func goPattern(test string) string {
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}
