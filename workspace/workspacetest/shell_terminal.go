package workspacetest

import (
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/workspace/driver"
)

// Terminals, signals, and sessions that outlive the process that started them.
var terminalChecks = []Check{
	{"Shell/a-terminal-is-one", needShell, terminalIs},
	{"Shell/a-terminal-is-resized", needShell, terminalResize},
	{"Shell/end-of-file-on-a-terminal", needShell, terminalEOF},
	{"Shell/a-signal-arrives", needShell, signalArrives},
	{"Shell/a-detached-session-outlives-its-process", allNeeds(needShell, needAttach, needPersistence, needKill, needLastingSessions), detachedAcross},
}

func needLastingSessions(e *Env) (string, bool) {
	return "Traits.SessionsEnd: sessions end with their process", !e.SessionsEnd && !e.Traits.SessionsEnd
}

// waitOutput waits until a session has written a text.
func waitOutput(t testing.TB, s *driver.Session, want string) string {
	t.Helper()
	got := ""
	for till := time.Now().Add(waitLimit); time.Now().Before(till); time.Sleep(5 * time.Millisecond) {
		poll, err := s.Poll(t.Context(), 0)
		if err != nil {
			t.Fatalf("Poll: %v", err)
		}
		if got += string(poll.Stdout); strings.Contains(got, want) {
			return got
		}
		if !poll.Running && len(poll.Stdout) == 0 {
			break
		}
	}
	t.Fatalf("the session says %q, want %q in it", got, want)
	return got
}

func terminalIs(t testing.TB, e *Env) {
	res := e.open(t).mustRun(t, driver.Command{
		Script: "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo terminal; stty size; echo to-stderr >&2", TTY: &driver.Size{Rows: 33, Cols: 77},
	})
	got := strings.ReplaceAll(string(res.Stdout), "\r\n", "\n")
	if got != "terminal\n33 77\nto-stderr\n" || len(res.Stderr) > 0 {
		t.Errorf("on a terminal of 33 by 77 a command says %q and %q", got, res.Stderr)
	}
}

func terminalResize(t testing.TB, e *Env) {
	s := e.open(t).start(t, driver.Command{
		Script: "trap 'stty size; exit 3' WINCH; echo ready; while :; do sleep 0.02; done", TTY: &driver.Size{Rows: 24, Cols: 80},
	})
	if s.Resize == nil {
		t.Skip("skipped: function session.Resize is absent")
	}
	waitOutput(t, s, "ready")
	wantNil(t, "Resize", s.Resize(t.Context(), driver.Size{Rows: 50, Cols: 132}))
	waitOutput(t, s, "50 132")
	if res, err := s.Wait(t.Context()); wantNil(t, "Wait", err) && res.ExitCode != 3 {
		t.Errorf("it ends with %+v", res)
	}
}

func terminalEOF(t testing.TB, e *Env) {
	s := e.open(t).start(t, driver.Command{Script: "stty -echo; echo ready; cat; echo end", Interactive: true, TTY: &driver.Size{Rows: 24, Cols: 80}})
	waitOutput(t, s, "ready")
	wantNil(t, "Write", s.Write(t.Context(), []byte("line\n")))
	waitOutput(t, s, "line")
	wantNil(t, "CloseStdin", s.CloseStdin(t.Context()))
	if res, err := s.Wait(t.Context()); wantNil(t, "Wait", err) && (res.ExitCode != 0 || !strings.Contains(string(res.Stdout), "end")) {
		t.Errorf("after the end of file: %+v", res)
	}
}

func signalArrives(t testing.TB, e *Env) {
	s := e.open(t).start(t, driver.Command{Script: "trap 'echo caught; exit 5' USR1; echo ready; while :; do sleep 0.02; done"})
	if s.Signal == nil {
		t.Skip("skipped: function session.Signal is absent")
	}
	waitOutput(t, s, "ready")
	if err := s.Signal(t.Context(), "SIGNONSENSE"); err == nil {
		t.Error("a signal that there is not is sent")
	}
	wantNil(t, "Signal", s.Signal(t.Context(), "SIGUSR1"))
	// The children of the shell get the signal, too, and end.
	if res, err := s.Wait(t.Context()); wantNil(t, "Wait", err) && (res.ExitCode != 5 || !strings.Contains(string(res.Stdout), "caught")) {
		t.Errorf("after a signal: %+v", res)
	}
}

// detachedAcross: another process starts a session and dies.
func detachedAcross(t testing.TB, e *Env) {
	p := e.open(t)
	ref := p.Ref()
	a := e.runChild(t, childJob{Verb: "start", Ref: &ref, Script: "echo begun; while ! [ -e go ]; do sleep 0.02; done; echo done; exit 9", KillAt: -1})
	if err := a.asError(); err != nil {
		t.Fatal(err)
	}
	s, err := p.d.Shell.Attach(t.Context(), a.Name)
	if err != nil {
		t.Fatalf("Attach to the session of a process that is dead: %v", err)
	}
	waitOutput(t, s, "begun")
	if info, err := s.State(t.Context()); wantNil(t, "State", err) && !info.Running {
		t.Errorf("it ended with its process: %+v", info)
	}
	if _, err := p.WriteFile(t.Context(), "go", nil, nil); err != nil {
		t.Fatal(err)
	}
	if res, err := s.Wait(t.Context()); wantNil(t, "Wait", err) && (res.ExitCode != 9 || !strings.HasSuffix(string(res.Stdout), "done\n")) {
		t.Errorf("it ends with %+v, want exit 9", res)
	}
}
