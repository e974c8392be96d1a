package verify

import (
	"encoding/xml"
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
)

// junitSuite is a JUnit report, as written by pytest, Surefire and Gradle. Suites may be
// nested.
type junitSuite struct {
	Name   string       `xml:"name,attr"`
	Suites []junitSuite `xml:"testsuite"`
	Cases  []junitCase  `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	File    string        `xml:"file,attr"`
	Line    int           `xml:"line,attr"` // pytest counts from 0
	Failure *junitProblem `xml:"failure"`
	Error   *junitProblem `xml:"error"`
	Skipped *struct{}     `xml:"skipped"`
	Out     string        `xml:"system-out"`
	Err     string        `xml:"system-err"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// maxSuites bounds the nesting of suites.
const maxSuites = 32

// readJUnit returns the cases of a report, nil if it can't be parsed.
func readJUnit(report []byte) []junitCase {
	var top junitSuite
	d := xml.NewDecoder(strings.NewReader(plainText(string(report))))
	d.Strict = false
	if d.Decode(&top) != nil {
		return nil
	}
	return top.allCases(0)
}

func (s *junitSuite) allCases(depth int) []junitCase {
	out := s.Cases
	for i := range s.Suites {
		if depth < maxSuites {
			out = append(out, s.Suites[i].allCases(depth+1)...)
		}
	}
	return out
}

// parsePytest parses the report of pytest --junitxml in the xunit1 format, which has
// positions.
func parsePytest(reports [][]byte, t runLocation) testResults {
	res := testResults{early: len(reports) == 0}
	for _, report := range reports {
		for _, c := range readJUnit(report) {
			res.understood = true
			id := pytestID(c)
			res.noteRun(id)
			switch {
			case c.Failure != nil:
				res.addFailure(c.pytestFailure(t, KindTest, c.Failure, id))
			case c.Error != nil && c.Class == "":
				res.addFailure(c.pytestFailure(t, KindBuild, c.Error, id))
			case c.Error != nil:
				res.addFailure(c.pytestFailure(t, KindSetup, c.Error, id))
			case c.Skipped != nil:
				res.skipped++
			default:
				res.passed++
			}
		}
	}
	return res
}

// pytestID returns the node id of a test; for a collection error, its file.
func pytestID(c junitCase) string {
	if c.Class == "" || c.File == "" {
		return c.File
	}
	module := strings.ReplaceAll(strings.TrimSuffix(c.File, path.Ext(c.File)), "/", ".")
	id := c.File
	if rest, ok := strings.CutPrefix(c.Class, module+"."); ok {
		id += "::" + strings.ReplaceAll(rest, ".", "::")
	}
	return id + "::" + c.Name
}

var (
	pytestPlace  = lazyregexp.New(`(?m)^([^\s:][^:\n]*\.pyi?):(\d+): `)
	pytestSyntax = lazyregexp.New(`(?m)^E\s+File "([^"]+)", line (\d+)`)
	pytestSides  = lazyregexp.New(`(?m)^(?:AssertionError: )?assert (.+) == (.+)$`)
	pytestDiff   = lazyregexp.New(`(?m)^E\s{2,}([-+?] .*|[-+?])$`)
)

func (c *junitCase) pytestFailure(t runLocation, kind Kind, p *junitProblem, id string) Failure {
	f := Failure{Kind: kind, Package: c.File, Test: strings.TrimPrefix(strings.TrimPrefix(id, c.File), "::"), selector: id}
	f.File, f.Line = t.relPath(c.File), c.Line+1
	f.Message, f.Output = p.Message, p.Text
	if kind == KindBuild {
		f.Message, f.Line = lastError(p.Text), 0
	}
	places := pytestPlace.FindAllStringSubmatch(p.Text, -1)
	if m := pytestSyntax.FindStringSubmatch(p.Text); m != nil {
		places = append(places, m)
	}
	for _, m := range places {
		// The last place in the project is the innermost.
		if name := t.relPath(m[1]); t.isProjectFile(name) && (f.Line == 0 || name == f.File || kind != KindTest) {
			f.File, f.Line = name, atoiOrZero(m[2])
		}
	}
	if m := pytestSides.FindStringSubmatch(p.Message); m != nil {
		f.Actual, f.Expected = m[1], m[2]
	}
	var diff []string
	for _, m := range pytestDiff.FindAllStringSubmatch(p.Text, -1) {
		if !strings.HasPrefix(m[1], "+  where") {
			diff = append(diff, m[1])
		}
	}
	if len(diff) > 1 {
		f.Diff = strings.Join(diff, "\n")
	}
	return f
}

// lastError returns the last "E" line of pytest's output.
func lastError(text string) string {
	out := ""
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "E "); ok {
			out = strings.TrimSpace(rest)
		}
	}
	if out == "" {
		return text
	}
	return out
}

