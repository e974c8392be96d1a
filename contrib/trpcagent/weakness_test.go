package trpcagent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"trpc.group/trpc-go/trpc-agent-go/codeexecutor"

	"github.com/croft-run/croft/contrib/trpcagent"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace/driver"
)

func create(t *testing.T, e *trpcagent.Executor) codeexecutor.Workspace {
	t.Helper()
	ws, err := e.CreateWorkspace(t.Context(), "w", codeexecutor.WorkspacePolicy{})
	must(t, err)
	return ws
}

// Nobody else on the host gets into a workspace.
func TestWorkspaceIsClosedToOthers(t *testing.T) {
	ws := create(t, open(t, local.Kind, nil))
	info, err := os.Stat(filepath.Dir(ws.Path))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory that holds it has mode %v, %v; want 0700", info.Mode(), err)
	}
}

// Limits of a run are enforced, or the run is refused: never ignored.
func TestLimitsHoldOrAreRefused(t *testing.T) {
	limits := map[string]codeexecutor.ResourceLimits{
		"memory": {MemoryMB: 32}, "processes": {MaxPIDs: 2}, "processor": {CPUPercent: 50},
	}
	e := open(t, local.Kind, nil)
	ws := create(t, e)
	for name, l := range limits {
		if name == "memory" {
			continue // a resource limit of each process: see TestMemoryLimitOfOneRun
		}
		if _, err := e.RunProgram(t.Context(), ws, codeexecutor.RunProgramSpec{Cmd: "true", Limits: l}); fault.Of(err) != fault.Unsupported {
			t.Errorf("local, %s: %v, want Unsupported", name, err)
		}
	}
	p, _ := testshell.NewProvider(t, sandbox.Kind)
	traits, err := p.Probe(t.Context())
	must(t, err)
	enforced := traits.Limits
	e = open(t, sandbox.Kind, nil)
	ws = create(t, e)
	for name, cmd := range map[string]string{
		"processor": "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass\nprint('got it' if time.process_time() > 0.8 else 'limited')",
		"memory":    "x = bytearray(300 << 20); print('got it')",
		"processes": "import os, time\nn = 0\nfor i in range(8):\n  try:\n    if os.fork() == 0: time.sleep(1); os._exit(0)\n    n += 1\n  except OSError: pass\nprint('got it' if n == 8 else n)",
	} {
		res, err := e.RunProgram(t.Context(), ws, codeexecutor.RunProgramSpec{Cmd: "python3", Args: []string{"-c", cmd}, Limits: limits[name], Timeout: time.Minute})
		if fault.Of(err) == fault.Unsupported && !enforced[driver.ResourcePIDs].Enforced() {
			continue // refused, and the message says why
		}
		if err != nil || strings.Contains(res.Stdout, "got it") {
			t.Errorf("sandbox, %s: %+v, %v", name, res, err)
		}
	}
}

// What a result lacks is said in it, and is no error: output beyond the limit, and files
// beyond the limits of Collect.
func TestWhatIsLeftOutIsSaid(t *testing.T) {
	everywhere(t, func(t *testing.T, e *trpcagent.Executor) {
		ws := create(t, e)
		const script = `mkdir -p out; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do truncate -s 4M out/$i; done
			head -c 9000000 /dev/zero | tr '\0' x`
		res, err := e.RunProgram(t.Context(), ws, codeexecutor.RunProgramSpec{Cmd: "sh", Args: []string{"-c", script}})
		if err != nil || !strings.Contains(res.Stdout, " bytes elided)\nx") {
			t.Errorf("%d bytes of output came without a mark: %v", len(res.Stdout), err)
		}
		files, err := e.Collect(t.Context(), ws, []string{"out/*"})
		if err != nil || len(files) != 17 {
			t.Fatalf("%d files were collected, %v; want 16 and %s", len(files), err, trpcagent.LeftOutName)
		}
		if last := files[16]; last.Name != trpcagent.LeftOutName || !strings.Contains(last.Content, "files beyond the limits: 4") {
			t.Errorf("the last file is %q with %q", last.Name, last.Content)
		}
	})
}

// A context that ends is an error, not a program that exited with -1.
func TestCancelledRunIsAnError(t *testing.T) {
	everywhere(t, func(t *testing.T, e *trpcagent.Executor) {
		ws := create(t, e)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(200*time.Millisecond, cancel)
		if _, err := e.RunProgram(ctx, ws, codeexecutor.RunProgramSpec{Cmd: "sleep", Args: []string{"60"}}); !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v, want Canceled", err)
		}
	})
}

// patience is how long tests wait for what must come, on a machine that has much else
// to do.
const patience = 2 * time.Minute

// until polls a session until its program has exited, or what it wrote has text.
func until(t *testing.T, s codeexecutor.ProgramSession, text string) string {
	t.Helper()
	seen := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		p := s.Poll(nil)
		seen += p.Output
		if p.Status == codeexecutor.ProgramStatusExited || text != "" && strings.Contains(seen, text) {
			return seen
		}
	}
	t.Fatalf("after %v there is %q, and no %q", patience, seen, text)
	return ""
}

