package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

func TestModuleIsWhole(t *testing.T) {
	sh := newManager(t, nil).Module()
	if sh.Starter == nil || sh.Run == nil || sh.Sessions == nil || sh.Attach == nil {
		t.Fatalf("got %+v", sh)
	}
	s, err := sh.Start(t.Context(), driver.Command{Argv: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	if s.Log == nil || s.Signal == nil || s.Resize != nil {
		t.Errorf("a session on pipes: %+v", s)
	}
}

func TestInteractive(t *testing.T) {
	m := newManager(t, nil)
	s := start(t, m, driver.Command{Argv: []string{"cat"}, Interactive: true, Labels: map[string]string{"a": "b"}})
	for _, line := range []string{"one\n", "two\n"} {
		if err := s.Write(t.Context(), []byte(line)); err != nil {
			t.Fatal(err)
		}
		if got := pollUntil(t, s, line); got != line {
			t.Errorf("Poll = %q, want %q alone", got, line)
		}
	}
	st, err := s.State(t.Context())
	if err != nil || !st.Running || st.Result != nil || st.PID == 0 || st.Labels["a"] != "b" || st.ID != s.ID() {
		t.Errorf("State = %+v, %v", st, err)
	}
	for range 2 {
		if err := s.CloseStdin(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r := wait(t, s)
	if string(r.Stdout) != "one\ntwo\n" || r.ExitCode != 0 || r.Session != s.ID() {
		t.Errorf("got %+v", r)
	}
	wantCode(t, "Write after the end", s.Write(t.Context(), []byte("x")), fault.WrongState)
	wantCode(t, "Signal after the end", s.Signal(t.Context(), "SIGINT"), fault.WrongState)
	for _, err := range []error{s.CloseStdin(t.Context()), s.Kill(t.Context(), 0)} {
		if err != nil {
			t.Errorf("after the end: %v", err)
		}
	}
	st, _ = s.State(t.Context())
	if st.Running || st.Result == nil || st.Result.Stdout != nil || st.Result.Cause != "" {
		t.Errorf("State after the end = %+v", st)
	}
}

func TestWriteWaitsForRoom(t *testing.T) {
	m := newManager(t, nil)
	s := start(t, m, driver.Command{Argv: []string{"sleep", "1000"}, Interactive: true})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := s.Write(ctx, make([]byte, 1<<20))
	wantCode(t, "Write to a full pipe", err, fault.DeadlineExceeded)
	wantCode(t, "the next Write", s.Write(ctx, []byte("x")), fault.DeadlineExceeded)
	blocked := make(chan error)
	go func() { blocked <- s.Write(t.Context(), make([]byte, 1<<20)) }()
	time.Sleep(20 * time.Millisecond)
	if err := s.Kill(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "a Write that the end interrupts", <-blocked, fault.WrongState)

	s = start(t, m, driver.Command{Script: "exec <&-; echo closed; sleep 1000", Interactive: true})
	pollUntil(t, s, "closed")
	wantCode(t, "Write to a closed pipe", s.Write(t.Context(), []byte("x")), fault.WrongState)
	s = start(t, m, driver.Command{Argv: []string{"sleep", "1000"}})
	wantCode(t, "Write to a command without input", s.Write(t.Context(), []byte("x")), fault.WrongState)
}

func TestPollIsExactlyOnce(t *testing.T) {
	m := newManager(t, nil)
	s := start(t, m, driver.Command{Script: "for i in 1 2 3 4; do seq 20000; seq 20000 >&2; done", MaxOutput: 100})
	want := bytes.Repeat(lines(20000), 4)
	var out, errs bytes.Buffer
	for {
		p, err := s.Poll(t.Context(), 10_000)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(p.Stdout) + len(p.Stderr); n > 10_000 || p.Dropped != 0 {
			t.Fatalf("Poll returned %d bytes, %d dropped", n, p.Dropped)
		}
		out.Write(p.Stdout)
		errs.Write(p.Stderr)
		if !p.Running && len(p.Stdout)+len(p.Stderr) == 0 {
			break
		}
		if _, err := s.Log(t.Context(), driver.Stdout, 0, 10); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(out.Bytes(), want) || !bytes.Equal(errs.Bytes(), want) {
		t.Errorf("polled %d and %d bytes, want %d", out.Len(), errs.Len(), len(want))
	}
	_, err := s.Poll(t.Context(), -1)
	wantCode(t, "negative limit", err, fault.InvalidArgument)
}

// Without room in a log what went by unread is counted, not invented.
func TestPollCountsWhatIsGone(t *testing.T) {
	m := newManager(t, &Options{MaxLog: 1000})
	s := start(t, m, driver.Command{Argv: []string{"seq", "100000"}, MaxOutput: 2000})
	wait(t, s)
	whole := lines(100000)
	var got []byte
	var dropped int64
	for {
		p, err := s.Poll(t.Context(), 700)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Stdout) == 0 {
			break
		}
		got, dropped = append(got, p.Stdout...), dropped+p.Dropped
	}
	want := append(bytes.Clone(whole[:1000]), whole[len(whole)-1000:]...)
	if !bytes.Equal(got, want) || dropped != int64(len(whole)-2000) {
		t.Errorf("polled %d bytes, %d dropped; want 2000 and %d", len(got), dropped, len(whole)-2000)
	}
	info, err := s.State(t.Context())
	if err != nil || info.LogDropped != int64(len(whole)-2000) {
		t.Errorf("the state says that the log lacks %d bytes, %v; want %d", info.LogDropped, err, len(whole)-2000)
	}
	s = start(t, m, driver.Command{Script: "seq 100; seq 100 >&2"})
	wait(t, s)
	if info, err = s.State(t.Context()); err != nil || info.LogDropped != 0 {
		t.Errorf("the log of little lacks %d bytes, %v; want 0", info.LogDropped, err)
	}
}

func TestLog(t *testing.T) {
	m := newManager(t, nil)
	s := start(t, m, driver.Command{Script: "printf 0123456789; echo e >&2"})
	wait(t, s)
	for _, tt := range []struct {
		off, limit int64
		want       driver.LogChunk
	}{
		{0, 0, driver.LogChunk{Data: []byte("0123456789"), Offset: 0, Next: 10, Size: 10}},
		{4, 3, driver.LogChunk{Data: []byte("456"), Offset: 4, Next: 7, Size: 10}},
		{9, 100, driver.LogChunk{Data: []byte("9"), Offset: 9, Next: 10, Size: 10}},
		{10, 100, driver.LogChunk{Offset: 10, Next: 10, Size: 10}},
	} {
		got, err := s.Log(t.Context(), driver.Stdout, tt.off, tt.limit)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("Log(%d, %d): %v (-want +got):\n%s", tt.off, tt.limit, err, diff)
		}
	}
	for _, off := range []int64{-1, 11} {
		_, err := s.Log(t.Context(), driver.Stdout, off, 1)
		wantCode(t, fmt.Sprintf("Log at %d", off), err, fault.InvalidArgument)
	}
	_, err := s.Log(t.Context(), "stdin", 0, 1)
	wantCode(t, "Log of stdin", err, fault.InvalidArgument)
	if p, _ := s.Poll(t.Context(), 0); string(p.Stdout) != "0123456789" || string(p.Stderr) != "e\n" {
		t.Errorf("Log moved the cursor: Poll = %+v", p)
	}
}

func TestTimeout(t *testing.T) {
	m := newManager(t, nil)
	r := timedOut(t, m, driver.Command{Script: "echo partial; sleep 1000", Timeout: 100 * time.Millisecond})
	if string(r.Stdout) != "partial\n" || r.Cause != driver.CauseTimeout || r.ExitCode != 137 || r.Signal != "SIGKILL" {
		t.Errorf("got %+v", r)
	}
	r = timedOut(t, m, driver.Command{Script: "trap 'echo bye; exit 4' TERM; echo hi; while :; do sleep 0.01; done", Timeout: 100 * time.Millisecond, Grace: time.Minute})
	if string(r.Stdout) != "hi\nbye\n" || r.Cause != driver.CauseTimeout || r.ExitCode != 4 {
		t.Errorf("with grace: got %+v", r)
	}
	if r := run(t, m, driver.Command{Argv: []string{"true"}, Timeout: time.Minute}); r.Cause != "" {
		t.Errorf("a command in time has cause %q", r.Cause)
	}
	d := newManager(t, &Options{Timeout: 50 * time.Millisecond})
	if r := run(t, d, driver.Command{Argv: []string{"sleep", "1000"}}); r.Cause != driver.CauseTimeout {
		t.Errorf("by default: got %+v", r)
	}
}

func TestKillWithGrace(t *testing.T) {
	m := newManager(t, nil)
	s := start(t, m, driver.Command{Script: "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.01; done"})
	pollUntil(t, s, "up")
	if err := s.Kill(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if r := wait(t, s); r.ExitCode != 7 || r.Cause != driver.CauseKilled || string(r.Stdout) != "up\nbye\n" {
		t.Errorf("got %+v", r)
	}
	s = start(t, m, driver.Command{Script: "trap '' TERM; echo up; while :; do sleep 0.01; done"})
	pollUntil(t, s, "up")
	if err := s.Kill(t.Context(), 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if r := wait(t, s); r.ExitCode != 137 || r.Signal != "SIGKILL" || r.Cause != driver.CauseKilled {
		t.Errorf("ignoring SIGTERM: got %+v", r)
	}
	wantCode(t, "negative grace", s.Kill(t.Context(), -1), fault.InvalidArgument)
}

// The grace is the tree's, not only the leader's, and the impatient overrule it.
func TestGraceIsForTheWholeTree(t *testing.T) {
	m := newManager(t, nil)
	s := start(t, m, driver.Command{Script: `
		(trap 'sleep 0.3; echo child > child; exit' TERM; echo up; while :; do sleep 0.01; done) >&2 &
		trap 'exit 0' TERM; wait`})
	pollUntil(t, s, "up")
	if err := s.Kill(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(m.opts.Root + "/child"); err != nil {
		t.Errorf("the child had no time to end by itself: %v", err)
	}
	wait(t, s)

	s = start(t, m, driver.Command{Script: "trap '' TERM; echo up; while :; do sleep 0.01; done"})
	pollUntil(t, s, "up")
	slow := make(chan error)
	go func() { slow <- s.Kill(t.Context(), time.Hour) }()
	time.Sleep(20 * time.Millisecond)
	if err := errors.Join(s.Kill(t.Context(), 0), <-slow); err != nil {
		t.Fatal(err)
	}
	wait(t, s)
}

func TestKillWhoseCallerGivesUpGoesOn(t *testing.T) {
	slow := slowTree{defaultTree(), make(chan struct{})}
	m := newManager(t, &Options{Tree: slow})
	s := start(t, m, driver.Command{Script: "trap '' TERM; echo up; while :; do sleep 0.01; done"})
	pollUntil(t, s, "up")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantCode(t, "Kill", s.Kill(ctx, 100*time.Millisecond), fault.Canceled)
	close(slow.signals)
	if r := wait(t, s); r.Cause != driver.CauseKilled || r.Signal != "SIGKILL" {
		t.Errorf("got %+v", r)
	}
}

// A slowTree sends no signal before it may.
type slowTree struct {
	Tree
	signals chan struct{}
}

func (s slowTree) Track(spec *Spec) (Tracked, error) {
	g, err := s.Tree.Track(spec)
	return slowTracked{g, s.signals}, err
}

type slowTracked struct {
	Tracked
	signals chan struct{}
}

func (s slowTracked) Signal(leader int, sig syscall.Signal) error {
	<-s.signals
	return s.Tracked.Signal(leader, sig)
}

func TestCancel(t *testing.T) {
	m := newManager(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := m.Run(ctx, driver.Command{
		Script: "echo partial; sleep 1000", OnStdout: func([]byte) error { cancel(); return nil },
	})
	if err != nil || string(r.Stdout) != "partial\n" || r.Cause != driver.CauseCanceled || r.ExitCode != 137 {
		t.Errorf("Run = %+v, %v", r, err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	bound, err := m.Start(ctx, driver.Command{Argv: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	free, err := m.Start(ctx, driver.Command{Argv: []string{"sleep", "1000"}, Detached: true})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if r := wait(t, bound); r.Cause != driver.CauseCanceled {
		t.Errorf("a session whose context ended: %+v", r)
	}
	if st, _ := free.State(t.Context()); !st.Running {
		t.Error("a detached session ended with the context of Start")
	}
	_, err = free.Wait(ctx)
	wantCode(t, "Wait with a context that ended", err, fault.Canceled)
}

func TestSignals(t *testing.T) {
	m := newManager(t, nil)
	r := run(t, m, driver.Command{Script: "kill -SEGV $$"})
	if r.ExitCode != 139 || r.Signal != "SIGSEGV" || r.Cause != "" {
		t.Errorf("got %+v", r)
	}
	s := start(t, m, driver.Command{Script: "trap 'echo got; exit 9' USR1; echo up; while :; do sleep 0.01; done"})
	pollUntil(t, s, "up")
	wantCode(t, "unknown signal", s.Signal(t.Context(), "SIGNOPE"), fault.InvalidArgument)
	if err := s.Signal(t.Context(), "SIGUSR1"); err != nil {
		t.Fatal(err)
	}
	if r := wait(t, s); r.ExitCode != 9 || r.Cause != "" {
		t.Errorf("got %+v", r)
	}
}

func TestCauseIsAskedFor(t *testing.T) {
	var ends []End
	var mu sync.Mutex
	m := newManager(t, &Options{Cause: func(e End) driver.Cause {
		mu.Lock()
		defer mu.Unlock()
		ends = append(ends, e)
		return driver.CauseOOM
	}})
	if r := run(t, m, driver.Command{Script: "kill -9 $$"}); r.Cause != driver.CauseOOM || r.ExitCode != 137 {
		t.Errorf("got %+v", r)
	}
	if r := run(t, m, driver.Command{Argv: []string{"true"}}); r.Cause != "" {
		t.Errorf("a success has cause %q", r.Cause)
	}
	if r := run(t, m, driver.Command{Argv: []string{"sleep", "1000"}, Timeout: 20 * time.Millisecond}); r.Cause != driver.CauseTimeout {
		t.Errorf("a time-out has cause %q", r.Cause)
	}
	if len(ends) != 1 || ends[0].ExitCode != 137 || ends[0].Signal != "SIGKILL" || ends[0].PID == 0 {
		t.Errorf("asked with %+v", ends)
	}
}

func TestTTY(t *testing.T) {
	m := newManager(t, nil)
	s := start(t, m, driver.Command{
		Script:      "trap 'stty size; exit 6' WINCH; stty size; echo err >&2; [ -t 0 ] && [ -t 1 ] && echo tty $TERM; while :; do sleep 0.01; done",
		TTY:         &driver.Size{Rows: 7, Cols: 33},
		Interactive: true, Env: map[string]string{"TERM": "dumb"},
	})
	if got := pollUntil(t, s, "tty dumb\r\n"); got != "7 33\r\nerr\r\ntty dumb\r\n" {
		t.Errorf("got %q", got)
	}
	wantCode(t, "bad size", s.Resize(t.Context(), driver.Size{Rows: -1}), fault.InvalidArgument)
	if err := s.Resize(t.Context(), driver.Size{Rows: 9, Cols: 99}); err != nil {
		t.Fatal(err)
	}
	r := wait(t, s)
	if r.ExitCode != 6 || !bytes.HasSuffix(r.Stdout, []byte("9 99\r\n")) || r.Stderr != nil {
		t.Errorf("got %+v", r)
	}
	wantCode(t, "Resize after the end", s.Resize(t.Context(), driver.Size{Rows: 1, Cols: 1}), fault.WrongState)
}

func TestTTYEndOfFile(t *testing.T) {
	m := newManager(t, nil)
	size := &driver.Size{Rows: 24, Cols: 80}
	for _, text := range []string{"", "line\n", "no newline"} {
		s := start(t, m, driver.Command{Script: "stty -echo; echo up; cat; echo end", TTY: size, Interactive: true})
		pollUntil(t, s, "up")
		if text != "" {
			if err := s.Write(t.Context(), []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.CloseStdin(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := "up\r\n" + strings.ReplaceAll(text, "\n", "\r\n") + "end\r\n"
		if r := wait(t, s); string(r.Stdout) != want || r.ExitCode != 0 {
			t.Errorf("after %q: got %q, exit %d; want %q", text, r.Stdout, r.ExitCode, want)
		}
	}
	r := run(t, m, driver.Command{Script: "stty -echo; cat", TTY: size, Stdin: strings.NewReader("from a reader\n")})
	if !strings.Contains(string(r.Stdout), "from a reader\r\n") || r.ExitCode != 0 {
		t.Errorf("stdin on a terminal: got %q, exit %d", r.Stdout, r.ExitCode)
	}
	if r := run(t, m, driver.Command{Argv: []string{"cat"}, TTY: size}); r.ExitCode != 0 {
		t.Errorf("no stdin on a terminal: %+v", r)
	}
}

// A terminal's signals go to the foreground job, not to the shell.
func TestTTYSignalReachesTheForegroundJob(t *testing.T) {
	m := newManager(t, nil)
	s := start(t, m, driver.Command{
		Argv: []string{"bash", "--norc", "-i"}, TTY: &driver.Size{Rows: 24, Cols: 80}, Interactive: true,
	})
	send := func(line string) {
		t.Helper()
		if err := s.Write(t.Context(), []byte(line+"\n")); err != nil {
			t.Fatal(err)
		}
	}
	send("sh -c 'echo $$ > job; exec sleep 1000'")
	pidIn(t, m, "job")
	if err := s.Signal(t.Context(), "SIGINT"); err != nil {
		t.Fatal(err)
	}
	send("echo status=$?")
	pollUntil(t, s, "status=130")
	send("exit 3")
	if r := wait(t, s); r.ExitCode != 3 {
		t.Errorf("got %+v", r)
	}
}

func TestTTYKeepsTheLastWords(t *testing.T) {
	m := newManager(t, nil)
	for range 20 {
		r := wait(t, start(t, m, driver.Command{Argv: []string{"seq", "2000"}, TTY: &driver.Size{Rows: 24, Cols: 80}, Interactive: true}))
		if got, want := len(r.Stdout), len(lines(2000))+2000; got != want {
			t.Fatalf("got %d bytes, want %d", got, want)
		}
	}
}

func TestClose(t *testing.T) {
	m, err := New(&Options{Root: t.TempDir(), LogDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	var all []*driver.Session
	for range 5 {
		all = append(all, start(t, m, driver.Command{Script: "echo up; sleep 1000", Detached: true}))
	}
	pollUntil(t, all[0], "up")
	for range 2 {
		if err := m.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range all {
		if r := wait(t, s); r.Cause != driver.CauseDestroyed {
			t.Errorf("got %+v", r)
		}
	}
	_, err = m.Start(t.Context(), driver.Command{Argv: []string{"true"}})
	wantCode(t, "Start after Close", err, fault.WrongState)
}

// Close and Start may meet at any point; whatever was started is ended.
func TestCloseMeetsStart(t *testing.T) {
	for range 20 {
		m, err := New(&Options{Root: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				_, err := m.Run(t.Context(), driver.Command{Argv: []string{"sleep", "1000"}})
				if err != nil && !errors.Is(err, fault.WrongState) {
					t.Errorf("Run: %v", err)
				}
			})
		}
		time.Sleep(time.Millisecond)
		if err := m.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
	}
}

func TestEverythingAtOnce(t *testing.T) {
	m := newManager(t, nil)
	s := start(t, m, driver.Command{
		Script: "while read -r l; do echo $l; echo $l >&2; done", TTY: &driver.Size{Rows: 5, Cols: 50}, Interactive: true,
	})
	ctx := t.Context()
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for range 10 {
				switch i % 7 {
				case 0:
					s.Poll(ctx, 100)
				case 1:
					s.Write(ctx, []byte("line\n"))
				case 2:
					s.Log(ctx, driver.Stdout, 0, 10)
				case 3:
					s.Resize(ctx, driver.Size{Rows: i + 1, Cols: i + 1})
				case 4:
					s.State(ctx)
				case 5:
					s.Signal(ctx, "SIGCONT")
				case 6:
					m.Sessions(ctx)
				}
			}
			if i == 49 {
				s.Kill(ctx, 10*time.Millisecond)
			}
			if r, err := s.Wait(ctx); err != nil || r.Cause != driver.CauseKilled {
				t.Errorf("Wait = %+v, %v", r, err)
			}
		})
	}
	wg.Wait()
}

func TestExitStatusOutlivesTheProcess(t *testing.T) {
	root, logs := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m, err := New(&Options{Root: root, LogDir: logs})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close(t.Context())
		s := start(t, m, driver.Command{Script: "echo kept; exit 3"})
		wait(t, s)
		time.Sleep(time.Hour - time.Second)
		again, err := m.Attach(t.Context(), s.ID())
		if err != nil {
			t.Fatalf("after an hour less a second: %v", err)
		}
		if r := wait(t, again); r.ExitCode != 3 || string(r.Stdout) != "kept\n" {
			t.Errorf("got %+v", r)
		}
		later := start(t, m, driver.Command{Argv: []string{"true"}})
		wait(t, later)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		_, err = m.Attach(t.Context(), s.ID())
		wantCode(t, "Attach after an hour", err, fault.NotFound)
		if _, err := m.Attach(t.Context(), later.ID()); err != nil {
			t.Errorf("the later session is gone too: %v", err)
		}
		if _, err := os.Stat(logs + "/" + s.ID() + ".stdout"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("its log is left: %v", err)
		}
	})
}

func TestSessionsAreListedInOrder(t *testing.T) {
	m := newManager(t, nil)
	var want []string
	for i := range 4 {
		s := start(t, m, driver.Command{Script: fmt.Sprintf("exit %d", i), Dir: "."})
		wait(t, s)
		want = append(want, s.ID())
	}
	infos, err := m.Sessions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, info := range infos {
		got = append(got, info.ID)
		if info.Result == nil || info.Result.ExitCode != i || info.Script != fmt.Sprintf("exit %d", i) {
			t.Errorf("session %d: %+v", i, info)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A job of a shell with job control is in a group of its own, which a Group finds by the
// terminal, also if the job ignores that the terminal is gone.
func TestKillOfAJobByItsTerminal(t *testing.T) {
	m := newManager(t, &Options{Tree: Group{}})
	s, err := m.Start(t.Context(), driver.Command{
		Script: `set -m; sh -c 'trap "" HUP TERM; echo pid $$ end; while :; do sleep 0.1; done'; echo after`, TTY: &driver.Size{Rows: 24, Cols: 80}, Interactive: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	text, pid := "", 0
	for till := time.Now().Add(time.Minute); pid == 0; time.Sleep(5 * time.Millisecond) {
		poll, err := s.Poll(t.Context(), 0)
		if text += string(poll.Stdout); err != nil || time.Now().After(till) {
			t.Fatalf("it says %q, %v", text, err)
		}
		if strings.Contains(text, "end") {
			_, _ = fmt.Sscanf(text, "pid %d", &pid) // the loop checks it
		}
	}
	if err := s.Kill(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for till := time.Now().Add(10 * time.Second); syscall.Kill(pid, 0) == nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(till) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d of the job survives", pid)
		}
	}
}
