package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/workspace/driver"
)

func open(t testing.TB, p *Provider, mods ...func(*driver.Spec)) *driver.Workspace {
	t.Helper()
	spec := driver.Spec{ID: driver.NewID(), Kind: Kind}
	for _, mod := range mods {
		mod(&spec)
	}
	ws, err := p.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := ws.Validate(nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Life.Destroy(context.Background()) })
	return ws
}

func config(text string) func(*driver.Spec) {
	return func(s *driver.Spec) { s.Config = []byte(text) }
}

func policy(p driver.Policy) func(*driver.Spec) { return func(s *driver.Spec) { s.Policy = p } }

func script(t testing.TB, ws *driver.Workspace, text string) driver.Result {
	t.Helper()
	res, err := ws.Shell.Run(t.Context(), driver.Command{Script: text})
	if err != nil {
		t.Fatalf("run %q: %v", text, err)
	}
	return res
}

func output(t testing.TB, ws *driver.Workspace, text string) string {
	t.Helper()
	res := script(t, ws, text)
	if res.ExitCode != 0 {
		t.Fatalf("%q gives %+v\n%s\n%s", text, res, res.Stdout, res.Stderr)
	}
	return strings.TrimSpace(string(res.Stdout))
}

// guestOf is the record of a workspace's guest.
func idOf(t testing.TB, ws *driver.Workspace) string {
	t.Helper()
	var pl driver.RefID
	if err := driver.DecodeRef(ws.Ref, Kind, &pl, nil); err != nil {
		t.Fatal(err)
	}
	return pl.ID
}

func guestOf(t testing.TB, p *Provider, ws *driver.Workspace) *supervise.Record {
	t.Helper()
	rec := supervise.ReadRecord(p.store.Dir(idOf(t, ws)))
	if rec == nil {
		t.Fatal("no record of a guest")
	}
	return rec
}

func alive(r *supervise.Record) bool {
	if !r.Alive() {
		return false
	}
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(r.PID), "stat"))
	return err == nil && !strings.Contains(string(data), ") Z ")
}

// eventually waits for what must come, for as long as a busy machine may need.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for till := time.Now().Add(2 * time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(till) {
			t.Fatalf("after two minutes: not yet %s", what)
		}
	}
}

