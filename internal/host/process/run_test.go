package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

func TestArgvIsNeverParsed(t *testing.T) {
	m := newManager(t, nil)
	args := []string{"a b", "$HOME", "*", "`id`", ";", ""}
	r := run(t, m, driver.Command{Argv: append([]string{"printf", "%s|"}, args...)})
	if got, want := string(r.Stdout), strings.Join(args, "|")+"|"; got != want || r.ExitCode != 0 {
		t.Errorf("printf wrote %q with exit %d, want %q", got, r.ExitCode, want)
	}
}

func TestScript(t *testing.T) {
	m := newManager(t, nil)
	r := run(t, m, driver.Command{Script: "x=1; echo out $x | tr a-z A-Z; echo err >&2; exit 3"})
	if string(r.Stdout) != "OUT 1\n" || string(r.Stderr) != "err\n" || r.ExitCode != 3 || r.Cause != "" {
		t.Errorf("got %+v", r)
	}
	if r.Succeeded() || r.Session != "" || r.Duration <= 0 || r.Usage.MaxRSS <= 0 {
		t.Errorf("got %+v; want no success, no session to ask, a duration and a usage", r)
	}
}

func TestNothingStartsAfterAnError(t *testing.T) {
	m := newManager(t, nil)
	write(t, m, "plain", "#!/bin/sh\n", 0o644)
	write(t, m, "garbage", "\x01\x02\x03", 0o755)
	write(t, m, "lost", "#!"+filepath.Join(t.TempDir(), "missing")+"\n", 0o755)
	argv := func(a ...string) driver.Command { return driver.Command{Argv: a} }
	tests := []struct {
		name string
		cmd  driver.Command
		want fault.Code
	}{
		{"no program in PATH", argv("no-such-program"), fault.NotFound},
		{"no program at a path", argv("./missing"), fault.NotFound},
		{"file as a directory", argv("./plain/x"), fault.NotFound},
		{"not executable", argv("./plain"), fault.PermissionDenied},
		{"a directory", argv("/tmp"), fault.PermissionDenied},
		{"a device", argv("/dev/null"), fault.PermissionDenied},
		{"not a program", argv("./garbage"), fault.InvalidArgument},
		{"no interpreter", argv("./lost"), fault.NotFound},
		{"too long", argv("true", strings.Repeat("x", 4<<20)), fault.InvalidArgument},
		{"no such directory", driver.Command{Argv: []string{"true"}, Dir: "nowhere"}, fault.NotFound},
		{"directory is a file", driver.Command{Argv: []string{"true"}, Dir: "plain"}, fault.InvalidArgument},
		{"directory leaves", driver.Command{Argv: []string{"true"}, Dir: "../x"}, fault.InvalidArgument},
		{"nothing", driver.Command{}, fault.InvalidArgument},
		{"both", driver.Command{Argv: []string{"true"}, Script: "true"}, fault.InvalidArgument},
		{"empty program", argv(""), fault.InvalidArgument},
		{"NUL", argv("echo", "a\x00b"), fault.InvalidArgument},
		{"NUL in a script", driver.Command{Script: "a\x00b"}, fault.InvalidArgument},
		{"bad variable", driver.Command{Script: "x", Env: map[string]string{"A=B": ""}}, fault.InvalidArgument},
		{"bad value", driver.Command{Script: "x", Env: map[string]string{"A": "\x00"}}, fault.InvalidArgument},
		{"negative timeout", driver.Command{Script: "x", Timeout: -1}, fault.InvalidArgument},
		{"two inputs", driver.Command{Script: "x", Interactive: true, Stdin: strings.NewReader("")}, fault.InvalidArgument},
		{"size", driver.Command{Script: "x", TTY: &driver.Size{}}, fault.InvalidArgument},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := m.Start(t.Context(), tt.cmd)
			if s != nil {
				t.Error("there is a session")
			}
			wantCode(t, "Start", err, tt.want)
			if !strings.HasPrefix(err.Error(), "process: ") {
				t.Errorf("message %q does not begin with its package", err)
			}
		})
	}
	if infos, _ := m.Sessions(t.Context()); len(infos) != 0 {
		t.Errorf("sessions are left: %+v", infos)
	}
	_, err := m.Run(t.Context(), driver.Command{Script: "x", Interactive: true})
	wantCode(t, "interactive Run", err, fault.InvalidArgument)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = m.Run(ctx, driver.Command{Argv: []string{"true"}})
	wantCode(t, "canceled Run", err, fault.Canceled)
}

