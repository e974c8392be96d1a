package agent

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// stub writes a program in the shell and returns its path.
func stub(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stub")
	// A child that another test forks meanwhile has the file open for writing until it
	// runs its own program, and what is open for writing can't be run.
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// input returns a session of an agent in fresh directories.
func input(t *testing.T, cfg Config) Input {
	t.Helper()
	dir, artifacts := t.TempDir(), t.TempDir()
	return Input{Prompt: "Count.", Dir: dir, Artifacts: artifacts, Timeout: 5 * time.Minute,
		Runner: session.NewRunner("r", session.Agent{Type: cfg.Type, Model: cfg.Model})}
}

func mustNew(t *testing.T, cfg Config) Agent {
	t.Helper()
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestDocumentedCommand runs the example of docs/eval-runners.md and holds what
// that page says of its report.
func TestDocumentedCommand(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/eval-runners.md")
	if err != nil {
		t.Fatal(err)
	}
	_, script, _ := strings.Cut(string(doc), "```sh\n#!/bin/sh\n")
	script, _, ok := strings.Cut(script, "\n```")
	if !ok {
		t.Fatal("docs/eval-runners.md has no example")
	}
	cfg := Config{Type: "command", Model: "any", Command: stub(t, script)}
	in := input(t, cfg)
	put(t, in.Dir, map[string]string{"notes.txt": "one\ntwo\n"})
	out, err := Run(t.Context(), RunnerFunc(plain), mustNew(t, cfg), in)
	if err != nil || out.Failure != nil {
		t.Fatalf("run: %v, %v", err, out.Failure)
	}
	r := out.Report
	want := &session.Report{
		Runner: in.Runner, SessionID: "s-1", Prompt: "Count.", FinalOutput: "Count. There are 2 lines.",
		Usage: session.Usage{InputTokens: new(30.0), OutputTokens: new(5.0), CacheTokens: new(10.0), TotalTokens: new(25.0), InputChars: 6, OutputChars: 25,
			Source: session.UsageSource{Input: "provider", Output: "provider", Reasoning: "chars"}},
		Files: session.Files{ObservedReads: []string{}, ObservedSkillReads: []string{}}, DetectedSkills: []session.DetectedSkill{},
		Events: []session.Event{
			{Type: "toolCall", Tool: "shell", Args: []byte(`{"command":"wc -l < notes.txt"}`)},
			{Type: "command", Command: "wc -l < notes.txt"},
			{Type: "toolResult", Tool: "shell", Output: "2"},
			{Type: "message", Role: "assistant", Phase: "final", Text: "Count. There are 2 lines."},
		},
		Commands: []session.Command{{Command: "wc -l < notes.txt", Dir: in.Dir, ExitCode: new(0)}}, Steps: 2,
		RawArtifacts: session.RawArtifacts{StdoutPath: in.Artifacts + "/stdout.log", StderrPath: in.Artifacts + "/stderr.log", ExportPath: in.Artifacts + "/session.stream.jsonl"},
	}
	if diff := cmp.Diff(want, r, cmpopts.IgnoreFields(session.Report{}, "StartedAt", "EndedAt", "DurationMs", "PeakMemoryBytes")); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if r.StartedAt == "" || r.EndedAt < r.StartedAt || r.DurationMs == nil || r.PeakMemoryBytes == 0 {
		t.Errorf("times and memory: %q %q %v %d", r.StartedAt, r.EndedAt, r.DurationMs, r.PeakMemoryBytes)
	}
}

// TestFailures: what goes wrong with an agent is told in the words that skillgym
// uses, with what there was of a report.
func TestFailures(t *testing.T) {
	said := `echo '{"type":"message","text":"working"}'; `
	for _, tt := range []struct {
		name, script string
		limit        time.Duration
		steps        int
		origin       Origin
		class, says  string
		code         fault.Code
		text         string
	}{
		{name: "exit", script: said + "exit 7", origin: OriginRunner, says: "Command failed: $CMD Count. (exit 7)", code: fault.Failed, text: "working"},
		{name: "time-out", script: said + "sleep 600 & wait", limit: 300 * time.Millisecond, origin: OriginRunner, class: "timeout",
			says: "Command timed out after 300ms: $CMD Count.", code: fault.DeadlineExceeded, text: "working"},
		{name: "steps", script: said + `for i in 1 2 3; do echo '{"type":"step"}'; done; sleep 600`, steps: 2, origin: OriginMaxSteps,
			says: `Exceeded maxSteps: observed 3 steps with limit 2 for runner "r" (command). Agent terminated by skillgym. Raw output preserved.`,
			code: fault.ResourceExhausted, text: "working"},
		{name: "model", script: `echo '{"type":"error","code":"model-rejected","message":"no"}'; exit 1`, origin: OriginModelRejected,
			says: `Runner rejected configured model "m" during initial execution.`, code: fault.Unsupported},
		{name: "told", script: said + `echo '{"type":"error","message":"out of luck"}'`, origin: OriginRunner,
			says: "The agent says: out of luck", code: fault.Failed, text: "working"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{Type: "command", Model: "m", Command: stub(t, tt.script)}
			in := input(t, cfg)
			in.MaxSteps = tt.steps
			runner := plain
			if tt.limit > 0 {
				in.Timeout, runner = tt.limit, late
			}
			out, err := Run(t.Context(), RunnerFunc(runner), mustNew(t, cfg), in)
			if err != nil || out.Failure == nil {
				t.Fatalf("run: %v, %v", err, out.Failure)
			}
			f := out.Failure
			want := strings.ReplaceAll(tt.says, "$CMD", cfg.Command)
			if f.Origin != tt.origin || f.Class != tt.class || f.Message != want || fault.Of(f) != tt.code {
				t.Errorf("failure %q %q %q %s, want %q %q %q %s", f.Origin, f.Class, f.Message, fault.Of(f), tt.origin, tt.class, want, tt.code)
			}
			if out.Report.FinalOutput != tt.text {
				t.Errorf("the report says %q, want %q", out.Report.FinalOutput, tt.text)
			}
		})
	}
}

// late runs a program whose time is over when it has said something, however long
// that takes.
func late(ctx context.Context, inv Invocation) (Exit, error) {
	if inv.Timeout <= 0 {
		return Exit{}, errors.New("there is no limit")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	inv.Timeout, inv.Stdout = 0, &heard{inv.Stdout, cancel}
	exit, err := plain(ctx, inv)
	exit.Cause = driver.CauseTimeout
	return exit, err
}

// heard is a writer that calls after each write.
type heard struct {
	io.Writer
	call func()
}

func (h *heard) Write(p []byte) (int, error) {
	defer h.call()
	return h.Writer.Write(p)
}

// TestMissingProgram: an agent that is not there fails its own session alone.
func TestMissingProgram(t *testing.T) {
	program := filepath.Join(t.TempDir(), "missing", "claude")
	cfg := Config{Type: "claude-code", Model: "m", Command: program}
	in := input(t, cfg)
	out, err := Run(t.Context(), RunnerFunc(plain), mustNew(t, cfg), in)
	if err != nil || out.Failure == nil || out.Failure.Origin != OriginRunner || !strings.Contains(out.Failure.Message, program) || fault.Of(out.Failure) != fault.NotFound {
		t.Errorf("a missing program: %v, failure %v", err, out.Failure)
	}
}

// TestCanceled: a canceled run returns an error, not a verdict.
//
//croft:slow-race
func TestCanceled(t *testing.T) {
	cfg := Config{Type: "command", Command: stub(t, "sleep 600 & wait")}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	_, err := Run(ctx, RunnerFunc(plain), mustNew(t, cfg), input(t, cfg))
	if fault.Of(err) != fault.Canceled {
		t.Errorf("canceled: %v", err)
	}
}

// TestFlood: what an agent writes beyond the limit is not kept, and does not stop it.
//
//croft:slow-race
func TestFlood(t *testing.T) {
	cfg := Config{Type: "command", Command: stub(t, "head -c 3000000 /dev/zero; echo; echo '{\"type\":\"step\"}'; touch done")}
	in := input(t, cfg)
	in.MaxOutput = 1000
	out, err := Run(t.Context(), RunnerFunc(plain), mustNew(t, cfg), in)
	if err != nil || out.Failure != nil {
		t.Fatalf("run: %v, %v", err, out.Failure)
	}
	info, err := os.Stat(out.Report.RawArtifacts.StdoutPath)
	if err != nil || info.Size() != 1000 {
		t.Errorf("the log has %v bytes, %v, want 1000", info.Size(), err)
	}
	const wrote = 3000000 + len("\n") + len("{\"type\":\"step\"}\n")
	if got := out.Report.RawArtifacts.StdoutDropped; got != int64(wrote)-1000 {
		t.Errorf("the report says that %d bytes are missing, want %d", got, wrote-1000)
	}
	if _, err := os.Stat(in.Dir + "/done"); err != nil || out.Steps != 1 {
		t.Errorf("the program did not go on: %v, %d steps", err, out.Steps)
	}
}

// TestAStreamIsKeptOnce: the session that was exported is the log itself, unless the
// agent has put something else in its place.
func TestAStreamIsKeptOnce(t *testing.T) {
	const said = `{"type":"message","text":"mine"}`
	for name, test := range map[string]struct {
		also string // what the agent does besides
		same bool
	}{
		"as it is": {"", true}, "a link": {"ln -sf /etc/hostname $1/stdout.log", false},
		"a file":  {"rm $1/stdout.log; echo '{\"type\":\"message\",\"text\":\"theirs\"}' > $1/stdout.log", false},
		"nothing": {"rm $1/stdout.log", false}, "taken": {"mkdir -p $1/session.stream.jsonl/x", true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Type: "command"}
			in := input(t, cfg)
			cfg.Command, cfg.CommandArgs = stub(t, "echo '"+said+"'\n"+test.also+"\n"), []string{in.Artifacts}
			out, err := Run(t.Context(), RunnerFunc(plain), mustNew(t, cfg), in)
			if err != nil || out.Failure != nil || out.Report.FinalOutput != "mine" {
				t.Fatalf("run: %v, %v, %+v", err, out.Failure, out.Report)
			}
			got, err := os.ReadFile(out.Report.RawArtifacts.ExportPath)
			if err != nil || string(got) != said+"\n" {
				t.Errorf("the session is %q, %v", got, err)
			}
			log, err := os.Lstat(out.Report.RawArtifacts.StdoutPath)
			export, xerr := os.Lstat(out.Report.RawArtifacts.ExportPath)
			if same := err == nil && xerr == nil && os.SameFile(log, export); same != test.same || xerr != nil {
				t.Errorf("one file: %v, want %v: %v, %v", same, test.same, err, xerr)
			}
		})
	}
}

