package verify

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
)

// cargoMessage is one line of cargo's --message-format=json.
type cargoMessage struct {
	Reason  string
	Target  struct{ Name string }
	Message struct {
		Message  string
		Level    string
		Rendered string
		Code     *struct{ Code string }
		Spans    []struct {
			FileName    string `json:"file_name"`
			LineStart   int    `json:"line_start"`
			ColumnStart int    `json:"column_start"`
			IsPrimary   bool   `json:"is_primary"`
		}
	}
}

// toDiagnostic converts a compiler message; false if it has no position.
func (m *cargoMessage) toDiagnostic(t runLocation) (Diagnostic, bool) {
	d := Diagnostic{Message: m.Message.Message, Severity: Error}
	if m.Message.Level != "error" && !strings.HasPrefix(m.Message.Level, "error:") {
		d.Severity = Warning
	}
	if m.Message.Code != nil {
		d.Rule = m.Message.Code.Code
	}
	for _, s := range m.Message.Spans {
		if s.IsPrimary {
			d.File, d.Line, d.Column = t.relPath(s.FileName), s.LineStart, s.ColumnStart
			return d, true
		}
	}
	return d, false
}

// parseCargoMessages parses the compiler messages of any cargo command. Duplicates are
// dropped: a library is built for itself and for its tests.
func parseCargoMessages(text []byte, t runLocation) (list []Diagnostic, rendered []string) {
	for line := range strings.Lines(string(text)) {
		var m cargoMessage
		if !strings.HasPrefix(line, `{"reason":"compiler-message"`) || json.Unmarshal([]byte(line), &m) != nil {
			continue
		}
		if d, ok := m.toDiagnostic(t); ok && !slices.Contains(list, d) {
			list = append(list, d)
			rendered = append(rendered, m.Message.Rendered)
		}
	}
	return list, rendered
}

var (
	cargoTarget = lazyregexp.New(`^\s+Running (?:unittests )?(\S+)(?: \(.*\))?$`)
	cargoDoc    = lazyregexp.New(`^\s+Doc-tests (\S+)$`)
	cargoTest   = lazyregexp.New(`^test (.+?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)`)
	cargoBegin  = lazyregexp.New(`(?m)^running \d+ tests?$`)
	cargoResult = lazyregexp.New(`(?m)^test result: `)
	cargoBlock  = lazyregexp.New(`^---- (.+) stdout ----$`)
	cargoAgain  = lazyregexp.New("^error: (?:doc)?test failed, to rerun pass `(.*)`$")
	cargoPanic  = lazyregexp.New(`(?m)^thread '.*' (?:\(\d+\) )?panicked at (?:'(.*)', )?(\S+?):(\d+):(\d+):?$`)
	cargoSides  = lazyregexp.New(`(?m)^\s+left: (.*)\n\s*right: (.*)$`)
)

// parseCargo parses the output of cargo test, with compiler messages as JSON and both
// streams merged.
func parseCargo(text []byte, t runLocation) testResults {
	p := cargoParser{tree: t, outcome: map[string]string{}}
	for line := range strings.Lines(string(text)) {
		p.parseLine(strings.TrimSuffix(line, "\n"))
	}
	p.flush("")
	p.res.early = len(cargoBegin.FindAllSubmatch(text, -1)) > len(cargoResult.FindAllSubmatch(text, -1))
	list, rendered := parseCargoMessages(text, t)
	for i, d := range list {
		if d.Severity == Error {
			p.res.understood = true
			p.res.addFailure(Failure{Kind: KindBuild, File: d.File, Line: d.Line, Column: d.Column, Message: strings.TrimSpace(d.Message + ruleSuffix(d.Rule)), Output: rendered[i]})
		}
	}
	return p.res
}

func ruleSuffix(rule string) string {
	if rule == "" {
		return ""
	}
	return " [" + rule + "]"
}

type cargoParser struct {
	tree    runLocation
	res     testResults
	target  string            // cargo's name of it: "src/lib.rs", "tests/it.rs", "doc gold"
	failed  []string          // tests of the target, in the order of their output
	outcome map[string]string // their output
	block   string            // test whose output is being read
}

func (p *cargoParser) parseLine(line string) {
	if m := cargoTarget.FindStringSubmatch(line); m != nil {
		p.flush("")
		p.target = m[1]
		return
	}
	if m := cargoDoc.FindStringSubmatch(line); m != nil {
		p.flush("")
		p.target = "doc-tests " + m[1]
		return
	}
	if m := cargoAgain.FindStringSubmatch(line); m != nil {
		p.flush(m[1])
		return
	}
	if m := cargoTest.FindStringSubmatch(line); m != nil && p.block == "" {
		p.addTest(m[1], m[2])
		return
	}
	switch m := cargoBlock.FindStringSubmatch(line); {
	case m != nil:
		p.block = m[1]
	case p.block != "" && line == "failures:":
		p.block = ""
	case p.block != "":
		p.outcome[p.block] += line + "\n"
	}
}

