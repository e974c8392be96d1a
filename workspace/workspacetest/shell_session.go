package workspacetest

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

func shellPoll(t testing.TB, e *Env) {
	s := e.open(t).start(t, driver.Command{Script: "for i in $(seq 1 2000); do echo line $i; done"})
	want := ""
	for i := range 2000 {
		want += "line " + itoa(i+1) + "\n"
	}
	pollUntil(t, s, want)
	res, err := s.Wait(t.Context())
	if wantNil(t, "Wait", err) && string(res.Stdout) != want {
		t.Errorf("Poll took output from the result: %d bytes are left of %d", len(res.Stdout), len(want))
	}
	poll, err := s.Poll(t.Context(), 0)
	if wantNil(t, "Poll", err) && (len(poll.Stdout) > 0 || poll.Running) {
		t.Errorf("after all was polled there is %q, running %v", poll.Stdout, poll.Running)
	}
	// A limit is respected, and the rest comes with the next Poll.
	s = e.open(t).start(t, driver.Command{Script: "printf 0123456789"})
	if _, err := s.Wait(t.Context()); err != nil {
		t.Fatalf("Wait: %v", err)
	}
	got := ""
	for range 10 {
		poll, err := s.Poll(t.Context(), 3)
		if !wantNil(t, "Poll", err) {
			return
		}
		if len(poll.Stdout) > 3 {
			t.Errorf("Poll with limit 3 gives %q", poll.Stdout)
		}
		got += string(poll.Stdout)
	}
	if got != "0123456789" {
		t.Errorf("polls of three bytes give %q", got)
	}
}

func shellLog(t testing.TB, e *Env) {
	s := e.open(t).start(t, driver.Command{Script: "printf 0123456789; printf err >&2"})
	if s.Log == nil {
		t.Skip("skipped: function session.Log is absent")
	}
	if _, err := s.Wait(t.Context()); err != nil {
		t.Fatalf("Wait: %v", err)
	}
	for _, tt := range []struct {
		stream        driver.Stream
		offset, limit int64
		want          string
		next, size    int64
	}{
		{driver.Stdout, 0, 0, "0123456789", 10, 10}, {driver.Stdout, 3, 4, "3456", 7, 10}, {driver.Stdout, 8, 100, "89", 10, 10},
		{driver.Stdout, 0, 2, "01", 2, 10}, {driver.Stdout, 10, 5, "", 10, 10}, {driver.Stderr, 1, 0, "rr", 3, 3},
	} {
		chunk, err := s.Log(t.Context(), tt.stream, tt.offset, tt.limit)
		if !wantNil(t, "Log", err) {
			continue
		}
		if string(chunk.Data) != tt.want || chunk.Offset != tt.offset || chunk.Next != tt.next || chunk.Size != tt.size {
			t.Errorf("Log(%s, %d, %d) = %+v, want %q", tt.stream, tt.offset, tt.limit, chunk, tt.want)
		}
	}
	poll, err := s.Poll(t.Context(), 0)
	if wantNil(t, "Poll", err) && string(poll.Stdout) != "0123456789" {
		t.Errorf("Log moved the cursor of Poll, which gives %q", poll.Stdout)
	}
	_, err = s.Log(t.Context(), driver.Stdout, -1, 0)
	wantCode(t, "Log from a negative offset", err, fault.InvalidArgument)
}

func shellWait(t testing.TB, e *Env) {
	s := e.open(t).start(t, driver.Command{Script: "echo out; exit 4"})
	for range 3 {
		res, err := s.Wait(t.Context())
		if wantNil(t, "Wait", err) && (res.ExitCode != 4 || string(res.Stdout) != "out\n") {
			t.Errorf("Wait gives %+v", res)
		}
	}
	info, err := s.State(t.Context())
	if wantNil(t, "State", err) && (info.Running || info.Result == nil || info.Result.ExitCode != 4 || info.ID != s.ID()) {
		t.Errorf("State gives %+v", info)
	}
}

