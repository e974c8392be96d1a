package suite

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
)

// hostEnv is an environment over a plain directory, with its commands.
type hostEnv struct {
	dir     string
	changes []Change
	diff    string
	usage   Usage
	judges  func(Judge) Judgement
	release chan struct{} // commands wait for it, where it is set
	waiting atomic.Int32  // and how many do
}

func (e *hostEnv) Info() EnvInfo { return EnvInfo{Workspace: e.dir, Usage: e.usage} }
func (e *hostEnv) ReadFile(_ context.Context, name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(e.dir, name))
}
func (e *hostEnv) Stat(_ context.Context, name string) (FileInfo, error) {
	info, err := os.Stat(filepath.Join(e.dir, name))
	if err != nil {
		return FileInfo{}, err
	}
	return FileInfo{Size: info.Size(), Mode: uint32(info.Mode().Perm()), Dir: info.IsDir()}, nil
}
func (e *hostEnv) Changes(context.Context) ([]Change, error)           { return e.changes, nil }
func (e *hostEnv) Diff(context.Context, []string) (string, error)      { return e.diff, nil }
func (e *hostEnv) Judge(_ context.Context, q Judge) (Judgement, error) { return e.judges(q), nil }
func (e *hostEnv) Run(ctx context.Context, c Command) (CommandResult, error) {
	if e.release != nil {
		e.waiting.Add(1)
		select {
		case <-e.release:
		case <-ctx.Done():
			return CommandResult{}, ctx.Err()
		}
	}
	argv := c.Argv
	if c.Script != "" {
		argv = []string{"sh", "-c", c.Script}
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = filepath.Join(e.dir, c.Dir)
	var out, errOut strings.Builder
	cmd.Stdout, cmd.Stderr, cmd.Stdin = &out, &errOut, strings.NewReader(c.Stdin)
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return CommandResult{}, fmt.Errorf("%w: %w", fault.NotFound, err)
	}
	return CommandResult{ExitCode: cmd.ProcessState.ExitCode(), Stdout: out.String(), Stderr: errOut.String()}, nil
}

