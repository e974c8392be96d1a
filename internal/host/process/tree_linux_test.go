package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// lives reports whether a process runs; a zombie does not.
func lives(pid int) bool {
	p, ok := readProc(pid)
	return ok && p.isAlive()
}

// fugitives is a script whose descendants leave their group, their session and
// their parents, and write their numbers.
const fugitives = `
	sleep 1000 & echo $! > child
	setsid sh -c 'echo $$ > setsid; exec sleep 1000' &
	(setsid sh -c 'echo $$ > double; exec sleep 1000' &)
	setsid sh -c 'sh -c "echo \$\$ > deep; exec setsid sleep 1000" & exit' &
	while [ ! -s child -o ! -s setsid -o ! -s double -o ! -s deep ]; do sleep 0.01; done
	echo all up
`

var fugitiveFiles = []string{"child", "setsid", "double", "deep"}

// trees returns every way to end a tree that this host has.
func trees() map[string]*Options {
	return map[string]*Options{
		"walk":      {Tree: Walk{}},
		"subreaper": {Subreaper: true},
	}
}

func notSubreaper(t *testing.T) {
	t.Cleanup(func() { unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
}

// fugitivePIDs are the numbers that the fugitives wrote.
func fugitivePIDs(t *testing.T, m *Manager) []int {
	var pids []int
	for _, f := range fugitiveFiles {
		pids = append(pids, pidIn(t, m, f))
	}
	return pids
}

func TestTreesEndWhole(t *testing.T) {
	notSubreaper(t)
	ends := map[string]func(t *testing.T, s *driver.Session) driver.Cause{
		"kill": func(t *testing.T, s *driver.Session) driver.Cause {
			if err := s.Kill(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			return driver.CauseKilled
		},
		"kill with grace": func(t *testing.T, s *driver.Session) driver.Cause {
			if err := s.Kill(t.Context(), 50*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			return driver.CauseKilled
		},
		"timeout": func(*testing.T, *driver.Session) driver.Cause { return driver.CauseTimeout },
		"exit": func(t *testing.T, s *driver.Session) driver.Cause {
			if err := s.CloseStdin(t.Context()); err != nil {
				t.Fatal(err)
			}
			return ""
		},
	}
	for name, opts := range trees() {
		for how, end := range ends {
			t.Run(name+"/"+how, func(t *testing.T) {
				timeout := time.Duration(0)
				if how == "timeout" {
					timeout = 2 * time.Second
				}
				s, pids := flee(t, opts, timeout)
				cause := end(t, s)
				r := wait(t, s)
				if r.Cause != cause || string(r.Stdout) != "all up\n" {
					t.Errorf("got %+v, want cause %q", r, cause)
				}
				for _, pid := range pids {
					if lives(pid) {
						t.Errorf("%d lives", pid)
					}
				}
			})
		}
	}
}

// flee starts fugitives and returns their numbers once all are up. A time-out is
// extended until it leaves time for that.
func flee(t *testing.T, opts *Options, timeout time.Duration) (*driver.Session, []int) {
	t.Helper()
	for ; ; timeout *= 8 {
		m := newManager(t, opts)
		s := start(t, m, driver.Command{
			Script: fugitives + "cat; exit 0", Interactive: true, Timeout: timeout,
		})
		said, up := polled(t, s, "all up")
		var pids []int
		if up {
			pids = fugitivePIDs(t, m)
		}
		if st, err := s.State(t.Context()); err == nil && st.Running && len(pids) >= len(fugitiveFiles) {
			return s, pids
		}
		if timeout == 0 || timeout > patience {
			t.Fatalf("%d processes run, and it says %q", len(pids), said)
		}
	}
}

func TestForegroundLeavesNothingBehind(t *testing.T) {
	m := newManager(t, nil)
	r := run(t, m, driver.Command{Script: fugitives})
	if string(r.Stdout) != "all up\n" || !r.Succeeded() {
		t.Errorf("got %+v", r)
	}
	for _, f := range fugitiveFiles {
		if pid := pidIn(t, m, f); lives(pid) {
			t.Errorf("%s lives", f)
		}
	}
}

// mainThreadEnv names a file. This test binary writes its number there, and ends its main thread.
const mainThreadEnv = "PROCESS_TEST_MAIN_THREAD"

func init() { // the main goroutine runs on the main thread during initialization
	file := os.Getenv(mainThreadEnv)
	if file == "" {
		return
	}
	go func() {
		for !strings.Contains(threadStates(os.Getpid()), "Z") {
			time.Sleep(time.Millisecond)
		}
		if err := os.WriteFile(file, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
			os.Exit(1)
		}
		time.Sleep(time.Hour)
	}()
	unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
}

// threadStates are the states of the threads of a process, "" if it has ended.
func threadStates(pid int) (states string) {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, file := range stats {
		data, _ := os.ReadFile(file)
		if p, ok := parseStat(data); ok {
			states += string(p.state)
		}
	}
	return states
}

// TestMainThreadEnds: a process whose main thread has ended looks like a zombie, and its other
// threads run.
func TestMainThreadEnds(t *testing.T) {
	notSubreaper(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, opts := range trees() {
		t.Run(name, func(t *testing.T) {
			m := newManager(t, opts)
			file := filepath.Join(t.TempDir(), "pid")
			s := start(t, m, driver.Command{
				Script: `(setsid "$PROGRAM" &); while [ ! -s "$FILE" ]; do sleep 0.01; done; echo up; cat`, Interactive: true,
				Env: map[string]string{"PROGRAM": program, "FILE": file, mainThreadEnv: file},
			})
			pollUntil(t, s, "up")
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(string(data))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(threadStates(pid), "Z") || strings.Trim(threadStates(pid), "Z") == "" {
				t.Fatalf("the threads of the process are in the states %q", threadStates(pid))
			}
			if err := s.Kill(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			wait(t, s)
			if left := strings.Trim(threadStates(pid), "ZX"); left != "" {
				t.Errorf("threads in the states %q are left", left)
				unix.Kill(pid, unix.SIGKILL)
			}
		})
	}
}

// Descendants that hold the output get a moment to finish it, and no more.
func TestOutputAfterTheLeader(t *testing.T) {
	m := newManager(t, &Options{WaitDelay: patience})
	r := run(t, m, driver.Command{Script: "(sleep 0.1; echo late) & echo early"})
	if string(r.Stdout) != "early\nlate\n" {
		t.Errorf("got %q", r.Stdout)
	}
	m = newManager(t, nil)
	for _, both := range []bool{false, true} {
		cmd := driver.Command{Script: "(while :; do echo x; echo y >&2; done) & echo early; exit 0"}
		if both {
			cmd.OnStdout = func([]byte) error { return nil }
			cmd.OnStderr = cmd.OnStdout
		}
		if r := run(t, m, cmd); !r.Succeeded() || len(r.Stdout) == 0 {
			t.Errorf("a flood after the end: %+v", r.CallbackErrors)
		}
	}
}

// A process that nothing can find must not hang the command whose output it holds.
func TestUnkillableHolderOfTheOutput(t *testing.T) {
	m := newManager(t, &Options{Tree: Group{}, WaitDelay: 50 * time.Millisecond})
	for _, both := range []bool{false, true} {
		cmd := driver.Command{Script: "setsid sh -c 'echo $$ > holder; exec sleep 1000' & while [ ! -s holder ]; do sleep 0.01; done; echo ok"}
		if both {
			cmd.OnStdout = func([]byte) error { return nil }
			cmd.OnStderr = cmd.OnStdout
		}
		r := run(t, m, cmd)
		if string(r.Stdout) != "ok\n" || r.ExitCode != 0 {
			t.Errorf("got %+v", r)
		}
		pid := pidIn(t, m, "holder")
		if !lives(pid) {
			t.Fatal("the test has no holder")
		}
		syscall.Kill(pid, syscall.SIGKILL)
		os.Remove(filepath.Join(m.opts.Root, "holder"))
	}
}

func TestForkBombIsKilled(t *testing.T) {
	for name, opts := range trees() {
		if name == "subreaper" {
			continue // the walk again
		}
		t.Run(name, func(t *testing.T) {
			m := newManager(t, opts)
			// Bounded, so that a test that fails does not take the host with it.
			r := run(t, m, driver.Command{
				Script:  `f() { [ $1 -gt 0 ] && { f $(($1-1)) & f $(($1-1)) & }; sleep 1000; }; f 6; wait`,
				Timeout: 200 * time.Millisecond, Env: map[string]string{"BOMB": m.opts.Root},
			})
			if r.Cause != driver.CauseTimeout || len(r.CallbackErrors) > 0 {
				t.Errorf("got %+v", r)
			}
			all, _ := allPIDs()
			for _, pid := range all {
				if has, _ := hasMarker(pid, "BOMB="+m.opts.Root); has && lives(pid) {
					t.Errorf("%d lives", pid)
				}
			}
		})
	}
}

// Only a subreaper finds a process that left its parents, its session and its
// environment.
func TestSubreaperKillsStraysAndReapsOrphans(t *testing.T) {
	notSubreaper(t)
	m := newManager(t, &Options{Subreaper: true})
	other := start(t, m, driver.Command{Argv: []string{"sleep", "1000"}})
	run(t, m, driver.Command{Script: `
		(env -i setsid sh -c 'echo $$ > stray; exec sleep 1000' >/dev/null 2>&1 &)
		(sh -c 'echo $$ > orphan; sleep 0.05' >/dev/null 2>&1 &)
		while [ ! -s stray -o ! -s orphan ]; do sleep 0.01; done`})
	stray, orphan := pidIn(t, m, "stray"), pidIn(t, m, "orphan")
	until(t, "the orphan is reaped", func() bool { _, ok := readProc(orphan); return !ok })
	if !lives(stray) {
		t.Error("the stray was killed while it could have been another command's")
	}
	if err := other.Kill(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	until(t, "the stray is killed and reaped", func() bool { _, ok := readProc(stray); return !ok })
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for till := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(till) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func TestSubreaperStealsNoStatus(t *testing.T) {
	notSubreaper(t)
	m := newManager(t, &Options{Subreaper: true})
	for i := range 5 {
		cmd := exec.Command("sh", "-c", fmt.Sprintf("exit %d", i+3))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for range 3 { // each pokes the reaper
			run(t, m, driver.Command{Argv: []string{"true"}})
		}
		time.Sleep(20 * time.Millisecond)
		cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != i+3 {
			t.Fatalf("exit status %d, want %d: %v", got, i+3, cmd.ProcessState)
		}
	}
}

func TestThreadStarter(t *testing.T) {
	calls := 0
	starter, err := NewThreadStarter(func() error {
		calls++
		return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(&Options{Root: t.TempDir(), Starter: starter})
	if err != nil {
		t.Fatal(err)
	}
	status := driver.Command{Argv: []string{"grep", "NoNewPrivs", "/proc/self/status"}}
	for range 3 {
		if r := run(t, m, status); string(r.Stdout) != "NoNewPrivs:\t1\n" {
			t.Errorf("a child of the thread has %q", r.Stdout)
		}
	}
	status.TTY = &driver.Size{Rows: 5, Cols: 50}
	if r := run(t, m, status); !strings.Contains(string(r.Stdout), "NoNewPrivs:\t1\r\n") {
		t.Errorf("on a terminal it has %q", r.Stdout)
	}
	if calls != 1 {
		t.Errorf("setup was called %d times", calls)
	}
	if r := run(t, newManager(t, nil), driver.Command{Argv: []string{"grep", "NoNewPrivs", "/proc/self/status"}}); string(r.Stdout) != "NoNewPrivs:\t0\n" {
		t.Errorf("a child of another thread has %q", r.Stdout)
	}
	_, err = m.Run(t.Context(), driver.Command{Argv: []string{"./none"}})
	wantCode(t, "missing program", err, fault.NotFound)
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	starter.Close()
	starter.Close()
	_, err = starter.Start(&Spec{})
	wantCode(t, "Start after Close", err, fault.WrongState)
	_, err = NewThreadStarter(func() error { return syscall.EPERM })
	wantCode(t, "a setup that fails", err, fault.PermissionDenied)
}

func TestWrapper(t *testing.T) {
	m := newManager(t, &Options{
		Wrapper: wrapFunc(func(program string, args []string, cwd string) (string, []string, error) {
			if strings.HasSuffix(program, "/false") {
				return "", nil, fmt.Errorf("no: %w", fault.SandboxViolation)
			}
			return "env", append([]string{"WRAPPED=" + cwd, program}, args...), nil
		}),
	})
	r := run(t, m, driver.Command{Script: "echo $WRAPPED"})
	if got, want := string(r.Stdout), m.opts.Root+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	_, err := m.Run(t.Context(), driver.Command{Argv: []string{"false"}})
	wantCode(t, "a wrapper's refusal", err, fault.SandboxViolation)
	if len(m.sessions) != 0 || m.running != 0 {
		t.Error("a refused command is counted")
	}
}

type wrapFunc func(program string, args []string, cwd string) (string, []string, error)

func (f wrapFunc) Wrap(program string, args []string, cwd string) (string, []string, error) {
	return f(program, args, cwd)
}

func TestLimits(t *testing.T) {
	m := newManager(t, nil)
	limits := driver.Limits{driver.ResourceOpenFiles: {Max: 33}, driver.ResourceMemory: {Max: 64 << 20, BestEffort: true}}
	r := run(t, m, driver.Command{Script: "ulimit -n; ulimit -Hn; ulimit -d; echo $1", Limits: limits})
	if got, want := string(r.Stdout), "33\n33\n65536\n\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	r = run(t, m, driver.Command{Argv: []string{"printf", "%s|", "a b", "$0"}, Limits: limits})
	if got, want := string(r.Stdout), "a b|$0|"; got != want {
		t.Errorf("argv through the limits is %q, want %q", got, want)
	}
	r = run(t, m, driver.Command{Argv: []string{"sleep", "1000"}, Limits: driver.Limits{driver.ResourceWall: {Max: int64(50 * time.Millisecond)}}})
	if r.Cause != driver.CauseTimeout {
		t.Errorf("wall: got %+v", r)
	}
	for name, l := range map[string]driver.Limits{
		"memory": {driver.ResourceMemory: {Max: 1}}, "pids": {driver.ResourcePIDs: {Max: 1}},
		"cpu": {driver.ResourceCPU: {Max: 1}}, "disk": {driver.ResourceDisk: {Max: 1}},
	} {
		_, err := m.Run(t.Context(), driver.Command{Argv: []string{"true"}, Limits: l})
		wantCode(t, name, err, fault.Unsupported)
	}
	_, err := m.Run(t.Context(), driver.Command{Argv: []string{"true"}, Limits: driver.Limits{driver.ResourceCPU: {Max: -1}}})
	wantCode(t, "negative", err, fault.InvalidArgument)
	pids := driver.Limits{driver.ResourcePIDs: {Max: 1, BestEffort: true}}
	if r := run(t, m, driver.Command{Argv: []string{"true"}, Limits: pids}); !r.Succeeded() {
		t.Errorf("best effort: got %+v", r)
	}
}

// helperEnv makes this test binary the Manager that is killed.
const helperEnv = "PROCESS_TEST_CRASH"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperEnv); dir != "" {
		crash(dir)
	}
	os.Exit(m.Run())
}

// crash runs sessions until it is killed.
func crash(dir string) {
	ctx := context.Background()
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	m, err := New(&Options{Root: dir + "/root", LogDir: dir + "/log"})
	check(err)
	done, err := m.Start(ctx, driver.Command{Script: "echo finished; exit 5"})
	check(err)
	_, err = done.Wait(ctx)
	check(err)
	_, err = m.Start(ctx, driver.Command{Script: fugitives + "sleep 1000"})
	check(err)
	forgotten, err := m.Start(ctx, driver.Command{Argv: []string{"echo", "x"}})
	check(err)
	_, err = forgotten.Wait(ctx)
	check(err)
	check(forgotten.Close(ctx))
	r, err := m.Run(ctx, driver.Command{Argv: []string{"seq", "1000"}, MaxOutput: 10})
	check(err)
	fmt.Println(r.Session)
	m.Run(ctx, driver.Command{Script: "echo $$ > front; exec sleep 1000"})
}

func TestRecover(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/root", 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var cut string
	if _, err := fmt.Fscanln(out, &cut); err != nil {
		t.Fatal(err)
	}
	// The fugitives must be up before their Manager dies.
	fake := &Manager{opts: Options{Root: dir + "/root"}}
	var pids []int
	for _, f := range append([]string{"front"}, fugitiveFiles...) {
		pids = append(pids, pidIn(t, fake, f))
	}
	until(t, "the foreground command is written down", func() bool {
		data, _ := os.ReadFile(dir + "/log/sessions.jsonl")
		return strings.Contains(string(data), "front;")
	})
	until(t, "the lost session has written", func() bool {
		found, _ := filepath.Glob(dir + "/log/*.stdout")
		for _, f := range found {
			if data, _ := os.ReadFile(f); string(data) == "all up\n" {
				return true
			}
		}
		return false
	})
	cmd.Process.Kill()
	cmd.Wait()
	tail, err := os.OpenFile(dir+"/log/sessions.jsonl", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	tail.WriteString(`{"op":"start","info":{"id":"tornt`)
	tail.Close()
	os.WriteFile(dir+"/log/"+strings.Repeat("z", 20)+".stdout", []byte("nobody's"), 0o600)

	for range 2 { // what is recovered is recovered again
		m, err := New(&Options{Root: dir + "/root", LogDir: dir + "/log"})
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range pids {
			if lives(pid) {
				t.Errorf("%d of a lost session lives", pid)
			}
		}
		infos, _ := m.Sessions(t.Context())
		if len(infos) != 4 {
			t.Fatalf("got %d sessions, want 4: %+v", len(infos), infos)
		}
		wantSession(t, m, infos[3].ID, -1, driver.CauseLost, "")
		wantSession(t, m, infos[0].ID, 5, "", "finished\n")
		wantSession(t, m, infos[1].ID, -1, driver.CauseLost, "all up\n")
		wantSession(t, m, cut, 0, "", string(lines(1000)))
		if _, err := os.Stat(dir + "/log/" + strings.Repeat("z", 20) + ".stdout"); err == nil {
			t.Error("a log of nobody is left")
		}
		if err := m.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func wantSession(t *testing.T, m *Manager, id string, exit int, cause driver.Cause, log string) {
	t.Helper()
	s, err := m.Attach(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	r := wait(t, s)
	if r.ExitCode != exit || r.Cause != cause || r.Session != id {
		t.Errorf("got %+v, want exit %d, cause %q", r, exit, cause)
	}
	if got := string(readAll(t, s, driver.Stdout)); got != log {
		t.Errorf("the log has %q, want %q", got, log)
	}
	for what, err := range map[string]error{
		"Signal": s.Signal(t.Context(), "SIGINT"), "Write": s.Write(t.Context(), nil),
	} {
		wantCode(t, what, err, fault.WrongState)
	}
	if err := s.Kill(t.Context(), 0); err != nil {
		t.Error(err)
	}
}

// TestNothingLeaks counts descriptors, goroutines, children and files after
// commands that ended in every way.
func TestNothingLeaks(t *testing.T) {
	logs := t.TempDir()
	round := func() {
		m, err := New(&Options{Root: t.TempDir(), LogDir: logs})
		if err != nil {
			t.Fatal(err)
		}
		noop := func([]byte) error { return nil }
		for _, cmd := range []driver.Command{
			{Argv: []string{"true"}}, {Argv: []string{"./none"}}, {Argv: []string{"/etc/passwd"}},
			{Script: "cat", Stdin: strings.NewReader("x")}, {Script: "echo a; echo b >&2", OnStdout: noop, OnStderr: noop},
			{Script: "sleep 1000", Timeout: 30 * time.Millisecond}, {Script: "tty", TTY: &driver.Size{Rows: 1, Cols: 1}},
			{Script: "seq 100", MaxOutput: 10}, {Script: "\x00"}, {Argv: []string{"true"}, Dir: "x"},
			{Script: "sleep 1000 &"}, {Argv: []string{"true"}, TTY: &driver.Size{Rows: 1, Cols: 1}, Dir: "none"},
		} {
			m.Run(t.Context(), cmd)
			cmd.Interactive = cmd.Stdin == nil
			if s, err := m.Start(t.Context(), cmd); err == nil && cmd.TTY == nil {
				s.Close(t.Context())
			}
		}
		infos, _ := m.Sessions(t.Context())
		for _, info := range infos {
			s, err := m.Attach(t.Context(), info.ID)
			if err != nil {
				t.Fatal(err)
			}
			s.Close(t.Context())
		}
		if err := m.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	count := func() (fds, goroutines, zombies int) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		pids, _ := allPIDs()
		for _, pid := range pids {
			if p, ok := readProc(pid); ok && p.ppid == os.Getpid() {
				zombies++
			}
		}
		return len(entries), runtime.NumGoroutine(), zombies
	}
	round()
	fds, goroutines, children := count()
	for range 3 {
		round()
	}
	until(t, "no more descriptors, goroutines and children than before", func() bool { // the last of them may be on their way out
		fds2, goroutines2, children2 := count()
		return fds2 <= fds && goroutines2 <= goroutines && children2 <= children
	})
	entries, err := os.ReadDir(logs)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "lock" && e.Name() != "sessions.jsonl" {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// TestThisProcessIsNoCandidate: neither it nor one of its threads, which have
// numbers as processes do, can descend from a command.
func TestThisProcessIsNoCandidate(t *testing.T) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range candidates(0) {
		if slices.ContainsFunc(threads, func(e os.DirEntry) bool { return e.Name() == strconv.Itoa(p.pid) }) {
			t.Errorf("%d is a candidate", p.pid)
		}
	}
}