// TestHostileArtifacts: an agent that puts links and pipes where its files are
// expected makes us neither read, nor write, nor wait elsewhere.
func TestHostileArtifacts(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("{\"type\":\"session_meta\",\"payload\":{\"id\":\"stolen\"}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	in := input(t, Config{Type: "codex", Model: "m"})
	script := "rm -f " + in.Artifacts + "/stdout.log\nln -s " + outside + " " + in.Artifacts + "/stdout.log\n" +
		"ln -s " + outside + " " + in.Artifacts + "/session.jsonl\nmkdir -p $CODEX_HOME/sessions\nmkfifo $CODEX_HOME/sessions/a.jsonl\nln -s " + outside + " $CODEX_HOME/sessions/b.jsonl\n" +
		"echo '{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"mine\"}}'\n"
	cfg := Config{Type: "codex", Model: "m", Command: stub(t, script)}
	out, err := Run(t.Context(), RunnerFunc(plain), mustNew(t, cfg), in)
	if err != nil || out.Failure != nil {
		t.Fatalf("run: %v, %v", err, out.Failure)
	}
	if out.Report.FinalOutput != "mine" || out.Report.SessionID != "" {
		t.Errorf("the report has %q of session %q", out.Report.FinalOutput, out.Report.SessionID)
	}
	text, err := os.ReadFile(outside)
	if err != nil || !strings.Contains(string(text), "stolen") {
		t.Errorf("the file outside is now %q, %v", text, err)
	}
}

// TestUnknownType names what there is.
func TestUnknownType(t *testing.T) {
	_, err := New(Config{Type: "cursor", Model: "m"})
	if fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "cursor-agent") {
		t.Errorf("New: %v", err)
	}
	for _, typ := range Types() {
		if _, err := New(Config{Type: typ, Model: "m"}); err != nil {
			t.Errorf("New(%s): %v", typ, err)
		}
	}
	if _, err := New(Config{Type: "codex", Model: " "}); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("New without a model: %v", err)
	}
}

var errBroken = errors.New("broken")

// TestBrokenRunner: an error of the runner is the session's failure.
func TestBrokenRunner(t *testing.T) {
	cfg := Config{Type: "command", Command: "x"}
	broken := RunnerFunc(func(context.Context, Invocation) (Exit, error) { return Exit{}, errBroken })
	out, err := Run(t.Context(), broken, mustNew(t, cfg), input(t, cfg))
	if err != nil || !errors.Is(out.Failure, errBroken) {
		t.Errorf("a broken runner: %v, %v", err, out.Failure)
	}
}
