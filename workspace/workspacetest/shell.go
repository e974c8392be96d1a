package workspacetest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

var shellChecks = []Check{
	{"Shell/a-non-zero-exit-is-a-result", needShell, shellExit},
	{"Shell/a-signal-is-a-result", needShell, shellSignalled},
	{"Shell/keeps-the-streams-apart", needShell, shellStreams},
	{"Shell/argv-passes-through-no-shell", needShell, shellArgv},
	{"Shell/refuses-a-bad-command", needShell, shellRefused},
	{"Shell/a-program-that-is-missing-is-an-error", needShell, shellMissing},
	{"Shell/runs-in-the-directory", allNeeds(needShell, needFS), shellDir},
	{"Shell/shares-the-files", allNeeds(needShell, needFS), shellFiles},
	{"Shell/standard-input-is-empty-unless-given", needShell, shellStdin},
	{"Shell/interactive-input-goes-both-ways", needShell, shellInteractive},
	{"Shell/environment-holds-nothing-of-the-host", needShell, shellEnvironment},
	{"Shell/environment-is-what-was-given", needShell, shellEnvGiven},
	{"Shell/truncation-is-counted", needShell, shellTruncated},
	{"Shell/callbacks-see-all-and-change-nothing", needShell, shellCallbacks},
	{"Shell/output-comes-while-it-runs", allNeeds(needShell, needStreaming), shellStreaming},
	{"Shell/poll-returns-each-byte-once", needShell, shellPoll},
	{"Shell/log-is-read-from-any-offset", needShell, shellLog},
	{"Shell/wait-answers-again-and-again", needShell, shellWait},
	{"Shell/timeout-returns-partial-output", needShell, shellTimeout},
	{"Shell/timeout-ends-the-whole-tree", allNeeds(needShell, needFS), shellTimeoutTree},
	{"Shell/kill-ends-the-whole-tree", allNeeds(needShell, needFS), shellKillTree},
	{"Shell/kill-gives-grace", needShell, shellGrace},
	{"Shell/kill-after-the-end-is-nothing", needShell, shellKillEnded},
	{"Shell/cancelling-a-run-ends-it", needShell, shellCancelled},
	{"Shell/cancelling-a-wait-does-not-end-it", needShell, shellWaitCancelled},
	{"Shell/close-forgets-the-session", needShell, shellClose},
	{"Shell/attach-finds-a-session", allNeeds(needShell, needAttach), shellAttach},
	{"Shell/sessions-are-listed", allNeeds(needShell, needSessions), shellSessions},
	{"Shell/many-at-once", needShell, shellConcurrent},
	{"Shell/destroy-ends-what-runs", allNeeds(needShell, needFS), shellDestroy},
}

func needStreaming(e *Env) (string, bool) {
	return "Traits.Streaming is not claimed", e.Traits.Streaming
}

func needAttach(e *Env) (string, bool) {
	return "function shell.Attach is absent", e.sample.Shell.Attach != nil
}

func needSessions(e *Env) (string, bool) {
	return "function shell.Sessions is absent", e.sample.Shell.Sessions != nil
}

// start starts a command that is closed when the check ends.
func (p *testWorkspace) start(t testing.TB, cmd driver.Command) *driver.Session {
	t.Helper()
	s, err := p.d.Shell.Start(t.Context(), cmd)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() { s.Close(context.WithoutCancel(t.Context())) }) // it may be closed already
	return s
}

// run runs a command to its end, as package workspace does.
func (p *testWorkspace) run(ctx context.Context, cmd driver.Command) (driver.Result, error) {
	if p.d.Shell.Run != nil {
		return p.d.Shell.Run(ctx, cmd)
	}
	s, err := p.d.Shell.Start(ctx, cmd)
	if err != nil {
		return driver.Result{}, err
	}
	return s.Wait(ctx)
}

// runScriptOK runs a script that must end by itself.
func (p *testWorkspace) runScriptOK(t testing.TB, script string) driver.Result {
	t.Helper()
	return p.mustRun(t, driver.Command{Script: script})
}