func TestAssertionsOnTheWorkspace(t *testing.T) {
	dir := write(t, "README.md", "# Title\nsecond\n", "src/a.go", "package a\n")
	tokens := 900.0
	env := &hostEnv{dir: dir, changes: []Change{{"README.md", Modified}, {"src/a.go", Added}}, diff: "+package a\n", usage: Usage{TotalTokens: &tokens},
		judges: func(q Judge) Judgement {
			return Judgement{Score: 0.4, Pass: q.Rubric == "is polite", Reason: "subject: " + q.Subject}
		}}
	report := `{"finalOutput":"done","events":[{"type":"command","command":"ls"}],"durationMs":50}`
	tests := []struct{ call, want string }{ // "" passes
		{`assert.files.exists(report, "README.md")`, ""},
		{`assert.files.exists(report, "src")`, ""},
		{`assert.files.exists(report, "none", { message: "write it" })`, `write it. Expected file "none" to exist. Observed file: (missing)`},
		{`assert.files.notExists(report, "README.md")`, `Expected file "README.md" not to exist. Observed file: present`},
		{`assert.files.contains(report, "README.md", /^second$/m)`, ""},
		{`assert.files.contains(report, "README.md", "third")`, `Expected file "README.md" to contain text matching "third". Observed content: # Title` + "\nsecond\n"},
		{`assert.files.contains(report, "none", "x")`, `Expected file "none" to exist. Observed file: (missing)`},
		{`assert.files.notContains(report, "README.md", "third")`, ""},
		{`assert.files.equals(report, "src/a.go", "package a\n")`, ""},
		{`assert.files.equals(report, "src/a.go", "x")`, `Expected file "src/a.go" to equal "x". Observed content: "package a\n"`},
		{`assert.files.changed(report, "src/*.go", { kind: "added" })`, ""},
		{`assert.files.changed(report, "**/*.go")`, ""},
		{`assert.files.changed(report, "*.go")`, `Expected a file matching "*.go" to be changed. Observed changes: README.md (modified) | src/a.go (added)`},
		{`assert.files.unchanged(report, /\.md$/)`, `Expected no file matching /\.md$/ to be changed. Observed changes: README.md (modified) | src/a.go (added)`},
		{`assert.files.unchanged(report, "package.json")`, ""},
		{`assert.files.onlyChanged(report, ["src/**"])`, `Expected only files matching one of: "src/**" to be changed. Unexpected: README.md (modified). Observed changes: README.md (modified) | src/a.go (added)`},
		{`assert.files.onlyChanged(report, ["src/**", "README.md"])`, ""},
		{`assert.files.onlyChanged(report, "**")`, ""},
		{`assert.files.onlyChanged(report, /a/i)`, ""},
		{`assert.files.onlyChanged(report, ["./README.md", "src/"])`, ""},
		{`assert.files.onlyChanged(report, "src/**")`, `Expected only files matching one of: "src/**" to be changed. Unexpected: README.md (modified). Observed changes: README.md (modified) | src/a.go (added)`},
		{`assert.files.onlyChanged(report, [])`, `Expected only files matching one of: (none) to be changed. Unexpected: README.md (modified) | src/a.go (added). Observed changes: README.md (modified) | src/a.go (added)`},
		{`assert.files.onlyChanged(report)`, `assert.files.onlyChanged: expected a path, a glob or a regular expression, or an array of them, got undefined`},
		{`assert.files.onlyChanged(report, { path: "a" })`, `assert.files.onlyChanged: expected a path, a glob or a regular expression, or an array of them, got an object`},
		{`assert.files.onlyChanged(report, ["a", 1])`, `assert.files.onlyChanged: expected a path, a glob or a regular expression, or an array of them, got number`},
		{`assert.files.changed(report, ["src/a.go"])`, `assert.files.changed: expected a path, a glob or a regular expression, got an array`},
		{`assert.files.unchanged(report, "")`, `assert.files.unchanged: expected a path, a glob or a regular expression, got an empty string`},
		{`assert.diff.includes(report, "+package")`, ""},
		{`assert.diff.notIncludes(report, /package/)`, `Expected the diff not to contain text matching /package/. Observed diff: +package a` + "\n"},
		{`assert.diff.empty(report)`, "Expected the diff to be empty. Observed diff: +package a\n"},
		{`assert.diff.notEmpty(report)`, ""},
		{`assert.budget(report, { totalTokens: 1000, durationMs: 60, commands: 1 })`, ""},
		{`assert.budget(report, { totalTokens: 10, costUsd: 1 })`, `Expected use within budget: totalTokens <= 10, costUsd <= 1. Exceeded: totalTokens, costUsd. Observed: totalTokens 900, costUsd (unknown)`},
		{`assert.budget(report, { money: 10 })`, `assert.budget: unknown limit "money"; allowed are durationMs, inputTokens, outputTokens, totalTokens, costUsd, steps, toolCalls, commands, peakMemoryBytes, requests`},
		{`const r = await assert.workspace.run(report, ["cat", "README.md"], { stdout: /second/ }); assert.equal(r.exitCode, 0)`, ""},
		{`await assert.workspace.run(report, "cat; exit 3", { stdin: "hi", cwd: "src", exitCode: 3, stdout: "hi" })`, ""},
		{`await assert.workspace.run(report, "echo out; exit 3")`, `Expected command "echo out; exit 3" to exit with 0. Observed: exit 3, stdout "out\n", stderr ""`},
		{`assert.workspace.run(report, "false")`, `Expected command "false" to exit with 0. Observed: exit 1, stdout "", stderr ""`},
		{`await assert.judge(report, "is polite")`, ""},
		{`await assert.judge(report, { rubric: "is rude", subject: "you" })`, `Expected the judge to accept: is rude. Observed score 0.4: subject: you`},
		{`await assert.judge(report, "is polite", { minScore: 0.5 })`, `Expected the judge to accept: is polite (score >= 0.5). Observed score 0.4: subject: done`},
		{`assert.soft.files.exists(report, "none"); assert.soft.workspace.run(report, "exit 9"); assert.soft.budget(report, { commands: 0 })`, "3 assertion failures collected during case execution:\n1. Expected file \"none\" to exist. Observed file: (missing)\n2. Expected use within budget: commands <= 0. Exceeded: commands. Observed: commands 1\n\n1 !== 0\n\n3. Expected command \"exit 9\" to exit with 0. Observed: exit 9, stdout \"\", stderr \"\""},
	}
	var text strings.Builder
	for i, test := range tests {
		fmt.Fprintf(&text, "{ id: \"c%d\", prompt: \"p\", async assert(report) {\n%s;\n} },\n", i, test.call)
	}
	s := load(t, "a.ts", "import { assert } from \"skillgym\";\nexport default [\n"+text.String()+"];")
	for i, test := range tests {
		t.Run(test.call, func(t *testing.T) {
			out := judge(t, s, fmt.Sprintf("c%d", i), report, env)
			got := ""
			if out.Error != nil {
				got = out.Error.Message
			}
			if !strings.HasPrefix(got, "3 ") { // Node's own addition
				got, _, _ = strings.Cut(got, "\n+ actual")
				got, _, _ = strings.Cut(got, "\n\n")
			}
			if got != test.want || out.Passed != (test.want == "") {
				t.Fatalf("message\n got %q\nwant %q", got, test.want)
			}
			if line := 3*i + 4; out.Error != nil && (out.Error.Frame == nil || out.Error.Frame.Line != line) {
				t.Errorf("frame = %+v of %s, want line %d", out.Error.Frame, out.Error.Stack, line)
			}
		})
	}
}

func TestWithoutAWorkspace(t *testing.T) {
	s := load(t, "a.ts", body(`assert.files.exists(report, "x");`))
	out := judge(t, s, "c", `{}`, nil)
	if want := "this execution has no workspace to look at"; out.Passed || out.Origin != OriginHook || !strings.Contains(out.Error.Message, want) {
		t.Errorf("outcome = %+v, want %s", out.Error, want)
	}
}