// timedOut runs a script until its time-out. It repeats that with a longer time-out,
// in a new workspace, until the script could create the file "there", because a
// loaded machine may be slow.
func (e *Env) timedOut(t testing.TB, script string, limits ...time.Duration) (p *testWorkspace, res driver.Result) {
	t.Helper()
	for _, limit := range limits {
		p = e.open(t)
		if res = p.mustRun(t, driver.Command{Script: script, Timeout: limit}); p.hasFile(t, "there") {
			break
		}
	}
	return p, res
}

// hasFile reports whether a file exists, or can't be checked.
func (p *testWorkspace) hasFile(t testing.TB, name string) bool {
	t.Helper()
	if p.d.FS == nil {
		return true
	}
	_, err := p.Stat(t.Context(), name, nil)
	if err != nil && fault.Of(err) != fault.NotFound {
		t.Errorf("Stat(%q): %v", name, err)
	}
	return err == nil
}

func shellTimeout(t testing.TB, e *Env) {
	_, res := e.timedOut(t, "echo early; echo oops >&2; : > there; sleep 1000; echo late", 500*time.Millisecond, 5*time.Second, waitLimit)
	if res.Cause != driver.CauseTimeout || res.ExitCode == 0 || string(res.Stdout) != "early\n" || string(res.Stderr) != "oops\n" {
		t.Errorf("a command that timed out gives %+v, want its output and the cause %q", res, driver.CauseTimeout)
	}
}

// family starts processes that outlive a careless kill: in the background, in their
// own session, ignoring signals. Each keeps writing to a file.
const family = `
beat() { while :; do echo x >> "$1"; sleep 0.02; done; }
export -f beat
beat one &
(trap '' TERM HUP INT; beat two) &
if command -v setsid > /dev/null; then setsid bash -c 'beat three' & fi
nohup bash -c 'beat four' > /dev/null 2>&1 &
(bash -c 'beat five' &)
while ! [ -s one -a -s two -a -s four -a -s five ]; do sleep 0.01; done
echo ready
: > there
sleep 1000
`

// wantSilence reports that one of the family still writes. It waits as long as
// another command takes for ten intervals, so a slow machine slows both.
func (p *testWorkspace) wantSilence(t testing.TB) {
	t.Helper()
	before := p.treeDigest(t)
	p.runScriptOK(t, "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.02; done")
	if after := p.treeDigest(t); after == before {
		return
	}
	t.Error("something of the tree still runs after the command ended")
}

func shellTimeoutTree(t testing.TB, e *Env) {
	p, res := e.timedOut(t, family, 3*time.Second, 20*time.Second, waitLimit)
	if res.Cause != driver.CauseTimeout || string(res.Stdout) != "ready\n" {
		t.Errorf("the command gives %+v", res)
	}
	p.wantSilence(t)
}

func shellKillTree(t testing.TB, e *Env) {
	p := e.open(t)
	s := p.start(t, driver.Command{Script: family})
	pollUntil(t, s, "ready\n")
	wantNil(t, "Kill", s.Kill(t.Context(), 0))
	res, err := s.Wait(t.Context())
	if wantNil(t, "Wait", err) && (res.Cause != driver.CauseKilled || res.ExitCode != 128+9 || string(res.Stdout) != "ready\n") {
		t.Errorf("a command that was killed gives %+v, want exit 137 with the cause %q", res, driver.CauseKilled)
	}
	p.wantSilence(t)
}