func (p *testWorkspace) mustRun(t testing.TB, cmd driver.Command) driver.Result {
	t.Helper()
	res, err := p.run(t.Context(), cmd)
	if err != nil {
		t.Fatalf("run %q %q: %v", cmd.Argv, cmd.Script, err)
	}
	return res
}

func shellExit(t testing.TB, e *Env) {
	p := e.open(t)
	for _, code := range []string{"0", "1", "7", "255"} {
		res := p.runScriptOK(t, "echo before; exit "+code)
		if itoa(res.ExitCode) != code || res.Cause != "" || string(res.Stdout) != "before\n" {
			t.Errorf("exit %s gives %+v", code, res)
		}
		if res.Succeeded() != (code == "0") {
			t.Errorf("exit %s: Succeeded is %v", code, res.Succeeded())
		}
	}
}

func shellSignalled(t testing.TB, e *Env) {
	res := e.open(t).runScriptOK(t, "echo before; kill -KILL $$")
	if res.ExitCode != 128+9 || res.Signal != "SIGKILL" || string(res.Stdout) != "before\n" {
		t.Errorf("a command that kills itself gives %+v, want exit 137 by SIGKILL", res)
	}
}

func shellStreams(t testing.TB, e *Env) {
	res := e.open(t).runScriptOK(t, "echo out; echo err >&2; echo out2")
	if string(res.Stdout) != "out\nout2\n" || string(res.Stderr) != "err\n" {
		t.Errorf("stdout is %q and stderr %q", res.Stdout, res.Stderr)
	}
}

func shellArgv(t testing.TB, e *Env) {
	res := e.open(t).mustRun(t, driver.Command{Argv: []string{"printf", "%s|", "$HOME", "`id`", "a b", "; exit 3", "*"}})
	if want := "$HOME|`id`|a b|; exit 3|*|"; string(res.Stdout) != want || res.ExitCode != 0 {
		t.Errorf("got %q, exit %d; want %q", res.Stdout, res.ExitCode, want)
	}
}

func shellRefused(t testing.TB, e *Env) {
	p := e.open(t)
	for what, cmd := range map[string]driver.Command{
		"nothing":                   {},
		"argv and script":           {Argv: []string{"true"}, Script: "true"},
		"interactive with a reader": {Script: "true", Interactive: true, Stdin: strings.NewReader("x")},
		"NUL in an argument":        {Argv: []string{"echo", "a\x00b"}},
	} {
		_, err := p.d.Shell.Start(t.Context(), cmd)
		wantCode(t, "Start of "+what, err, fault.InvalidArgument)
	}
	_, err := p.d.Shell.Start(t.Context(), driver.Command{Script: "true", Dir: "missing"})
	wantCode(t, "Start in a missing directory", err, fault.NotFound)
}

func shellMissing(t testing.TB, e *Env) {
	p := e.open(t)
	_, err := p.d.Shell.Start(t.Context(), driver.Command{Argv: []string{"no-such-program-" + canary}})
	wantCode(t, "Start of a program that is missing", err, fault.NotFound)
	if res := p.runScriptOK(t, "no-such-program-"+canary); res.ExitCode != 127 {
		t.Errorf("a script that calls a missing program exits with %d, want 127", res.ExitCode)
	}
}

func shellDir(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "sub/dir/file", "here")
	res := p.mustRun(t, driver.Command{Argv: []string{"cat", "file"}, Dir: "sub/dir"})
	if string(res.Stdout) != "here" {
		t.Errorf("cat in the directory gives %+v", res)
	}
	if root := p.d.Traits.Root; root != "" {
		if got := strings.TrimSpace(string(p.runScriptOK(t, "pwd -P").Stdout)); got != root {
			t.Errorf("commands start in %q, want Traits.Root %q", got, root)
		}
	}
}