func start(ctx context.Context, t *testing.T, e *trpcagent.Executor, ws codeexecutor.Workspace, script string, tty bool) codeexecutor.ProgramSession {
	t.Helper()
	spec := codeexecutor.InteractiveProgramSpec{RunProgramSpec: codeexecutor.RunProgramSpec{Cmd: "sh", Args: []string{"-c", script}}, TTY: tty}
	s, err := e.StartProgram(ctx, ws, spec)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// What a session writes comes once, whole, with its lines apart.
func TestSessionOutputComesOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, e *trpcagent.Executor) {
		ws := create(t, e)
		s := start(t.Context(), t, e, ws, `printf 'Name: '; read n; for i in 1 2 3; do echo line$i; done; echo oops >&2`, false)
		if got := until(t, s, "Name: "); got != "Name: " {
			t.Errorf("the prompt is %q", got)
		}
		for range 5 {
			if p := s.Poll(nil); p.Output != "" || p.Offset != p.NextOffset {
				t.Errorf("what was polled comes again: %+v", p)
			}
		}
		must(t, s.Write("Ada", true))
		got := until(t, s, "")
		if !strings.Contains(got, "line1\nline2\nline3\n") || !strings.Contains(got, "oops\n") || len(got) != len("line1\nline2\nline3\noops\n") {
			t.Errorf("then came %q", got)
		}
		if log := s.Log(nil, nil); log.Output != "Name: "+got {
			t.Errorf("the log has %q", log.Output)
		}
		state := s.(codeexecutor.ProgramStateProvider).State()
		if state.ExitCode == nil || *state.ExitCode != 0 {
			t.Errorf("the state is %+v", state)
		}
	})
}

// A program can be told that its input ended, sent a signal, and given a size.
func TestSessionControls(t *testing.T) {
	everywhere(t, func(t *testing.T, e *trpcagent.Executor) {
		ws := create(t, e)
		cat := start(t.Context(), t, e, ws, "cat; echo end", false)
		must(t, cat.Write("text", false))
		must(t, cat.(trpcagent.Controller).CloseStdin())
		if got := until(t, cat, ""); got != "textend\n" {
			t.Errorf("cat wrote %q", got)
		}
		trap := start(t.Context(), t, e, ws, "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.05; done", false)
		until(t, trap, "ready")
		must(t, trap.(trpcagent.Controller).Signal("SIGINT"))
		if got := until(t, trap, ""); got != "\ncaught\n" && got != "caught\n" {
			t.Errorf("after the signal came %q", got)
		}
		tty := start(t.Context(), t, e, ws, "stty size; read x; stty size", true)
		if got := until(t, tty, "24 80"); !strings.Contains(got, "24 80") {
			t.Errorf("the size is %q", got)
		}
		must(t, tty.(trpcagent.Controller).Resize(100, 40))
		must(t, tty.Write("", true))
		if got := until(t, tty, ""); !strings.Contains(got, "40 100") {
			t.Errorf("then the size is %q", got)
		}
	})
}

// Killing ends all that was started, at once; a request that ends does not.
func TestSessionEndsWholeAndOutlivesItsRequest(t *testing.T) {
	everywhere(t, func(t *testing.T, e *trpcagent.Executor) {
		ws := create(t, e)
		request, cancel := context.WithCancel(t.Context())
		s := start(request, t, e, ws, "sleep 1000 & echo up; sleep 1000; true", false)
		until(t, s, "up")
		cancel()
		if p := s.Poll(nil); p.Status != codeexecutor.ProgramStatusRunning {
			t.Errorf("it ended with its request: %+v", p)
		}
		must(t, s.Kill(0))
		until(t, s, "")
		res, err := e.RunProgram(t.Context(), ws, codeexecutor.RunProgramSpec{Cmd: "sh", Args: []string{"-c", `grep -l "^sleep.1000" /proc/[0-9]*/cmdline 2>/dev/null | wc -l`}})
		if e.Describe().Isolation != "none" && (err != nil || strings.TrimSpace(res.Stdout) != "0") {
			t.Errorf("something lives on: %+v, %v", res, err)
		}
	})
}

// A session whose workspace is gone has exited: a caller that polls it until then does
// not wait for ever.
func TestSessionEndsWithItsWorkspace(t *testing.T) {
	everywhere(t, func(t *testing.T, e *trpcagent.Executor) {
		ws, err := e.CreateWorkspace(t.Context(), "goes", codeexecutor.WorkspacePolicy{})
		must(t, err)
		s, err := e.StartProgram(t.Context(), ws, codeexecutor.InteractiveProgramSpec{RunProgramSpec: codeexecutor.RunProgramSpec{Cmd: "sh", Args: []string{"-c", "echo up; sleep 1000"}}})
		must(t, err)
		until(t, s, "up")
		must(t, e.Cleanup(t.Context(), ws))
		until(t, s, "")
		if p := s.Poll(nil); p.Status != codeexecutor.ProgramStatusExited || p.ExitCode == nil || *p.ExitCode == 0 {
			t.Errorf("after its workspace went: %+v", p)
		}
		if _, err := e.RunProgram(t.Context(), ws, codeexecutor.RunProgramSpec{Cmd: "true"}); !errors.Is(err, codeexecutor.ErrWorkspaceStale) {
			t.Errorf("RunProgram = %v", err)
		}
	})
}

// Code that runs under one id at once shares one workspace, as code that runs one
// after the other does.
func TestCodeOfOneIDSharesItsWorkspace(t *testing.T) {
	e := open(t, local.Kind, nil)
	var g sync.WaitGroup
	for i := range 8 {
		g.Go(func() {
			in := codeexecutor.CodeExecutionInput{ExecutionID: "a", CodeBlocks: []codeexecutor.CodeBlock{{Language: "sh", Code: fmt.Sprintf("touch $WORK_DIR/%d", i)}}}
			if _, err := e.ExecuteCode(t.Context(), in); err != nil {
				t.Error(err)
			}
		})
	}
	g.Wait()
	res, err := e.ExecuteCode(t.Context(), codeexecutor.CodeExecutionInput{ExecutionID: "a", CodeBlocks: []codeexecutor.CodeBlock{{Language: "sh", Code: "ls $WORK_DIR | wc -l"}}})
	if err != nil || strings.TrimSpace(res.Output) != "8" {
		t.Errorf("there are the files of %q of 8, %v", res.Output, err)
	}
}
