package eval

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/fault"
)

// finished is a run with a case that passed and one that failed.
func finished(t *testing.T) *Result {
	t.Helper()
	r := session.NewRunner("main", session.Agent{Type: "command", Model: "m"})
	rep := session.Empty(r, "<do> it")
	rep.Usage.TotalTokens = new(120.0)
	good := &ExecutionResult{Runner: r, Passed: true, Status: StatusPassed, DurationMs: 12, Report: rep}
	bad := &ExecutionResult{Runner: r, Status: StatusFailed, DurationMs: 1500, Report: rep, FailureOrigin: OriginAssertion, FailureClass: defaultClass(OriginAssertion, false),
		Error: &ErrorInfo{Name: "AssertionError", Message: "no <b>, 100%\nreally", Stack: "AssertionError: no\n    at Object.assert (file:///repo/evals/s.ts:7:9)"}, WorkspacePath: "/ws"}
	for _, e := range []*ExecutionResult{good, bad} {
		one := *e
		e.Repetitions = []*ExecutionResult{{Sessions: []*ExecutionResult{&one}}}
	}
	res := &Result{SuitePath: "/repo/evals/s.ts", StartedAt: "2026-11-15T09:00:00.000Z", DurationMs: 1600, ArtifactDir: t.TempDir(),
		Cases: []CaseResult{{CaseID: "a | b", Passed: true, RunnerResults: []*ExecutionResult{good}}, {CaseID: "b<script>", RunnerResults: []*ExecutionResult{bad}}}}
	res.Runners = summarizeRunners(res.Cases, []session.Runner{r})
	if err := writeJSON(filepath.Join(res.ArtifactDir, ResultsName), res); err != nil {
		t.Fatal(err)
	}
	return res
}

func TestReporters(t *testing.T) {
	t.Setenv("GITHUB_WORKSPACE", "/repo")
	for name, want := range map[string][]string{
		"standard":       {"FAIL  b<script>", "Assertion failure [assertion] (1)", "at /repo/evals/s.ts:7:9", "Cases       1 failed | 1 passed (2)", "Workspace: /ws"},
		"json":           {`"suitePath": "/repo/evals/s.ts"`, `"successRate": 0.5`},
		"json-summary":   {`"totalTokens": 120`},
		"github-actions": {"::error title=b<script> > main,file=evals/s.ts,line=7,col=9::AssertionError: no <b>, 100%25%0Areally\n"},
		"markdown":       {`| a \| b | ok 12ms |`, "b&lt;script&gt;", "1 of 2 (50 %, 95 %: 9 to 91)"},
		"junit":          {`tests="2" failures="1" errors="0"`, `<failure type="assertion"`},
	} {
		var out bytes.Buffer
		r, err := NewReporter(name, ReporterConfig{Out: &out})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Report(Event{Hook: OnSuiteFinish, Result: finished(t)}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, text := range want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%s lacks %q:\n%s", name, text, out.String())
			}
		}
		if name == "junit" && xml.Unmarshal(out.Bytes(), new(junitSuites)) != nil {
			t.Errorf("junit is not XML: %s", out.String())
		}
	}
	if _, err := NewReporter("loud", ReporterConfig{}); err == nil {
		t.Error("an unknown reporter is taken")
	}
}

