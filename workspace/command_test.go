package workspace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

func TestCommandMirrorsExec(t *testing.T) {
	w, h := newShell(t, nil)
	ctx := t.Context()
	if err := os.Mkdir(filepath.Join(h.dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := w.Command(ctx, "echo", "a b", "$HOME").Output()
	if got := string(out); got != "a b $HOME\n" || err != nil {
		t.Errorf("Output = %q, %v; want argv untouched by a shell", got, err)
	}
	c := w.Script(ctx, `read line; echo "$line $A $(basename $PWD)"; echo err >&2; exit 3`)
	c.Dir, c.Env, c.Stdin = "sub/", []string{"A=1", "A=2"}, strings.NewReader("in\n")
	out, err = c.Output()
	var exit *ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("Output = %v, want an ExitError", err)
	}
	if got, want := []string{string(out), string(exit.Stderr), err.Error()}, []string{"in 2 sub\n", "err\n", "exit status 3"}; !cmp.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if c.Result.ExitCode != 3 || exit.ExitCode != 3 {
		t.Errorf("exit codes are %d and %d, want 3", c.Result.ExitCode, exit.ExitCode)
	}
	out, err = w.Script(ctx, "echo 1; echo 2 >&2; echo 3").CombinedOutput()
	if len(out) != 6 || err != nil {
		t.Errorf("CombinedOutput = %q, %v", out, err)
	}
	if err := w.Command(ctx, "no-such-program").Run(); fault.Of(err) != fault.NotFound {
		t.Errorf("Run of no program = %v, want NotFound", err)
	}
	if left, err := w.Sessions(ctx); len(left) != 0 || err != nil {
		t.Errorf("%d sessions are left, %v", len(left), err)
	}
}

func TestCommandPipes(t *testing.T) {
	w, _ := newShell(t, nil)
	c := w.Command(t.Context(), "cat")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("x")); fault.Of(err) != fault.WrongState {
		t.Errorf("Write before Start = %v, want WrongState", err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 5)
	for _, text := range []string{"first", "secon"} { // a dialogue: each answer comes before the next question
		if _, err := io.WriteString(in, text); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, buf); string(buf) != text || err != nil {
			t.Errorf("read %q, %v", buf, err)
		}
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(out); len(rest) != 0 || err != nil { // before Wait, as with os/exec
		t.Errorf("at the end: %q, %v", rest, err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("Wait = %v", err)
	}
	for what, err := range map[string]error{"Wait": c.Wait(), "Start": c.Start()} {
		if fault.Of(err) != fault.WrongState {
			t.Errorf("second %s = %v, want WrongState", what, err)
		}
	}
}

func TestAWriterThatFailsIsToldByWait(t *testing.T) {
	w, _ := newShell(t, nil)
	c := w.Script(t.Context(), "echo x; exit 0")
	c.Stdout = writerFunc(func([]byte) (int, error) { return 0, fault.ResourceExhausted })
	if err := c.Run(); fault.Of(err) != fault.ResourceExhausted {
		t.Errorf("Run = %v, want the writer's error", err)
	}
	if len(c.Result.CallbackErrors) == 0 {
		t.Error("the result does not tell of it")
	}
}

func TestRunReturnsResults(t *testing.T) {
	w, _ := newShell(t, nil)
	tests := map[string]struct {
		cmd   driver.Command
		exit  int
		cause driver.Cause
		out   string
	}{
		"success": {driver.Command{Script: "echo hi"}, 0, "", "hi\n"},
		"failure": {driver.Command{Script: "echo hi; exit 7"}, 7, "", "hi\n"},
		"timeout": {driver.Command{Script: "echo hi; sleep 1000", Timeout: 100 * time.Millisecond}, 137, driver.CauseTimeout, "hi\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res, err := w.Run(t.Context(), tt.cmd)
			for err == nil && res.Cause == driver.CauseTimeout && len(res.Stdout) == 0 && tt.cmd.Timeout < time.Minute { // it did not get to say anything
				tt.cmd.Timeout *= 10
				res, err = w.Run(t.Context(), tt.cmd)
			}
			if err != nil || res.ExitCode != tt.exit || res.Cause != tt.cause || string(res.Stdout) != tt.out {
				t.Errorf("Run = %+v, %v; want %d, %q, %q", res, err, tt.exit, tt.cause, tt.out)
			}
		})
	}
}

func TestTheEndOfTheContextKillsAndKeepsTheOutput(t *testing.T) {
	w, h := newShell(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	res, err := w.Run(ctx, driver.Command{
		Script:   "echo partial; sleep 1000 & wait",
		OnStdout: func([]byte) error { cancel(); return nil },
	})
	if err != nil || res.Cause != driver.CauseCanceled || string(res.Stdout) != "partial\n" {
		t.Errorf("Run = %+v, %v", res, err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	c := w.Script(ctx, "echo partial; sleep 1000 & wait")
	var out bytes.Buffer
	c.Stdout = writerFunc(func(p []byte) (int, error) { cancel(); return out.Write(p) })
	err = c.Run()
	if fault.Of(err) != fault.Canceled || out.String() != "partial\n" {
		t.Errorf("Cmd.Run = %v, %q", err, out.String())
	}
	if h.running() {
		t.Error("processes are left")
	}
}

func TestClosingTheHandleEndsCommands(t *testing.T) {
	for _, how := range []string{"Run", "Cmd", "Cmd whose pipe nobody reads", "Wait"} {
		t.Run(how, func(t *testing.T) {
			w, h := newShell(t, nil)
			running := make(chan struct{})
			var once sync.Once
			said := func([]byte) (int, error) { once.Do(func() { close(running) }); return 0, nil }
			const script = "echo started; sleep 1000 & wait"
			ended := make(chan error, 1)
			var wg sync.WaitGroup
			wg.Go(func() {
				switch how {
				case "Run":
					_, err := w.Run(t.Context(), driver.Command{Script: script, OnStdout: func(p []byte) error { _, err := said(p); return err }})
					ended <- err
				case "Cmd":
					c := w.Script(t.Context(), script)
					c.Stdout = writerFunc(func(p []byte) (int, error) { said(p); return len(p), nil })
					ended <- c.Run()
				case "Cmd whose pipe nobody reads":
					c := w.Script(t.Context(), script)
					if _, err := c.StdoutPipe(); err != nil {
						t.Error(err)
					}
					err := c.Start()
					close(running)
					ended <- errors.Join(err, c.Wait())
				case "Wait":
					s, err := w.Start(t.Context(), driver.Command{Script: script, OnStdout: func(p []byte) error { _, err := said(p); return err }})
					if err != nil {
						t.Error(err)
					}
					_, err = s.Wait(t.Context())
					ended <- err
				}
			})
			<-running
			if err := w.Close(t.Context()); err != nil {
				t.Errorf("Close = %v", err)
			}
			if err := <-ended; err == nil {
				t.Error("the command succeeded")
			}
			wg.Wait()
			if how != "Wait" && h.running() { // a session that was only waited for is the driver's to end
				t.Error("processes are left")
			}
			for _, p := range sessionsOf(h.started) {
				p.Close(t.Context())
			}
		})
	}
}

func TestACommandNeverRunsTwice(t *testing.T) {
	renewing := &Options{Renew: func(_ context.Context, stale *driver.Workspace) (*driver.Workspace, error) {
		next := *stale
		return &next, nil
	}}
	t.Run("evicted before it ran", func(t *testing.T) {
		w, h := newShell(t, renewing)
		h.evict.Store(1)
		res, err := w.Run(t.Context(), driver.Command{Script: "echo x >> log"})
		if err != nil || res.ExitCode != 0 || h.starts.Load() != 1 {
			t.Errorf("Run = %+v, %v after %d starts", res, err, h.starts.Load())
		}
	})
	t.Run("lost while it ran", func(t *testing.T) {
		w, h := newShell(t, renewing)
		h.lose.Store(true)
		res, err := w.Run(t.Context(), driver.Command{Script: "true"})
		if err != nil || res.Cause != driver.CauseLost || res.ExitCode != -1 || h.starts.Load() != 1 {
			t.Errorf("Run = %+v, %v after %d starts; want it lost", res, err, h.starts.Load())
		}
		err = w.Script(t.Context(), "true").Run()
		if fault.Of(err) != fault.Unavailable || h.starts.Load() != 2 {
			t.Errorf("Cmd.Run = %v after %d starts", err, h.starts.Load())
		}
	})
	t.Run("evicted by a Run that had put something out", func(t *testing.T) {
		runs := 0
		w, _ := newShell(t, renewing, func(d *driver.Workspace) {
			d.Shell.Run = func(_ context.Context, cmd driver.Command) (driver.Result, error) {
				runs++
				cmd.OnStdout([]byte("effect"))
				return driver.Result{}, fault.Evicted
			}
		})
		_, err := w.Run(t.Context(), driver.Command{Script: "true", OnStdout: func([]byte) error { return nil }})
		if fault.Of(err) != fault.Unavailable || runs != 1 {
			t.Errorf("Run = %v after %d runs, want Unavailable after 1", err, runs)
		}
	})
}

func TestASessionIsFoundAgainAfterAnEviction(t *testing.T) {
	evicted := false
	var w *Workspace
	w, h := newShell(t, &Options{Renew: func(_ context.Context, stale *driver.Workspace) (*driver.Workspace, error) {
		evicted = false
		next := *stale
		return &next, nil
	}})
	s, err := w.Start(t.Context(), driver.Command{Argv: []string{"cat"}, Interactive: true})
	if err != nil {
		t.Fatal(err)
	}
	inner := s.currentSession().Process
	s.current.Load().Process = evictedProcess{inner, &evicted}
	h.started[s.ID()] = &driver.Session{Process: inner}
	evicted = true
	if err := s.Write(t.Context(), []byte("x")); err != nil {
		t.Fatalf("Write = %v", err)
	}
	if err := s.CloseStdin(t.Context()); err != nil {
		t.Fatal(err)
	}
	res, err := s.Wait(t.Context())
	if string(res.Stdout) != "x" || err != nil {
		t.Errorf("Wait = %+v, %v", res, err)
	}
}

type evictedProcess struct {
	driver.Process
	evicted *bool
}

func (p evictedProcess) Write(ctx context.Context, data []byte) error {
	if *p.evicted {
		return fault.Evicted
	}
	return p.Process.Write(ctx, data)
}

func TestCommandsAreJudgedBeforeADriverSeesThem(t *testing.T) {
	w, h := newShell(t, nil)
	tests := map[string]struct {
		cmd  driver.Command
		want fault.Code
	}{
		"nothing":     {driver.Command{}, fault.InvalidArgument},
		"both":        {driver.Command{Argv: []string{"a"}, Script: "b"}, fault.InvalidArgument},
		"no program":  {driver.Command{Argv: []string{""}}, fault.InvalidArgument},
		"NUL":         {driver.Command{Argv: []string{"a", "b\x00"}}, fault.InvalidArgument},
		"NUL script":  {driver.Command{Script: "\x00"}, fault.InvalidArgument},
		"dir":         {driver.Command{Script: "true", Dir: "../x"}, fault.SandboxViolation},
		"env":         {driver.Command{Script: "true", Env: map[string]string{"A=B": "x"}}, fault.InvalidArgument},
		"env NUL":     {driver.Command{Script: "true", Env: map[string]string{"A": "\x00"}}, fault.InvalidArgument},
		"stdin":       {driver.Command{Script: "true", Interactive: true, Stdin: strings.NewReader("")}, fault.InvalidArgument},
		"timeout":     {driver.Command{Script: "true", Timeout: -1}, fault.InvalidArgument},
		"terminal":    {driver.Command{Script: "true", TTY: &Size{}}, fault.InvalidArgument},
		"limit":       {driver.Command{Script: "true", Limits: Limits{driver.ResourceCPU: {Max: -1}}}, fault.InvalidArgument},
		"not started": {driver.Command{Argv: []string{"no-such-program"}}, fault.NotFound},
	}
	for name, tt := range tests {
		_, runErr := w.Run(t.Context(), tt.cmd)
		_, startErr := w.Start(t.Context(), tt.cmd)
		if fault.Of(runErr) != tt.want || fault.Of(startErr) != tt.want {
			t.Errorf("%s: Run = %v, Start = %v, want %s", name, runErr, startErr, tt.want)
		}
	}
	if got := h.starts.Load(); got != 2 {
		t.Errorf("the driver saw %d commands, want the 2 that it could not find", got)
	}
}