func TestGuestIsFoundByTheNextProcess(t *testing.T) {
	dir := t.TempDir()
	p := newProvider(t, dir)
	ws := open(t, p)
	s, err := ws.Shell.Start(t.Context(), driver.Command{Script: "echo begun; while ! [ -e go ]; do sleep 0.02; done; echo ended; exit 7", Detached: true})
	if err != nil {
		t.Fatal(err)
	}
	short, err := ws.Shell.Start(t.Context(), driver.Command{Script: "exit 5", Detached: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := short.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := guestOf(t, p, ws)
	if err := ws.Life.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := newProvider(t, dir)
	running := func(want ...string) {
		t.Helper()
		list, err := other.runningSessions(t.Context(), idOf(t, ws))
		var ids []string
		for _, s := range list {
			ids = append(ids, s.ID)
		}
		if err != nil || !slices.Equal(ids, want) {
			t.Errorf("the sessions %q run, %v; want %q", ids, err, want)
		}
	}
	running(s.ID())
	next, err := other.Resolve(t.Context(), ws.Ref)
	if err != nil {
		t.Fatal(err)
	}
	again, err := next.Shell.Attach(t.Context(), s.ID())
	if err != nil {
		t.Fatal(err)
	}
	if after := guestOf(t, p, next); after.PID != before.PID {
		t.Errorf("the guest is %+v, was %+v", after, before)
	}
	if _, err := next.FS.Write(t.Context(), "go", strings.NewReader(""), &driver.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	res, err := again.Wait(t.Context())
	if err != nil || res.ExitCode != 7 || string(res.Stdout) != "begun\nended\n" {
		t.Errorf("the session that went on gives %+v, %v", res, err)
	}
	running()
	old, err := next.Shell.Attach(t.Context(), short.ID())
	if err != nil {
		t.Fatal(err)
	}
	if res, err := old.Wait(t.Context()); err != nil || res.ExitCode != 5 {
		t.Errorf("the session that had ended gives %+v, %v", res, err)
	}
}

// TestCallersThatLeaveDoNotEndTheGuest lets callers leave at every moment of connecting to a
// guest in which a session runs.
func TestCallersThatLeaveDoNotEndTheGuest(t *testing.T) {
	dir := t.TempDir()
	p := newProvider(t, dir)
	ws := open(t, p)
	s, err := ws.Shell.Start(t.Context(), driver.Command{Argv: []string{"sleep", "1000"}, Detached: true})
	if err != nil {
		t.Fatal(err)
	}
	before := guestOf(t, p, ws)
	if err := ws.Life.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := 0
	for i := range 150 {
		other := newProvider(t, dir)
		next, err := other.Resolve(t.Context(), ws.Ref)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
		if _, err := next.Shell.Sessions(ctx); err != nil {
			left++
		}
		cancel()
		if err := errors.Join(next.Life.Close(t.Context()), other.Close()); err != nil {
			t.Fatal(err)
		}
	}
	next, err := newProvider(t, dir).Resolve(t.Context(), ws.Ref)
	if err != nil {
		t.Fatal(err)
	}
	list, err := next.Shell.Sessions(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != s.ID() {
		t.Errorf("after %d callers that left: sessions %+v, %v", left, list, err)
	}
	if after := guestOf(t, p, next); after.PID != before.PID {
		t.Errorf("after %d callers that left the guest is %+v, was %+v", left, after, before)
	}
}

//croft:race
func TestDeadGuestIsEvictedOnceAndItsSessionsAreLost(t *testing.T) {
	p := newProvider(t, t.TempDir())
	ws := open(t, p)
	s, err := ws.Shell.Start(t.Context(), driver.Command{Script: "echo begun; sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "output", func() bool {
		c, err := s.Log(t.Context(), driver.Stdout, 0, 100)
		return err == nil && string(c.Data) == "begun\n"
	})
	lost := make(chan driver.Result, 1)
	go func() {
		res, err := ws.Shell.Run(context.Background(), driver.Command{Script: "echo x > under-way; sleep 1000"})
		if err != nil {
			t.Errorf("Run: %v", err)
		}
		lost <- res
	}()
	eventually(t, "under way", func() bool {
		_, err := ws.FS.Stat(t.Context(), "under-way", &driver.StatOptions{})
		return err == nil
	})
	rec := guestOf(t, p, ws)
	if err := syscall.Kill(rec.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if res := <-lost; res.Cause != driver.CauseLost || res.ExitCode != -1 {
		t.Errorf("a command under way gives %+v, want the cause lost", res)
	}
	if res, err := s.Wait(t.Context()); err != nil || res.Cause != driver.CauseLost {
		t.Errorf("a session gives %+v, %v, want the cause lost", res, err)
	}
	if _, err := ws.Shell.Run(t.Context(), driver.Command{Script: "true"}); !errors.Is(err, fault.Evicted) {
		t.Errorf("the next call gives %v, want evicted", err)
	}
	if got := output(t, ws, "echo works"); got != "works" {
		t.Errorf("the call after it gives %q", got)
	}
	again, err := ws.Shell.Attach(t.Context(), s.ID())
	if err != nil {
		t.Fatal(err)
	}
	if res, err := again.Wait(t.Context()); err != nil || res.Cause != driver.CauseLost || string(res.Stdout) != "begun\n" {
		t.Errorf("the next guest says of the session %+v, %v", res, err)
	}
}

//croft:race
func TestCloseEndsWhatIsNotDetached(t *testing.T) {
	dir := t.TempDir()
	p := newProvider(t, dir)
	ws := open(t, p)
	s, err := ws.Shell.Start(t.Context(), driver.Command{Script: "sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := ws.Shell.Start(t.Context(), driver.Command{Script: "sleep 1000", Detached: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := ws.Life.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	next, err := p.Resolve(t.Context(), ws.Ref)
	if err != nil {
		t.Fatal(err)
	}
	again, err := next.Shell.Attach(t.Context(), s.ID())
	if err != nil {
		t.Fatal(err)
	}
	if res, err := again.Wait(t.Context()); err != nil || res.Cause != driver.CauseCanceled {
		t.Errorf("a session that was not detached gives %+v, %v", res, err)
	}
	if again, err = next.Shell.Attach(t.Context(), kept.ID()); err != nil {
		t.Fatal(err)
	}
	if info, err := again.State(t.Context()); err != nil || !info.Running {
		t.Errorf("a detached session gives %+v, %v", info, err)
	}
}

func TestGuestEndsAfterItsLease(t *testing.T) {
	const lease = 8 * time.Second // it begins before its host has come, who may be slow
	p, err := New(&Config{Root: filepath.Join(t.TempDir(), "ws"), Guest: os.Getenv(guestVar), Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	ws := open(t, p)
	if _, err := ws.Shell.Start(t.Context(), driver.Command{Script: "sleep 1000", Detached: true}); err != nil {
		t.Fatal(err)
	}
	rec := guestOf(t, p, ws)
	time.Sleep(lease + lease/4) // a guest with an owner stays
	if !alive(rec) {
		t.Error("the guest ended while it was held")
	}
	if err := ws.Life.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ended", func() bool { return !alive(rec) })
}

func TestThrowawayGuestEndsWithItsOwner(t *testing.T) {
	p := newProvider(t, t.TempDir())
	ws := open(t, p, config(`{"throwaway":true}`))
	if got := output(t, ws, "echo works"); got != "works" {
		t.Errorf("got %q", got)
	}
	rec := guestOf(t, p, ws)
	if err := ws.Life.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ended", func() bool { return !alive(rec) })
}

//croft:race
func TestUpdateReplacesTheGuestOfAnotherPolicy(t *testing.T) {
	p := newProvider(t, t.TempDir())
	ws := open(t, p, policy(driver.Policy{Env: map[string]string{"A": "1"}}))
	if got := output(t, ws, "echo $A"); got != "1" {
		t.Errorf("got %q", got)
	}
	first := guestOf(t, p, ws)
	if _, err := ws.Life.Update(t.Context(), driver.Policy{Env: map[string]string{"A": "1"}, Idle: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if got := output(t, ws, "echo $A"); got != "1" || guestOf(t, p, ws).PID != first.PID {
		t.Errorf("a change that is none of the guest's replaced it, or %q", got)
	}
	if _, err := ws.Life.Update(t.Context(), driver.Policy{Env: map[string]string{"A": "2"}, ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	if alive(first) {
		t.Error("the guest of the old policy lives")
	}
	if got := output(t, ws, "echo $A; touch x 2>/dev/null || echo read-only"); got != "2\nread-only" {
		t.Errorf("got %q", got)
	}
}

func TestDestroyAndSweepEndGuests(t *testing.T) {
	p := newProvider(t, t.TempDir())
	a, b, c := open(t, p), open(t, p), open(t, p)
	var recs []*supervise.Record
	for _, ws := range []*driver.Workspace{a, b, c} {
		output(t, ws, "echo works")
		recs = append(recs, guestOf(t, p, ws))
	}
	if err := a.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	var pl driver.RefID
	if err := driver.DecodeRef(c.Ref, Kind, &pl, nil); err != nil {
		t.Fatal(err)
	}
	if err := p.Sweep(t.Context(), []string{pl.ID}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, false, true} {
		if got := alive(recs[i]); got != want {
			t.Errorf("guest %d: alive is %v, want %v", i, got, want)
		}
	}
}

// TestOutputOfASessionWhoseGuestIsGone: a session that is waited for only after its guest has died
// has what it had written.
func TestOutputOfASessionWhoseGuestIsGone(t *testing.T) {
	p := newProvider(t, t.TempDir())
	ws := open(t, p)
	s, err := ws.Shell.Start(t.Context(), driver.Command{Script: "echo one; exec sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the output in its log", func() bool {
		out, _ := filepath.Glob(filepath.Join(p.store.Path(idOf(t, ws), logName), "*.stdout"))
		if len(out) != 1 {
			return false
		}
		info, err := os.Stat(out[0])
		return err == nil && info.Size() == 4
	})
	if err := syscall.Kill(guestOf(t, p, ws).PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the connection", func() bool {
		_, err := s.State(t.Context())
		return fault.Of(err) == fault.Evicted
	})
	res, err := s.Wait(t.Context())
	if err != nil || res.Cause != driver.CauseLost || res.Session == "" || string(res.Stdout) != "one\n" {
		t.Errorf("got %+v, %v", res, err)
	}
}

// TestPartialOutputOfAGuestThatWasKilled: a foreground command whose guest dies is
// a result with what it had written, however it was run.
func TestPartialOutputOfAGuestThatWasKilled(t *testing.T) {
	came := make(chan bool, 2)
	take := func([]byte) error { came <- true; return nil }
	for name, cmd := range map[string]driver.Command{
		"in one exchange": {},
		"with callbacks":  {OnStdout: take, OnStderr: take},
		"with a cap":      {MaxOutput: 8},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t, t.TempDir())
			ws := open(t, p)
			cmd.Script = "echo one; echo two >&2; echo x > ready; sleep 1000"
			if here(driver.IsolationProcess) {
				cmd.Script = "echo one; echo two >&2; echo x > ready; exec sleep 1000"
			}
			ended := make(chan driver.Result, 1)
			go func() {
				res, err := ws.Shell.Run(t.Context(), cmd)
				if err != nil {
					t.Errorf("run: %v", err)
				}
				ended <- res
			}()
			logs := p.store.Path(idOf(t, ws), logName)
			size := func(name string) int64 {
				info, err := os.Stat(name)
				if err != nil {
					return -1
				}
				return info.Size()
			}
			eventually(t, "the output in its log", func() bool {
				out, _ := filepath.Glob(filepath.Join(logs, "*.stdout"))
				errs, _ := filepath.Glob(filepath.Join(logs, "*.stderr"))
				return len(out) == 1 && len(errs) == 1 && size(out[0]) == 4 && size(errs[0]) == 4
			})
			if cmd.OnStdout != nil { // the command may have begun before its start was answered
				<-came
				<-came
			}
			if err := syscall.Kill(guestOf(t, p, ws).PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			res := <-ended
			if res.Cause != driver.CauseLost || res.ExitCode != -1 || string(res.Stdout) != "one\n" || string(res.Stderr) != "two\n" {
				t.Errorf("got %+v", res)
			}
		})
	}
}