func TestDirectory(t *testing.T) {
	m := newManager(t, nil)
	if err := os.MkdirAll(m.opts.Root+"/a/b", 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, m, "a/b/prog", "#!/bin/sh\npwd -P; echo $PWD\n", 0o755)
	r := run(t, m, driver.Command{Argv: []string{"./prog"}, Dir: "a/b"})
	if got, want := string(r.Stdout), strings.Repeat(m.opts.Root+"/a/b\n", 2); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
	t.Setenv("LC_TIME", "C")
	t.Setenv("GOOD_1", "yes")
	m := newManager(t, &Options{AllowEnv: []string{"GOOD_*"}, Env: map[string]string{"POLICY": "set", "HOME": "/h"}})
	env := func(cmd driver.Command) map[string]string {
		cmd.Argv = []string{"env", "-0"}
		got := map[string]string{}
		for kv := range strings.SplitSeq(string(run(t, m, cmd).Stdout), "\x00") {
			if k, v, ok := strings.Cut(kv, "="); ok {
				got[k] = v
			}
		}
		return got
	}
	got := env(driver.Command{Env: map[string]string{"MINE": "a=b", "POLICY": "over"}})
	for k, want := range map[string]string{"LC_TIME": "C", "GOOD_1": "yes", "HOME": "/h", "MINE": "a=b", "POLICY": "over", "PWD": m.opts.Root} {
		if got[k] != want {
			t.Errorf("%s is %q, want %q", k, got[k], want)
		}
	}
	allowed := append(slices.Clone(allowedEnv), "GOOD_*", "POLICY", "MINE", "PWD", sessionEnv)
	for k := range got {
		if !slices.ContainsFunc(allowed, func(p string) bool { return matchName(p, k) }) {
			t.Errorf("%s=%s came through", k, got[k])
		}
	}
	if got := env(driver.Command{}); got["POLICY"] != "set" || !driver.ValidID(got[sessionEnv]) {
		t.Errorf("without its own variables a command has %v", got)
	}
	only := map[string]string{"A": "1"}
	if diff := cmp.Diff(only, env(driver.Command{Clean: true, Env: only})); diff != "" {
		t.Errorf("a clean environment (-want +got):\n%s", diff)
	}
}

// TestEnvironmentHasEachOnce: what every command has of its own is not there twice,
// whichever way its environment is made.
func TestEnvironmentHasEachOnce(t *testing.T) {
	m := newManager(t, &Options{Env: map[string]string{"PWD": "/elsewhere", sessionEnv: "another"}})
	for _, cmd := range []driver.Command{{}, {Env: map[string]string{"A": "1"}}} {
		cmd.Argv = []string{"env", "-0"}
		var got []string
		for kv := range strings.SplitSeq(string(run(t, m, cmd).Stdout), "\x00") {
			if strings.HasPrefix(kv, "PWD=") {
				got = append(got, kv)
			} else if id, ok := strings.CutPrefix(kv, sessionEnv+"="); ok && id != "another" {
				got = append(got, sessionEnv)
			}
		}
		slices.Sort(got)
		if want := []string{sessionEnv, "PWD=" + m.opts.Root}; !slices.Equal(got, want) {
			t.Errorf("with %v it has %q, want %q", cmd.Env, got, want)
		}
	}
}