func shellGrace(t testing.TB, e *Env) {
	p := e.open(t)
	s := p.start(t, driver.Command{Script: "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.02; done"})
	pollUntil(t, s, "ready\n")
	wantNil(t, "Kill", s.Kill(t.Context(), waitLimit))
	res, err := s.Wait(t.Context())
	if wantNil(t, "Wait", err) && (string(res.Stdout) != "ready\nbye\n" || res.ExitCode != 3 || res.Cause != driver.CauseKilled) {
		t.Errorf("a command that was asked to end gives %+v", res)
	}
	s = p.start(t, driver.Command{Script: "trap '' TERM; echo ready; while :; do sleep 0.02; done"})
	pollUntil(t, s, "ready\n")
	wantNil(t, "Kill", s.Kill(t.Context(), 50*time.Millisecond))
	res, err = s.Wait(t.Context())
	if wantNil(t, "Wait", err) && (res.ExitCode != 128+9 || res.Cause != driver.CauseKilled) {
		t.Errorf("a command that is deaf gives %+v, want exit 137", res)
	}
}

func shellKillEnded(t testing.TB, e *Env) {
	s := e.open(t).start(t, driver.Command{Script: "exit 5"})
	if _, err := s.Wait(t.Context()); err != nil {
		t.Fatalf("Wait: %v", err)
	}
	wantNil(t, "Kill after the end", s.Kill(t.Context(), 0))
	res, err := s.Wait(t.Context())
	if wantNil(t, "Wait", err) && (res.ExitCode != 5 || res.Cause != "") {
		t.Errorf("Kill after the end turns the result into %+v", res)
	}
}