// TestPageNeedsNothing: the page has all in it, and what agents and users wrote is
// text there.
func TestPageNeedsNothing(t *testing.T) {
	res := finished(t)
	page, err := Page(res)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ComparisonPage(res, finished(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(page), string(other)} {
		for _, bad := range []string{"b<script>", "http://", "https://", "src="} {
			if strings.Contains(text, bad) {
				t.Errorf("the page has %q in it", bad)
			}
		}
		if n := strings.Count(text, "<script"); n > 1 { // the search of a run
			t.Errorf("the page has %d scripts, want at most its own", n)
		}
		for _, rest := range strings.Split(text, "href=")[1:] {
			if !strings.HasPrefix(rest, `"#`) && !strings.HasPrefix(rest, `"./`) {
				t.Errorf("the page has a link to %.40s, want one within it or to a file of the run", rest)
			}
		}
		if !strings.Contains(text, "<svg") {
			t.Error("the page has no plot")
		}
	}
	if !strings.Contains(string(page), "b&lt;script&gt;") {
		t.Error("the page does not name the case")
	}
}

// TestReasonOnStandardOutput: the end of the standard output of an agent that failed is shown
// where its standard error is empty, as some agents write there why they failed.
func TestReasonOnStandardOutput(t *testing.T) {
	res := finished(t)
	e := res.Cases[1].RunnerResults[0]
	e.ArtifactDir = t.TempDir()
	e.FailureLogPath, e.FailureStdoutPath = filepath.Join(e.ArtifactDir, "stderr.log"), filepath.Join(e.ArtifactDir, "stdout.log")
	const reason = `{"type":"error","error":{"message":"404 of the endpoint"}}`
	for _, tt := range []struct{ errors, want, not string }{
		{"", "404 of the endpoint", "told apart"}, {"told apart\n", "told apart", "404 of the endpoint"},
	} {
		if err := errors.Join(os.WriteFile(e.FailureLogPath, []byte(tt.errors), 0o600),
			os.WriteFile(e.FailureStdoutPath, []byte(reason+"\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
		page, err := Page(res)
		if err != nil {
			t.Fatal(err)
		}
		var text, summary bytes.Buffer
		writeFailures(&text, res)
		writeMarkdown(&summary, res, 0)
		for name, out := range map[string]string{"page": string(page), "terminal": text.String(), "summary": summary.String()} {
			if !strings.Contains(out, tt.want) || strings.Contains(out, tt.not) {
				t.Errorf("%s with %q on standard error lacks %q or has %q:\n%s", name, tt.errors, tt.want, tt.not, out)
			}
		}
	}
}

// TestPageTellsWhatAgentsDid: commands with how they ended, requests, tools, memory, and
// the end of the log of one that failed, once each.
func TestPageTellsWhatAgentsDid(t *testing.T) {
	res := finished(t)
	e := res.Cases[1].RunnerResults[0]
	e.ArtifactDir = t.TempDir()
	e.FailureLogPath = filepath.Join(e.ArtifactDir, "stderr.log")
	log := strings.Repeat("noise\n", 10_000) + "no <credentials>\n"
	if err := os.WriteFile(e.FailureLogPath, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	rep := *e.Report
	rep.Commands = []session.Command{{Command: "make <all>", ExitCode: new(2), DurationMs: new(1250.0)}, {Command: "true", ExitCode: new(0)}}
	rep.Network = []session.Request{{Host: "example.com", Port: 443, Method: "CONNECT", Verdict: "deny", Reason: "no rule allows it"}}
	rep.Events = []session.Event{{Type: session.ToolCall, Tool: "bash"}, {Type: session.ToolCall, Tool: "bash"}}
	rep.Steps, rep.PeakMemoryBytes = 3, 5<<20
	if err := writeJSON(filepath.Join(e.ArtifactDir, "report.json"), rep); err != nil {
		t.Fatal(err)
	}
	e.Error.Stack = "AssertionError: " + e.Error.Message + "\n    at file:///repo/evals/s.ts:7:9"
	page, err := Page(res)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"make &lt;all&gt;", `<span class="FAIL">2</span>`, `<span class="ok">0</span>`, "1.25s", "example.com:443", "deny: no rule allows it", "bash (2)", "steps: 3",
		"5.0 MiB", "no &lt;credentials&gt;", "100%\nreally",
	} {
		if n := strings.Count(string(page), text); n != 1 {
			t.Errorf("the page has %q %d times, want once", text, n)
		}
	}
	if n := strings.Count(string(page), "noise"); n > 12 {
		t.Errorf("the page has %d lines of the log", n)
	}
	var out bytes.Buffer
	s := newStandard(ReporterConfig{Out: &out})
	if err := s.Report(Event{Hook: OnSuiteFinish, Result: res}); err != nil || !strings.Contains(out.String(), "\n  | noise\n  | no <credentials>\n") {
		t.Errorf("the terminal has %s, %v; want the end of the log", out.String(), err)
	}
}

// TestConsoleIsShown: by the reporter that people read, else as a note.
func TestConsoleIsShown(t *testing.T) {
	logs := []suite.Log{{Level: "log", Text: "one\ntwo\x1b[2J"}, {Level: "error", Text: "three"}}
	want := "a > main: one\na > main: two\ufffd[2J\na > main: three\n"
	for _, name := range []string{"standard", "github-actions", "html"} {
		var out bytes.Buffer
		r, err := NewReporter(name, ReporterConfig{Out: &out})
		if err != nil {
			t.Fatal(err)
		}
		m := &notifier{reporters: []Reporter{r, finalReporter(func(*Result) error { return nil })}, notes: func(string, ...any) { t.Errorf("%s: it is noted, too", name) }}
		if m.printConsole("a > main", logs); out.String() != want {
			t.Errorf("%s: %q, want %q", name, out.String(), want)
		}
	}
	noted := ""
	m := &notifier{reporters: []Reporter{finalReporter(func(*Result) error { return nil })}, notes: func(format string, args ...any) { noted += fmt.Sprintf(format, args...) }}
	if m.printConsole("a > main", logs); noted+"\n" != want {
		t.Errorf("noted: %q, want %q", noted, want)
	}
}

func TestComparison(t *testing.T) {
	a, b := finished(t), finished(t)
	b.Cases[1].RunnerResults[0].Passed, b.Cases[1].RunnerResults[0].Status = true, StatusPassed
	c := Compare(a, b)
	if len(c.Changed) != 1 || c.Changed[0].Word != "newly passing" || c.Changed[0].Case != "b<script>" {
		t.Errorf("changed: %+v", c.Changed)
	}
	rate := c.Runners[0].Measures[0]
	if rate.Name != "pass rate" || rate.A.N != 2 || rate.Significant {
		t.Errorf("two sessions each tell of the pass rate: %+v", rate)
	}
}

// What only one run has is listed, and not measured: a rerun of what failed is not
// worse than the run that it repeats. Nor is what costs the same, or what was seen once.
func TestComparisonIsOfWhatBothHave(t *testing.T) {
	a, b := finished(t), finished(t)
	b.Cases = b.Cases[1:]
	c := Compare(a, b)
	if c.Common != 1 || c.OnlyA != 1 || c.OnlyB != 0 || len(c.Changed) != 1 || c.Changed[0].Word != "removed" {
		t.Errorf("compared: %+v", c)
	}
	if rate := c.Runners[0].Measures[0]; rate.A != rate.B || rate.Diff.Value != 0 {
		t.Errorf("the pass rates of one execution are %v and %v", rate.A, rate.B)
	}
	var out bytes.Buffer
	if err := c.Write(&out); err != nil || !strings.Contains(out.String(), "executions that both runs have: 1. Only in A are 1, only in B 0.") {
		t.Errorf("it says %s, %v", out.String(), err)
	}
	cost := func(usd ...float64) *observations { return &observations{n: len(usd), cost: usd} }
	for _, test := range []struct {
		a, b *observations
		want string
	}{
		{cost(0.0125, 0.0125, 0.0125), cost(0.0125), "no clear difference"},
		{cost(0.0125, 0.0125, 0.0125), cost(0.0125, 0.0125), "no clear difference"},
		{cost(0.01), cost(0.02), "no clear difference"},
		{cost(0.01, 0.01), cost(0.02, 0.02), "worse"},
		{cost(0.02, 0.02), cost(0.01, 0.01), "better"},
	} {
		m := compareRunner(test.a, test.b)[1]
		if m.Word != test.want || strings.Contains(m.DiffText, "-0.0") {
			t.Errorf("%v against %v: %s, %s; want %s", test.b.cost, test.a.cost, m.DiffText, m.Word, test.want)
		}
	}
}

// TestModuleReporter calls the hooks of a module.
func TestModuleReporter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reporter.ts")
	text := `import fs from "node:fs";
export default { async onSuiteFinish(e: any) { fs.writeFileSync(e.context.suiteRunArtifactDir + "/mine.txt", "mine"); console.log("finished " + e.result.cases.length + " " + e.result.cases[1].caseId); } };`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	m, err := NewModule(t.Context(), suite.Loader{}, path, &said)
	if err != nil {
		t.Fatal(err)
	}
	res := finished(t)
	for _, e := range []Event{{Hook: OnSuiteStart, Context: &Context{}}, {Hook: OnSuiteFinish, Context: &Context{ArtifactDir: res.ArtifactDir}, Result: res}} {
		if err := m.Report(e); err != nil {
			t.Error(err)
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if got := said.String(); got != "finished 2 b<script>\n" {
		t.Errorf("it said %q", got)
	}
	if text, err := os.ReadFile(filepath.Join(res.ArtifactDir, "mine.txt")); string(text) != "mine" {
		t.Errorf("beside the results it wrote %q, %v", text, err)
	}
}

// TestPageInAFile: a file that is named for the page gets the page, and nothing else.
func TestPageInAFile(t *testing.T) {
	var out bytes.Buffer
	r, err := NewReporter("html", ReporterConfig{Out: &out, File: true})
	if err != nil {
		t.Fatal(err)
	}
	res := finished(t)
	for _, e := range []Event{{Hook: OnSuiteStart, Result: res}, {Hook: OnSuiteFinish, Result: res}} {
		if err := r.Report(e); err != nil {
			t.Error(err)
		}
	}
	beside, err := os.ReadFile(filepath.Join(res.ArtifactDir, reportName))
	if err != nil || !bytes.Equal(beside, out.Bytes()) || !strings.HasPrefix(strings.ToLower(out.String()), "<!doctype html>") {
		t.Errorf("the file has %.200q, and beside the results is %.200q, %v", out.String(), beside, err)
	}
}

// TestReportersObeyNobody: what an agent says is neither a command to the terminal
// nor one to GitHub.
func TestReportersObeyNobody(t *testing.T) {
	r := finished(t)
	failed := r.failedExecutions()[0]
	failed.Error = &ErrorInfo{Name: "Error", Message: "no\x1b]0;owned\x07\u009b2J\u202e\n::error::injected\n  ::stop-commands::x\n##[set-env name=A]b\n```\n# end"}
	for _, name := range []string{"standard", "github-actions", "markdown"} {
		var out bytes.Buffer
		rep, err := NewReporter(name, ReporterConfig{Out: &out})
		if err != nil {
			t.Fatal(err)
		}
		if err := rep.Report(Event{Hook: OnSuiteFinish, Context: &Context{}, Result: r}); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if !strings.Contains(text, "injected") || strings.ContainsAny(text, "\x1b\x07\u009b\u202e") {
			t.Errorf("%s writes %q", name, text)
		}
		if name != "github-actions" {
			continue
		}
		commands := 0
		for line := range strings.Lines(text) {
			if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##[") {
				commands++
			}
		}
		if want := len(r.failedExecutions()); commands != want {
			t.Errorf("%d commands, want an annotation of each of %d failures:\n%s", commands, want, text)
		}
	}
}

// TestDamagedResults: results that nobody wrote are refused, not believed.
func TestDamagedResults(t *testing.T) {
	for _, text := range []string{
		``, `[]`, `{"cases":[{"caseId":"a","runnerResults":[null]}]}`, `{"cases":[{"runnerResults":[{"repetitions":[null]}]}]}`,
		`{"cases":[{"runnerResults":[{"repetitions":[{"sessions":[null]}]}]}]}`, `{"cases":[{"runnerResults":[{"sessions":[null]}]}]}`,
	} {
		path := filepath.Join(t.TempDir(), ResultsName)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadResult(path); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzReadResult: what can be read can be compared and shown.
func FuzzReadResult(f *testing.F) {
	f.Add([]byte(`{"cases":[{"caseId":"a","runnerResults":[{"runner":{"id":"r"},"repeatTarget":3,"report":null,"repetitions":[{"sessions":[{}]}]}]}],"runners":[{"runner":{"id":"r"}}]}`))
	f.Add([]byte(`{"cases":[{"runnerResults":[{"durationMs":1e308,"passed":true,"report":{"usage":{"totalTokens":1e308}}}]}],"runners":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), ResultsName)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := ReadResult(path)
		if err != nil {
			return
		}
		if _, err := ComparisonPage(r, r); err != nil {
			t.Errorf("%s: %v", data, err)
		}
		if err := Compare(r, r).Write(io.Discard); err != nil {
			t.Errorf("%s: %v", data, err)
		}
		if _, err := Page(r); err != nil {
			t.Errorf("%s: %v", data, err)
		}
	})
}

// TestThePageLinksAndFilters: the table leads to the executions, those to their logs and
// earlier sessions, and a search shows what matches.
func TestThePageLinksAndFilters(t *testing.T) {
	res := finished(t)
	failed := res.failedExecutions()[0].ExecutionResult
	failed.ArtifactDir = filepath.Join(res.ArtifactDir, "b c", "repeat-1", "session-2")
	earlier := &ExecutionResult{Repetition: 1, Session: 1, ArtifactDir: filepath.Join(res.ArtifactDir, "b c", "repeat-1", "session-1"), Error: &ErrorInfo{Name: "Error", Message: "the first try"}}
	failed.Repetitions = []*ExecutionResult{{Sessions: []*ExecutionResult{earlier, {Repetition: 1, Session: 2, ArtifactDir: failed.ArtifactDir}}}}
	for _, dir := range []string{failed.ArtifactDir, earlier.ArtifactDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "stdout.log"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	page, err := Page(res)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`<a href="#e2-1">`, `<details id="e2-1" class="case FAIL-case" data-case="1" open>`, `href="./b%20c/repeat-1/session-2/stdout.log"`, `href="./b%20c/repeat-1/session-1/stdout.log"`,
		"Earlier sessions (1)", "Error: the first try", `<input id="search" type="search"`, `<option value="FAIL">failed</option>`,
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// TestTheTerminalHasColoursMarksAndTokens, and a hint at explain.
func TestTheTerminalHasColoursMarksAndTokens(t *testing.T) {
	res := finished(t)
	failed := res.failedExecutions()[0].ExecutionResult
	failed.ArtifactDir = t.TempDir()
	if err := os.WriteFile(filepath.Join(failed.ArtifactDir, explainName), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	in, all := 1200.0, 1500.0
	failed.Repetitions = []*ExecutionResult{{Sessions: []*ExecutionResult{
		{Report: &session.Report{Usage: session.Usage{InputTokens: &in, TotalTokens: &all}}}, {Report: &session.Report{Usage: session.Usage{InputTokens: &in}}},
	}}}
	for _, colour := range []bool{false, true} {
		var out bytes.Buffer
		s := newStandard(ReporterConfig{Out: &out, Colour: colour})
		for _, e := range []Event{{Hook: OnCaseFinish, Result: &res.Cases[1]}, {Hook: OnSuiteFinish, Result: res}} {
			if err := s.Report(e); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{"2400 in | 1620 billable", "Ask the agent why: croft eval explain " + failed.ArtifactDir}
		if colour {
			want = append(want, "\x1b[31m✗\x1b[m     b<script>", "\n\x1b[32m✓\x1b[m     ", "\x1b[1mSummary\x1b[m", "\x1b[31m1 failed\x1b[m | 1 passed")
		} else if strings.Contains(out.String(), "\x1b") {
			t.Errorf("without colours: %q", out.String())
		}
		for _, text := range want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("colours %v: it lacks %q:\n%s", colour, text, out.String())
			}
		}
	}
}