// Two executions wait at the same time, in one engine, and each keeps what is its own.
func TestExecutionsAreKeptApart(t *testing.T) {
	s := load(t, "a.ts", `import { assert } from "skillgym";
let calls = 0;
export default [{ id: "c", prompt: "p", async assert(report: any) {
  calls++;
  console.log(report.n);
  assert.soft.fail("first of " + report.n);
  await assert.workspace.run(report, "true");
  await new Promise((done) => setTimeout(done, 1));
  assert.soft.fail("second of " + report.n);
  console.log(calls);
} }];`)
	env := &hostEnv{dir: t.TempDir(), release: make(chan struct{})}
	var wg sync.WaitGroup
	const n = 20
	for i := range n {
		wg.Go(func() {
			out := judge(t, s, "c", fmt.Sprintf(`{"n":%d}`, i), env)
			want := fmt.Sprintf("2 assertion failures collected during case execution:\n1. first of %d\n2. second of %d", i, i)
			if out.Error == nil || out.Error.Message != want {
				t.Errorf("execution %d: %+v, want %q", i, out.Error, want)
			}
			if len(out.Logs) != 2 || out.Logs[0].Text != fmt.Sprint(i) || out.Logs[1].Text != fmt.Sprint(n) {
				t.Errorf("execution %d: logs %v, want %d and %d", i, out.Logs, i, n)
			}
		})
	}
	for start := time.Now(); env.waiting.Load() < n && time.Since(start) < time.Minute; { // then those that do not come say so
		time.Sleep(time.Millisecond)
	}
	close(env.release)
	wg.Wait()
}

//croft:slow
func TestLimitsEndAnExecutionAlone(t *testing.T) {
	testenv.NeedsProgram(t, "node")
	dir := write(t, "a.ts", `import { assert } from "skillgym";
export default [
  { id: "spins", prompt: "p", assert() { for (;;) {} } },
  { id: "spins later", prompt: "p", async assert() { await null; try { for (;;) {} } catch {} } },
  { id: "grows", prompt: "p", assert() { const a = []; for (;;) a.push(new Array(1000).fill("x")); } },
  { id: "recurses", prompt: "p", assert() { const f = () => f() + 1; f(); } },
  { id: "exits", prompt: "p", assert() { try { process.exit(2); } finally { for (;;) {} } } },
  { id: "aborts", prompt: "p", assert() { process.abort(); } },
  { id: "never", prompt: "p", assert: () => new Promise(() => {}) },
  { id: "waits", prompt: "p", assert: (report) => assert.workspace.run(report, "true") },
  { id: "fine", prompt: "p", assert() {} },
];`)
	l := &Loader{Limit: Limit{Turn: 2 * time.Second, Memory: 64 << 20}}
	s, err := l.Load(t.Context(), filepath.Join(dir, "a.ts"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for id, want := range map[string]string{
		"spins": "it ran for 2s without a pause", "spins later": "it ran for 2s without a pause", "recurses": "Maximum call stack size exceeded",
		"exits": "the suite called process.exit(2)", "never": "it waits for a promise that nothing will settle", "aborts": "Node ended", "grows": "it ",
	} {
		// Another execution is in the same Node, and goes on.
		env := &hostEnv{dir: t.TempDir(), release: make(chan struct{})}
		var wg sync.WaitGroup
		if id != "never" { // a Node in which something goes on never waits for nothing
			wg.Go(func() {
				if out := judge(t, s, "waits", `{}`, env); !out.Passed {
					t.Errorf("beside %s: %+v, want passed", id, out.Error)
				}
			})
			for start := time.Now(); env.waiting.Load() < 1 && time.Since(start) < time.Minute; {
				time.Sleep(time.Millisecond)
			}
		}
		out := judge(t, s, id, `{}`, nil)
		if out.Passed || out.Origin != OriginHook || !strings.Contains(out.Error.Message, want) {
			t.Errorf("%s: %+v, want %s", id, out.Error, want)
		}
		close(env.release)
		wg.Wait()
		if out := judge(t, s, "fine", `{}`, nil); !out.Passed {
			t.Errorf("after %s: %+v, want passed", id, out.Error)
		}
	}
}

func TestAContextThatEndsEndsTheWait(t *testing.T) {
	s := load(t, "a.ts", body(`await assert.workspace.run(report, "true");`))
	ctx, cancel := context.WithCancel(t.Context())
	env := &hostEnv{dir: t.TempDir(), release: make(chan struct{})}
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := s.Assert(ctx, "c", []byte(`{}`), env); fault.Of(err) != fault.Canceled {
		t.Errorf("error = %v, want canceled", err)
	}
	if _, err := s.Assert(t.Context(), "none", []byte(`{}`), nil); fault.Of(err) != fault.NotFound {
		t.Errorf("unknown case: %v, want not found", err)
	}
	if _, err := s.Assert(t.Context(), "c", []byte(`{`), nil); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("bad report: %v, want invalid argument", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Assert(t.Context(), "c", []byte(`{}`), nil); fault.Of(err) != fault.WrongState {
		t.Errorf("closed: %v, want wrong state", err)
	}
}