func shellCancelled(t testing.TB, e *Env) {
	p := e.open(t)
	if p.d.Shell.Run == nil {
		t.Skip("skipped: function shell.Run is absent")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, err := p.d.Shell.Run(ctx, driver.Command{
		Script: "echo early; sleep 1000", OnStdout: func([]byte) error { cancel(); return nil },
	})
	if err != nil {
		t.Errorf("a Run whose context ends is an error, and its output lost: %v", err)
	} else if res.Cause != driver.CauseCanceled || string(res.Stdout) != "early\n" {
		t.Errorf("a Run whose context ends gives %+v", res)
	}
}

func shellWaitCancelled(t testing.TB, e *Env) {
	s := e.open(t).start(t, driver.Command{Script: "read -r x; echo \"$x\"", Interactive: true})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Wait(ctx)
	wantCode(t, "Wait with a cancelled context", err, fault.Canceled)
	wantNil(t, "Write", s.Write(t.Context(), []byte("alive\n")))
	res, err := s.Wait(t.Context())
	if wantNil(t, "Wait", err) && string(res.Stdout) != "alive\n" {
		t.Errorf("the session gives %+v", res)
	}
}

func shellClose(t testing.TB, e *Env) {
	p := e.open(t)
	s := p.start(t, driver.Command{Script: "sleep 1000"})
	wantNil(t, "Close", s.Close(t.Context()))
	wantNil(t, "second Close", s.Close(t.Context()))
	if p.d.Shell.Attach != nil {
		_, err := p.d.Shell.Attach(t.Context(), s.ID())
		wantCode(t, "Attach after Close", err, fault.NotFound)
	}
}

func shellAttach(t testing.TB, e *Env) {
	p := e.open(t)
	s := p.start(t, driver.Command{Script: "read -r x; echo \"$x\"; exit 6", Interactive: true})
	again, err := p.d.Shell.Attach(t.Context(), s.ID())
	if !wantNil(t, "Attach", err) {
		return
	}
	if again.ID() != s.ID() {
		t.Errorf("Attach to %q gives %q", s.ID(), again.ID())
	}
	wantNil(t, "Write", again.Write(t.Context(), []byte("hello\n")))
	for _, session := range []*driver.Session{s, again} {
		res, err := session.Wait(t.Context())
		if wantNil(t, "Wait", err) && (res.ExitCode != 6 || string(res.Stdout) != "hello\n") {
			t.Errorf("the session gives %+v", res)
		}
	}
	again, err = p.d.Shell.Attach(t.Context(), s.ID())
	if wantNil(t, "Attach after the end", err) {
		if res, err := again.Wait(t.Context()); err != nil || res.ExitCode != 6 {
			t.Errorf("an exit status does not outlive the process: %+v, %v", res, err)
		}
	}
	for _, id := range []string{"no-such-session", "", "../x"} {
		_, err = p.d.Shell.Attach(t.Context(), id)
		wantCode(t, "Attach to "+quote(id), err, fault.NotFound)
	}
	_, err = e.open(t).d.Shell.Attach(t.Context(), s.ID())
	wantCode(t, "Attach from another workspace", err, fault.NotFound)
}

func shellSessions(t testing.TB, e *Env) {
	p := e.open(t)
	running := p.start(t, driver.Command{Argv: []string{"sleep", "1000"}, Labels: map[string]string{"k": "v"}})
	ended := p.start(t, driver.Command{Script: "exit 2"})
	if _, err := ended.Wait(t.Context()); err != nil {
		t.Fatalf("Wait: %v", err)
	}
	infos, err := p.d.Shell.Sessions(t.Context())
	if !wantNil(t, "Sessions", err) {
		return
	}
	found := map[string]driver.SessionInfo{}
	for _, info := range infos {
		found[info.ID] = info
	}
	if info, ok := found[running.ID()]; !ok || !info.Running || info.Labels["k"] != "v" || len(info.Argv) != 2 {
		t.Errorf("the session that runs is listed as %+v (%v)", info, ok)
	}
	if info, ok := found[ended.ID()]; !ok || info.Running || info.Result == nil || info.Result.ExitCode != 2 {
		t.Errorf("the session that ended is listed as %+v (%v)", info, ok)
	}
}

func shellConcurrent(t testing.TB, e *Env) {
	p := e.open(t)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			want := strings.Repeat(itoa(i)+"\n", 200)
			res, err := p.run(t.Context(), driver.Command{Script: "for n in $(seq 1 200); do echo " + itoa(i) + "; done; exit " + itoa(i)})
			if err != nil || string(res.Stdout) != want || res.ExitCode != i {
				t.Errorf("command %d gives exit %d, %d bytes, %v", i, res.ExitCode, len(res.Stdout), err)
			}
		})
	}
	wg.Wait()
	// One session may be used concurrently.
	s := p.start(t, driver.Command{Script: "for n in $(seq 1 1000); do echo $n; done"})
	var mu sync.Mutex
	var got bytes.Buffer
	for range 4 {
		wg.Go(func() {
			for {
				mu.Lock() // keeps the polled output in order
				poll, err := s.Poll(t.Context(), 100)
				got.Write(poll.Stdout)
				mu.Unlock()
				if err != nil {
					t.Errorf("Poll: %v", err)
					return
				}
				if _, err := s.State(t.Context()); err != nil {
					t.Errorf("State: %v", err)
				}
				if !poll.Running && len(poll.Stdout) == 0 {
					return
				}
			}
		})
	}
	wg.Wait()
	if lines := strings.Count(got.String(), "\n"); lines != 1000 {
		t.Errorf("four pollers together got %d lines, want 1000", lines)
	}
}

// shellDestroy destroys a workspace with a running command. The result says so, and
// no process survives.
func shellDestroy(t testing.TB, e *Env) {
	p := e.open(t)
	s := p.start(t, driver.Command{Script: family})
	pollUntil(t, s, "ready\n")
	wantNil(t, "Destroy", p.d.Life.Destroy(t.Context()))
	e.wantNothing(t, "after Destroy while a command ran")
	time.Sleep(200 * time.Millisecond) // ten intervals, in which a survivor would recreate its file
	e.wantNothing(t, "some time after Destroy while a command ran")
	if res, err := s.Wait(t.Context()); err == nil && res.Cause != driver.CauseDestroyed && res.Cause != driver.CauseKilled {
		t.Errorf("the command that ran gives %+v, want the cause %q", res, driver.CauseDestroyed)
	}
}