func shellFiles(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "in", "from outside")
	res := p.runScriptOK(t, "cat in && printf 'from inside' > out && mkdir d && rm in")
	if string(res.Stdout) != "from outside" || res.ExitCode != 0 {
		t.Errorf("the script gives %+v", res)
	}
	p.wantContent(t, "out", "from inside")
	p.wantNames(t, ".", "d", "out")
	p.write(t, "out", "replaced")
	if res := p.runScriptOK(t, "cat out"); string(res.Stdout) != "replaced" {
		t.Errorf("the script reads %q, want %q", res.Stdout, "replaced")
	}
}

func shellStdin(t testing.TB, e *Env) {
	p := e.open(t)
	if res := p.mustRun(t, driver.Command{Argv: []string{"cat"}}); len(res.Stdout) > 0 || res.ExitCode != 0 {
		t.Errorf("cat without input gives %+v", res)
	}
	data := string(patternBytes(3, 300_000))
	res := p.mustRun(t, driver.Command{Argv: []string{"cat"}, Stdin: strings.NewReader(data)})
	if string(res.Stdout) != data {
		t.Errorf("cat gives %d bytes, want the %d that went in", len(res.Stdout), len(data))
	}
	// A command that does not read all its input is no error.
	res = p.mustRun(t, driver.Command{Script: "head -c 3", Stdin: strings.NewReader(data)})
	if string(res.Stdout) != data[:3] || res.ExitCode != 0 {
		t.Errorf("head gives %q, exit %d", res.Stdout, res.ExitCode)
	}
}

func shellInteractive(t testing.TB, e *Env) {
	s := e.open(t).start(t, driver.Command{Script: `while read -r line; do echo "got $line"; done; echo end`, Interactive: true})
	wantNil(t, "Write", s.Write(t.Context(), []byte("one\ntwo\n")))
	pollUntil(t, s, "got one\ngot two\n")
	wantNil(t, "CloseStdin", s.CloseStdin(t.Context()))
	res, err := s.Wait(t.Context())
	if wantNil(t, "Wait", err) && (res.ExitCode != 0 || string(res.Stdout) != "got one\ngot two\nend\n") {
		t.Errorf("the session gives %+v", res)
	}
	if err := s.Write(t.Context(), []byte("late")); err == nil {
		t.Error("Write after the end succeeds")
	} else if fault.Of(err) == fault.Internal {
		t.Errorf("Write after the end: %v has no code", err)
	}
}

// pollUntil polls until standard output is as wanted; it returns all output.
func pollUntil(t testing.TB, s *driver.Session, want string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	got := ""
	for {
		poll, err := s.Poll(ctx, 0)
		if err != nil {
			t.Fatalf("Poll: %v", err)
		}
		got += string(poll.Stdout)
		if len(got) >= len(want) || !poll.Running && len(poll.Stdout) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("after %v standard output is %q, want %q", waitLimit, got, want)
		case <-time.After(5 * time.Millisecond):
		}
	}
	if got != want {
		t.Errorf("standard output is %s, want %s", clip(got), clip(want))
	}
	return got
}

func shellEnvironment(t testing.TB, e *Env) {
	e.setSecretVar(t)
	p := e.open(t)
	const proc = "cat /proc/self/environ 2>/dev/null; true"
	for _, text := range []string{"env", proc} {
		res, err := p.run(t.Context(), driver.Command{Script: text})
		if text == proc && fault.Of(err) == fault.SandboxViolation && p.d.Traits.Isolation.Rank() == 0 {
			continue // a command policy refuses the path
		}
		if err != nil {
			t.Fatalf("run %q: %v", text, err)
		}
		if strings.Contains(string(res.Stdout), canary) {
			t.Errorf("by %q a command sees the environment of the process that runs the workspace", text)
		}
	}
}

func shellEnvGiven(t testing.TB, e *Env) {
	p := e.open(t, func(s *driver.Spec) { s.Policy.Env = map[string]string{"OF_POLICY": "p", "BOTH": "policy"} })
	env := map[string]string{"OF_COMMAND": "c", "BOTH": "command"}
	res := p.mustRun(t, driver.Command{Script: `echo "$OF_POLICY $OF_COMMAND $BOTH ${PATH:+path}"`, Env: env})
	if want := "p c command path\n"; string(res.Stdout) != want {
		t.Errorf("the command sees %q, want %q", res.Stdout, want)
	}
	res = p.mustRun(t, driver.Command{Argv: []string{"/usr/bin/env"}, Env: env, Clean: true})
	lines := strings.Fields(string(res.Stdout))
	if len(lines) != 2 || !strings.Contains(string(res.Stdout), "OF_COMMAND=c") || !strings.Contains(string(res.Stdout), "BOTH=command") {
		t.Errorf("with a clean environment the command sees %q, want what was given alone", lines)
	}
}