// pytestArgv adds flags that write the report.
func pytestArgv(argv []string) []string {
	return append(slices.Clone(argv), "--junitxml="+scratch+"/report/pytest.xml", "-o", "junit_family=xunit1", "--continue-on-collection-errors", "-vv")
}

// parseJVM parses the reports of Surefire or Gradle and, after a compile error, the build's
// output.
func parseJVM(text []byte, reports [][]byte, t runLocation) testResults {
	var res testResults
	for _, report := range reports {
		for _, c := range readJUnit(report) {
			res.understood = true
			c.Name = strings.TrimSuffix(c.Name, "()")
			res.noteRun(c.Class + "#" + c.Name)
			switch {
			case c.Failure != nil:
				res.addFailure(c.jvmFailure(t, c.Failure))
			case c.Error != nil:
				res.addFailure(c.jvmFailure(t, c.Error))
			case c.Skipped != nil:
				res.skipped++
			default:
				res.passed++
			}
		}
	}
	for _, d := range parseJava(text, t) {
		if d.Severity == Error {
			res.understood = true
			res.addFailure(Failure{Kind: KindBuild, File: d.File, Line: d.Line, Column: d.Column, Message: d.Message})
		}
	}
	return res
}

var (
	jvmFrame = lazyregexp.New(`(?m)^\s+at (?:[\w.@/]+/)?([\w.$]+)\.([\w$<>]+)\(([\w$]+\.(?:java|kt|groovy|scala)):(\d+)\)`)
	jvmSides = lazyregexp.New(`(?s)expected:\s?<(.*?)> but was:\s?<(.*?)>`)
)

func (c *junitCase) jvmFailure(t runLocation, p *junitProblem) Failure {
	f := Failure{Kind: KindTest, Package: c.Class, Test: c.Name, Message: p.Message, Output: p.Text, selector: c.Class + "#" + c.Name}
	if f.Message == "" || p.Type != "" && !strings.Contains(p.Type, "Assertion") && !strings.Contains(p.Type, "ComparisonFailure") {
		f.Message = strings.TrimPrefix(p.Type+": "+strings.TrimPrefix(p.Message, p.Type+": "), ": ")
	}
	if c.Name == "" || c.Name == c.Class {
		f.Kind = KindSetup
	}
	if m := jvmSides.FindStringSubmatch(p.Message); m != nil {
		f.Expected, f.Actual = m[1], m[2]
	}
	outer, _, _ := strings.Cut(c.Class, "$")
	for _, m := range jvmFrame.FindAllStringSubmatch(p.Text, -1) {
		class, _, _ := strings.Cut(m[1], "$")
		if class == outer {
			f.File, f.Line = path.Join(strings.ReplaceAll(path.Dir(strings.ReplaceAll(class, ".", "/")), ".", "/"), m[3]), atoiOrZero(m[4])
			break
		}
	}
	return f
}

// jvmTests groups failed tests by class.
func jvmTests(failures []Failure) (classes []string, tests map[string][]string, whole bool) {
	tests = map[string][]string{}
	for _, f := range failures {
		if f.Package == "" || f.Kind == KindBuild {
			return nil, nil, true
		}
		if _, ok := tests[f.Package]; !ok {
			classes = append(classes, f.Package)
		}
		name, _, _ := strings.Cut(f.Test, "(")
		name, _, _ = strings.Cut(name, "[")
		if f.Kind == KindTest && name != "" && !slices.Contains(tests[f.Package], name) {
			tests[f.Package] = append(tests[f.Package], name)
		}
	}
	return classes, tests, false
}

func mavenRerun(argv []string, failures []Failure) [][]string {
	classes, tests, whole := jvmTests(failures)
	if whole {
		return [][]string{argv}
	}
	var words []string
	for _, c := range classes {
		if len(tests[c]) > 0 {
			c += "#" + strings.Join(tests[c], "+")
		}
		words = append(words, c)
	}
	argv = slices.DeleteFunc(slices.Clone(argv), func(a string) bool { return strings.HasPrefix(a, "-Dtest=") })
	return [][]string{append(argv, "-Dtest="+strings.Join(words, ","), "-Dsurefire.failIfNoSpecifiedTests=false", "-DfailIfNoTests=false")}
}

func gradleRerun(argv []string, failures []Failure) [][]string {
	classes, tests, whole := jvmTests(failures)
	if whole {
		return [][]string{argv}
	}
	out := slices.DeleteFunc(slices.Clone(argv), func(a string) bool { return strings.HasPrefix(a, "--tests=") })
	for _, c := range classes {
		if len(tests[c]) == 0 {
			out = append(out, "--tests="+c)
		}
		for _, name := range tests[c] {
			out = append(out, "--tests="+c+"."+name)
		}
	}
	return [][]string{out}
}