func (p *cargoParser) addTest(name, outcome string) {
	p.res.understood = true
	p.res.noteRun(p.target + " " + name)
	switch outcome {
	case "ok":
		p.res.passed++
	case "ignored":
		p.res.skipped++
	default:
		p.failed = append(p.failed, name)
	}
}

// flush ends a target. again are the arguments that rerun only this target, as printed by
// cargo.
func (p *cargoParser) flush(again string) {
	slices.Sort(p.failed) // they ran in parallel
	for _, name := range p.failed {
		f := Failure{Kind: KindTest, Package: p.target, Test: name, Output: p.outcome[name], Message: p.outcome[name]}
		f.selector = p.target + " " + name
		p.locatePanic(&f)
		p.res.addFailure(f)
		p.res.failures[len(p.res.failures)-1].again = strings.Fields(again)
	}
	p.failed, p.block = nil, ""
	clear(p.outcome)
}

// locatePanic finds the position and the message of a panic.
func (p *cargoParser) locatePanic(f *Failure) {
	out := p.outcome[f.Test]
	if i := strings.Index(out, "stack backtrace:\n"); i >= 0 {
		out = out[:i]
	}
	if i := strings.Index(out, "note: run with `RUST_BACKTRACE"); i >= 0 {
		out = out[:i]
	}
	f.Message = out
	m := cargoPanic.FindStringSubmatchIndex(out)
	if m == nil {
		return
	}
	f.File, f.Line, f.Column = p.tree.relPath(out[m[4]:m[5]]), atoiOrZero(out[m[6]:m[7]]), atoiOrZero(out[m[8]:m[9]])
	f.Message = out[m[1]:]
	if m[2] >= 0 { // Rust before 1.73 writes the message before the place
		f.Message = out[m[2]:m[3]]
	}
	if s := cargoSides.FindStringSubmatch(f.Message); s != nil {
		f.Actual, f.Expected = s[1], s[2]
	}
}

// cargoArgv adds flags that run all targets and print JSON messages.
func cargoArgv(argv []string) []string {
	return cargoFlags(argv, "--no-fail-fast", "--message-format=json")
}

// cargoFlags inserts flags before the arguments for the test program.
func cargoFlags(argv []string, flags ...string) []string {
	out := slices.Clone(argv)
	at := slices.Index(out, "--")
	if at < 0 {
		at = len(out)
	}
	for _, f := range flags {
		if name, _, _ := strings.Cut(f, "="); !slices.ContainsFunc(out, func(a string) bool { return strings.HasPrefix(a, name) }) {
			out = slices.Insert(out, at, f)
			at++
		}
	}
	return out
}

// cargoRerun returns a command for each target with failures, with the arguments that cargo
// printed and the full names of the failed tests.
func cargoRerun(argv []string, failures []Failure) [][]string {
	type group struct {
		again []string
		tests []string
	}
	var groups []group
	for _, f := range failures {
		if f.Test == "" || len(f.again) == 0 {
			return [][]string{argv} // a compile error may hide any test
		}
		i := slices.IndexFunc(groups, func(g group) bool { return slices.Equal(g.again, f.again) })
		if i < 0 {
			groups = append(groups, group{again: f.again})
			i = len(groups) - 1
		}
		groups[i].tests = append(groups[i].tests, f.Test)
	}
	var out [][]string
	for _, g := range groups {
		cmd := slices.DeleteFunc(slices.Clone(argv), func(a string) bool {
			return a == "--workspace" || a == "--all" || strings.HasPrefix(a, "--package=")
		})
		if at := slices.Index(cmd, "--"); at >= 0 {
			cmd = cmd[:at]
		}
		cmd = append(append(cmd, g.again...), "--")
		if slices.Contains(g.again, "--doc") {
			out = append(out, append(cmd, docFilters(g.tests)...))
			continue
		}
		out = append(out, append(append(cmd, "--exact"), g.tests...))
	}
	return out
}

// docFilters returns filters for doc tests: their item, or their file if it has none.
// rustdoc splits filters at spaces, so full names, such as "src/lib.rs - add (line 3)",
// match nothing. Other tests of the same item run, too.
func docFilters(tests []string) []string {
	var out []string
	for _, t := range tests {
		words := strings.Fields(t)
		filter := words[0]
		if len(words) > 2 && words[1] == "-" && !strings.HasPrefix(words[2], "(") {
			filter = words[2]
		}
		if !slices.Contains(out, filter) {
			out = append(out, filter)
		}
	}
	return out
}