func shellTruncated(t testing.TB, e *Env) {
	p := e.open(t)
	const size, most = 3_000_000, 1000
	cmd := driver.Command{Script: "head -c 3000000 /dev/zero | tr '\\0' x; echo END; echo small >&2", MaxOutput: most}
	res := p.mustRun(t, cmd)
	if len(res.Stdout) > most || int64(len(res.Stdout))+res.StdoutDropped != size+4 {
		t.Errorf("%d bytes came and %d were dropped, want at most %d and %d in all", len(res.Stdout), res.StdoutDropped, most, size+4)
	}
	if !strings.HasPrefix(string(res.Stdout), "x") || !strings.HasSuffix(string(res.Stdout), "END\n") {
		t.Errorf("the output is not head and tail: %s", clip(string(res.Stdout)))
	}
	if string(res.Stderr) != "small\n" || res.StderrDropped != 0 {
		t.Errorf("stderr is %q with %d dropped", res.Stderr, res.StderrDropped)
	}
	if p.d.Shell.Attach == nil || res.Session == "" {
		return
	}
	s, err := p.d.Shell.Attach(t.Context(), res.Session)
	if !wantNil(t, "Attach to the session of a truncated result", err) || s.Log == nil {
		return
	}
	chunk, err := s.Log(t.Context(), driver.Stdout, size, 100)
	if wantNil(t, "Log", err) && (string(chunk.Data) != "END\n" || chunk.Size != size+4) {
		t.Errorf("the end of the log is %q of %d bytes", chunk.Data, chunk.Size)
	}
}

func shellCallbacks(t testing.TB, e *Env) {
	p := e.open(t)
	var mu sync.Mutex
	var out, errs strings.Builder
	write := func(b *strings.Builder, err error) func([]byte) error {
		return func(data []byte) error {
			mu.Lock()
			defer mu.Unlock()
			b.Write(data)
			return err
		}
	}
	cmd := driver.Command{Script: "for i in 1 2 3; do echo o$i; echo e$i >&2; done", OnStdout: write(&out, nil), OnStderr: write(&errs, fault.ResourceExhausted)}
	res := p.mustRun(t, cmd)
	mu.Lock()
	defer mu.Unlock()
	if out.String() != "o1\no2\no3\n" || !strings.HasPrefix(errs.String(), "e1\n") {
		t.Errorf("the callbacks saw %q and %q", out.String(), errs.String())
	}
	if res.ExitCode != 0 || res.Cause != "" || len(res.CallbackErrors) == 0 || res.Succeeded() {
		t.Errorf("a callback that fails gives %+v, want exit 0 with callback errors", res)
	}
}

// shellStreaming sends input to a command only after its output arrived: without
// streaming both would wait.
func shellStreaming(t testing.TB, e *Env) {
	came := make(chan string, 100)
	s := e.open(t).start(t, driver.Command{
		Script: "echo question; read -r answer; echo \"got $answer\"", Interactive: true,
		OnStdout: func(data []byte) error { came <- string(data); return nil },
	})
	select {
	case got := <-came:
		if !strings.HasPrefix(got, "question") {
			t.Errorf("the first output is %q", got)
		}
	case <-time.After(waitLimit):
		t.Errorf("no output after %v, while the command waits for an answer", waitLimit)
	}
	wantNil(t, "Write", s.Write(t.Context(), []byte("answer\n")))
	res, err := s.Wait(t.Context())
	if wantNil(t, "Wait", err) && string(res.Stdout) != "question\ngot answer\n" {
		t.Errorf("the session gives %+v", res)
	}
}