func TestBaseEnvDefaults(t *testing.T) {
	m := newManager(t, &Options{BaseEnv: []string{"SECRET=1", "broken"}})
	want := map[string]string{"PATH": DefaultPath, "HOME": m.opts.Root}
	if diff := cmp.Diff(want, m.base); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestStdin(t *testing.T) {
	m := newManager(t, nil)
	data := bytes.Repeat([]byte("0123456789abcde\n"), 1<<19) // 8 MiB
	r := run(t, m, driver.Command{Argv: []string{"cat"}, Stdin: bytes.NewReader(data), MaxOutput: 16 << 20})
	if !bytes.Equal(r.Stdout, data) || !r.Succeeded() {
		t.Errorf("cat returned %d bytes, exit %d, %v; want %d", len(r.Stdout), r.ExitCode, r.CallbackErrors, len(data))
	}
	if r := run(t, m, driver.Command{Argv: []string{"wc", "-c"}}); string(r.Stdout) != "0\n" {
		t.Errorf("without stdin wc counts %q", r.Stdout)
	}
}

func TestStdinHasBackPressure(t *testing.T) {
	m := newManager(t, nil)
	var read atomic.Int64
	endless := readerFunc(func(p []byte) (int, error) { read.Add(int64(len(p))); return len(p), nil })
	r := run(t, m, driver.Command{Script: "sleep 0.3; head -c 1000 >/dev/null", Stdin: endless})
	if !r.Succeeded() {
		t.Errorf("a command that stops reading: %+v", r)
	}
	if n := read.Load(); n > 1<<20 {
		t.Errorf("%d bytes were read for a command that read 1000", n)
	}
}

func TestStdinReaderFails(t *testing.T) {
	m := newManager(t, nil)
	n := 0
	failing := readerFunc(func(p []byte) (int, error) {
		if n++; n == 1 {
			return copy(p, "abc"), nil
		}
		return 0, errors.New("no more")
	})
	r := run(t, m, driver.Command{Argv: []string{"cat"}, Stdin: failing})
	if string(r.Stdout) != "abc" || r.ExitCode != 0 || !slices.Equal(r.CallbackErrors, []string{"stdin: no more"}) {
		t.Errorf("got %+v", r)
	}
	panics := readerFunc(func(p []byte) (int, error) { panic("ouch") })
	r = run(t, m, driver.Command{Argv: []string{"cat"}, Stdin: panics})
	if r.ExitCode != 0 || !slices.Equal(r.CallbackErrors, []string{"stdin: panic: ouch"}) {
		t.Errorf("got %+v", r)
	}
}

func TestStuckStdinReaderHoldsOnlyClose(t *testing.T) {
	m, err := New(&Options{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	stuck := readerFunc(func(p []byte) (int, error) { <-release; return 0, errors.New("late") })
	if r := run(t, m, driver.Command{Argv: []string{"true"}, Stdin: stuck}); !r.Succeeded() {
		t.Errorf("got %+v", r)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	wantCode(t, "Close", m.Close(ctx), fault.DeadlineExceeded)
	close(release)
	if err := m.Close(t.Context()); err != nil {
		t.Errorf("Close after the reader returned: %v", err)
	}
}

func TestCallbacks(t *testing.T) {
	m := newManager(t, nil)
	var out, errs bytes.Buffer
	var inOut, inErr atomic.Int32
	sink := func(b *bytes.Buffer, in *atomic.Int32) func([]byte) error {
		return func(p []byte) error {
			if in.Add(1) != 1 {
				t.Error("two calls at a time for one stream")
			}
			defer in.Add(-1)
			b.Write(p)
			return nil
		}
	}
	r := run(t, m, driver.Command{
		Script:   "for i in 1 2 3; do seq 20000; seq 20000 >&2; done",
		OnStdout: sink(&out, &inOut), OnStderr: sink(&errs, &inErr),
	})
	want := bytes.Repeat(lines(20000), 3)
	if !bytes.Equal(out.Bytes(), want) || !bytes.Equal(errs.Bytes(), want) || !r.Succeeded() {
		t.Errorf("callbacks got %d and %d bytes, want %d; %v", out.Len(), errs.Len(), len(want), r.CallbackErrors)
	}
	if !bytes.Equal(r.Stdout, want) || !bytes.Equal(r.Stderr, want) {
		t.Error("the result lacks what the callbacks got")
	}
}

// One stream's callback may wait for the other stream, as someone does who reads
// standard error to its end first.
func TestCallbacksDoNotWaitForEachOther(t *testing.T) {
	m := newManager(t, nil)
	sawErr := make(chan struct{})
	var once sync.Once
	r := run(t, m, driver.Command{
		Script:   "echo out; sleep 0.05; echo err >&2",
		OnStdout: func([]byte) error { <-sawErr; return nil },
		OnStderr: func([]byte) error { once.Do(func() { close(sawErr) }); return nil },
	})
	if !r.Succeeded() {
		t.Errorf("got %+v", r)
	}
}

func TestCallbacksHaveBackPressure(t *testing.T) {
	m := newManager(t, nil)
	release := make(chan struct{})
	var got atomic.Int64
	s := start(t, m, driver.Command{
		Script:   "head -c 10000000 /dev/zero; echo done > finished",
		OnStdout: func(p []byte) error { got.Add(int64(len(p))); <-release; return nil },
	})
	time.Sleep(100 * time.Millisecond)
	if _, err := os.Stat(m.opts.Root + "/finished"); err == nil {
		t.Error("the command finished while its callback was waiting")
	}
	if n := got.Load(); n > bufferSize {
		t.Errorf("%d bytes came before the first call returned", n)
	}
	close(release)
	if r := wait(t, s); !r.Succeeded() || got.Load() != 10000000 {
		t.Errorf("got %d bytes, %+v", got.Load(), r.CallbackErrors)
	}
}

func TestCallbackErrorsNeverChangeTheExit(t *testing.T) {
	m := newManager(t, nil)
	r := run(t, m, driver.Command{
		Script:   "echo a; echo b >&2; exit 5",
		OnStdout: func([]byte) error { return errors.New("full") },
		OnStderr: func([]byte) error { panic("ouch") },
	})
	slices.Sort(r.CallbackErrors)
	if r.ExitCode != 5 || string(r.Stdout) != "a\n" || string(r.Stderr) != "b\n" {
		t.Errorf("got %+v", r)
	}
	if diff := cmp.Diff([]string{"stderr: panic: ouch", "stdout: full"}, r.CallbackErrors); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r = run(t, m, driver.Command{
		Script:   "for i in $(seq 40); do echo $i; sleep 0.002; done",
		OnStdout: func([]byte) error { return errors.New("full") },
	})
	if n := len(r.CallbackErrors); n > maxCallbackErrors+1 || n == 0 {
		t.Errorf("%d errors are listed", n)
	}
}

// A slow callback must not lose what the command wrote before its end.
func TestSlowCallbackGetsEverything(t *testing.T) {
	m := newManager(t, &Options{WaitDelay: 10 * time.Millisecond})
	for _, both := range []bool{false, true} {
		var got atomic.Int64
		slow := func(p []byte) error { time.Sleep(60 * time.Millisecond); got.Add(int64(len(p))); return nil }
		cmd := driver.Command{Script: "head -c 150000 /dev/zero >&2", OnStderr: slow}
		if both {
			cmd.OnStdout = slow
		}
		if run(t, m, cmd); got.Load() != 150000 {
			t.Errorf("both=%v: the callback got %d bytes, want 150000", both, got.Load())
		}
	}
}

func TestTruncation(t *testing.T) {
	m := newManager(t, nil)
	whole := lines(50000)
	r := run(t, m, driver.Command{Script: "seq 50000; seq 50000 >&2", MaxOutput: 1001})
	for _, got := range []struct {
		data    []byte
		dropped int64
	}{{r.Stdout, r.StdoutDropped}, {r.Stderr, r.StderrDropped}} {
		want := slices.Concat(whole[:500], whole[len(whole)-501:])
		if !bytes.Equal(got.data, want) || got.dropped != int64(len(whole)-1001) {
			t.Errorf("got %d bytes, %d dropped; want 1001 and %d", len(got.data), got.dropped, len(whole)-1001)
		}
	}
	s, err := m.Attach(t.Context(), r.Session)
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range []driver.Stream{driver.Stdout, driver.Stderr} {
		if got := readAll(t, s, stream); !bytes.Equal(got, whole) {
			t.Errorf("the log of %s has %d bytes, want %d", stream, len(got), len(whole))
		}
	}
	again := wait(t, s)
	if diff := cmp.Diff(r, again); diff != "" {
		t.Errorf("Wait after Run (-run +wait):\n%s", diff)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = m.Attach(t.Context(), r.Session)
	wantCode(t, "Attach after Close", err, fault.NotFound)
	entries, _ := os.ReadDir(m.opts.LogDir)
	for _, e := range entries {
		if strings.Contains(e.Name(), r.Session) {
			t.Errorf("%s is left of a closed session", e.Name())
		}
	}
	if got := m.logStore.quota.Load(); got != m.opts.MaxLogs {
		t.Errorf("room for logs is %d, want all of %d", got, m.opts.MaxLogs)
	}
}

// What the result holds exactly is not cut, and costs no log.
func TestNoTruncationAtTheLimit(t *testing.T) {
	m := newManager(t, nil)
	for _, size := range []int{999, 1000, 1001} {
		r := run(t, m, driver.Command{Argv: []string{"head", "-c", fmt.Sprint(size), "/dev/zero"}, MaxOutput: 1000})
		dropped := int64(max(0, size-1000))
		if len(r.Stdout) != min(size, 1000) || r.StdoutDropped != dropped || (r.Session != "") != (dropped > 0) {
			t.Errorf("of %d bytes the result has %d, %d dropped, session %q", size, len(r.Stdout), r.StdoutDropped, r.Session)
		}
	}
}

func TestFloodKeepsMemorySmall(t *testing.T) {
	m := newManager(t, &Options{MaxLog: 4 << 20})
	const size = 1 << 30
	var before runtime.MemStats // of the tests before this one
	runtime.GC()
	runtime.ReadMemStats(&before)
	var peak uint64
	s := start(t, m, driver.Command{Script: "head -c 1073741824 /dev/zero; echo end"})
	for st, _ := s.State(t.Context()); st.Running; st, _ = s.State(t.Context()) {
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		peak = max(peak, mem.HeapInuse)
		time.Sleep(5 * time.Millisecond)
	}
	r := wait(t, s)
	if peak > before.HeapInuse+64<<20 {
		t.Errorf("the heap grew from %d to %d MiB", before.HeapInuse>>20, peak>>20)
	}
	if got, want := r.StdoutDropped+int64(len(r.Stdout)), int64(size+4); got != want {
		t.Errorf("kept and dropped make %d bytes, want %d", got, want)
	}
	if !bytes.HasSuffix(r.Stdout, []byte("\x00end\n")) {
		t.Errorf("the result does not end as the output did")
	}
	info, err := os.Stat(m.opts.LogDir + "/" + s.ID() + ".stdout")
	if err != nil || info.Size() != 4<<20 {
		t.Errorf("the log has %v bytes, want 4 MiB (%v)", info.Size(), err)
	}
	c, err := s.Log(t.Context(), driver.Stdout, size, 100)
	if err != nil || string(c.Data) != "end\n" || c.Size != size+4 {
		t.Errorf("the end of the log is %q of %d, %v", c.Data, c.Size, err)
	}
	c, err = s.Log(t.Context(), driver.Stdout, 8<<20, 100)
	if err != nil || c.Offset != size+4-DefaultMaxOutput/2 || len(c.Data) != 100 {
		t.Errorf("past the cap the log continues at %d with %d bytes, %v", c.Offset, len(c.Data), err)
	}
}

func TestLogsShareACap(t *testing.T) {
	m := newManager(t, &Options{MaxLogs: 100_000})
	a := start(t, m, driver.Command{Argv: []string{"head", "-c", "80000", "/dev/zero"}})
	wait(t, a)
	b := start(t, m, driver.Command{Argv: []string{"head", "-c", "80000", "/dev/zero"}, MaxOutput: 100})
	r := wait(t, b)
	if len(r.Stdout) != 100 || r.StdoutDropped != 79900 {
		t.Errorf("got %d bytes, %d dropped", len(r.Stdout), r.StdoutDropped)
	}
	if got := m.logStore.quota.Load(); got != 0 {
		t.Errorf("room is %d, want 0", got)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := m.logStore.quota.Load(); got != 80_000 {
		t.Errorf("room is %d after a log was removed, want 80000", got)
	}
}

func TestManyAtOnce(t *testing.T) {
	m := newManager(t, nil)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			r, err := m.Run(t.Context(), driver.Command{Argv: []string{"echo", fmt.Sprint(i)}})
			if err != nil || string(r.Stdout) != fmt.Sprintln(i) || !r.Succeeded() {
				t.Errorf("run %d: %+v, %v", i, r, err)
			}
		})
	}
	wg.Wait()
	if infos, _ := m.Sessions(t.Context()); len(infos) != 0 {
		t.Errorf("%d foreground commands are remembered", len(infos))
	}
}

func TestCaps(t *testing.T) {
	m := newManager(t, &Options{MaxProcs: 2, MaxSessions: 3})
	sleep := driver.Command{Argv: []string{"sleep", "1000"}}
	a, b := start(t, m, sleep), start(t, m, sleep)
	_, err := m.Start(t.Context(), sleep)
	wantCode(t, "past MaxProcs", err, fault.ResourceExhausted)
	for _, s := range []*driver.Session{a, b} {
		if err := s.Kill(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		wait(t, s)
	}
	c := start(t, m, sleep)
	_, err = m.Run(t.Context(), driver.Command{Argv: []string{"true"}})
	wantCode(t, "past MaxSessions", err, fault.ResourceExhausted)
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(t, m, driver.Command{Argv: []string{"true"}})
}

func TestOptionsAreChecked(t *testing.T) {
	root := t.TempDir()
	for name, o := range map[string]Options{
		"relative root":  {Root: "x"},
		"file as root":   {Root: "/etc/passwd"},
		"short memory":   {Root: root, Retain: time.Minute},
		"negative cap":   {Root: root, MaxProcs: -1},
		"bad variable":   {Root: root, Env: map[string]string{"": "x"}},
		"negative delay": {Root: root, WaitDelay: -1},
	} {
		_, err := New(&o)
		wantCode(t, name, err, fault.InvalidArgument)
	}
	_, err := New(&Options{Root: root + "/none"})
	wantCode(t, "missing root", err, fault.NotFound)
	dir := t.TempDir()
	newManager(t, &Options{Root: root, LogDir: dir})
	_, err = New(&Options{Root: root, LogDir: dir})
	wantCode(t, "two managers over one directory", err, fault.Unavailable)
}
