package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A countingStarter remembers what became of the children that were to wait, and how
// many others there were.
type countingStarter struct {
	direct
	mu     sync.Mutex
	waited []error
	plain  int
}

func (c *countingStarter) Start(spec *Spec) (Child, error) {
	child, err := c.direct.Start(spec)
	c.mu.Lock()
	defer c.mu.Unlock()
	if spec.Await != nil {
		c.waited = append(c.waited, err)
	} else {
		c.plain++
	}
	return child, err
}

// wire is a socket with two ends: a command waits for a word at one, and is told at the
// other.
func wire(t *testing.T) (wait, tell int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeRaw(fds[0]); closeRaw(fds[1]) })
	return fds[0], fds[1]
}

var goAhead = []byte("start")

// held is a command that runs argv once the word is read.
func held(fd int, argv ...string) driver.Command {
	return driver.Command{Argv: argv, Before: func(context.Context) error {
		buf := make([]byte, len(goAhead))
		n, err := unix.Read(fd, buf)
		if err == nil && string(buf[:n]) != string(goAhead) {
			err = fault.Canceled
		}
		return err
	}}
}

func say(t *testing.T, fd int, word []byte) {
	t.Helper()
	if _, err := unix.Write(fd, word); err != nil {
		t.Fatal(err)
	}
}

func needTwo(t *testing.T) {
	t.Helper()
	if runtime.NumCPU() < 2 {
		t.Skip("a child waits by itself only where there are two processors")
	}
}

// TestChildThatWaits: it is like any other, by all that a program can see.
func TestChildThatWaits(t *testing.T) {
	needTwo(t)
	c := &countingStarter{}
	m := newManager(t, &Options{Starter: c, Env: map[string]string{"A": "b"}})
	if err := os.Mkdir(filepath.Join(m.opts.Root, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	wait, tell := wire(t)
	for _, look := range [][]string{
		{"grep", "-E", "^(Sig(Blk|Ign|Cgt)|Cap|NoNew|Seccomp)", "/proc/self/status"}, // a shell would change some of it
		{"sh", "-c", `pwd; ulimit -Sn; ulimit -Hn; ls /proc/self/fd | wc -l; env | grep -v CROFT_ | sort
			readlink /proc/self/fd/0; cut -d' ' -f5-7 /proc/$$/stat | grep -q "$$ $$ 0" && echo leads`},
	} {
		plain := run(t, m, driver.Command{Argv: look, Dir: "sub"})
		say(t, tell, goAhead)
		cmd := held(wait, look...)
		cmd.Dir = "sub"
		got, err := m.Run(Awaiting(t.Context(), Await{FD: wait, Word: goAhead}), cmd)
		if err != nil {
			t.Fatal(err)
		}
		if string(got.Stdout) != string(plain.Stdout) || got.ExitCode != 0 {
			t.Errorf("it says\n%s%s\nwant\n%s", got.Stdout, got.Stderr, plain.Stdout)
		}
	}
	if c.plain != 2 || len(c.waited) != 2 || errors.Join(c.waited...) != nil {
		t.Errorf("%d were started without a word, and with one %v; want 2 of each", c.plain, c.waited)
	}
}

// TestWordIsLate: what it waits for is done before the program starts, in the other way.
func TestWordIsLate(t *testing.T) {
	needTwo(t)
	c := &countingStarter{}
	m := newManager(t, &Options{Starter: c})
	wait, tell := wire(t)
	cmd := held(wait, "cat", "made")
	read := cmd.Before
	cmd.Before = func(ctx context.Context) error {
		if err := os.WriteFile(filepath.Join(m.opts.Root, "made"), []byte("in time"), 0o600); err != nil {
			return err
		}
		say(t, tell, goAhead)
		return read(ctx)
	}
	got, err := m.Run(Awaiting(t.Context(), Await{FD: wait, Word: goAhead}), cmd)
	if err != nil || string(got.Stdout) != "in time" {
		t.Errorf("it says %q %q, %v", got.Stdout, got.Stderr, err)
	}
	if c.plain != 1 || len(c.waited) != 1 || !errors.Is(c.waited[0], ErrNoWord) {
		t.Errorf("%d were started without a word, and with one %v", c.plain, c.waited)
	}
}

// TestNoWord: a program does not run where the word is another, or part of it, or where
// nobody is there any more to say it; and nothing is left.
func TestNoWord(t *testing.T) {
	for name, tell := range map[string]func(fd int){
		"another": func(fd int) { say(t, fd, []byte("never")) },
		"part":    func(fd int) { say(t, fd, goAhead[:2]) },
		"gone":    func(fd int) { unix.Shutdown(fd, unix.SHUT_RDWR) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newManager(t, nil)
			wait, other := wire(t)
			tell(other)
			before := openFDs(t)
			_, err := m.Run(Awaiting(t.Context(), Await{FD: wait, Word: goAhead}), held(wait, "touch", "ran"))
			if !errors.Is(err, fault.Canceled) {
				t.Errorf("got %v, want %v", err, fault.Canceled)
			}
			if _, err := os.Stat(filepath.Join(m.opts.Root, "ran")); err == nil {
				t.Error("it ran")
			}
			if after := openFDs(t); after != before {
				t.Errorf("%d descriptors are open, there were %d", after, before)
			}
			var ws syscall.WaitStatus
			if pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
				t.Errorf("there is a child: %d %v", pid, err)
			}
		})
	}
}

func openFDs(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestWaitingChildCanNotBecomeIt: what the kernel says of a program is told as ever, and
// nothing is left.
func TestWaitingChildCanNotBecomeIt(t *testing.T) {
	needTwo(t)
	for name, tc := range map[string]struct {
		make func(root string) error
		argv []string
	}{
		"nonsense": {func(root string) error {
			return os.WriteFile(filepath.Join(root, "it"), []byte{0x7f, 'E', 'L', 'F'}, 0o755)
		}, []string{"./it"}},
		"no interpreter": {func(root string) error {
			return os.WriteFile(filepath.Join(root, "it"), []byte("#!/no/such/program\n"), 0o755)
		}, []string{"./it"}},
		"interpreter that may not run": {func(root string) error {
			return os.WriteFile(filepath.Join(root, "it"), []byte("#!/etc/passwd\n"), 0o755)
		}, []string{"./it"}},
		"too long":     {func(string) error { return nil }, []string{"echo", strings.Repeat("x", 256<<10)}},
		"no directory": {os.RemoveAll, []string{"/bin/sh"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &countingStarter{}
			m := newManager(t, &Options{Starter: c})
			if err := tc.make(m.opts.Root); err != nil {
				t.Fatal(err)
			}
			_, plain := m.Run(t.Context(), driver.Command{Argv: tc.argv})
			wait, tell := wire(t)
			say(t, tell, goAhead)
			before := openFDs(t)
			cmd, called := held(wait, tc.argv...), 0
			read := cmd.Before
			cmd.Before = func(ctx context.Context) error { called++; return read(ctx) }
			_, err := m.Run(Awaiting(t.Context(), Await{FD: wait, Word: goAhead}), cmd)
			if plain == nil || err == nil || err.Error() != plain.Error() || fault.Of(err) != fault.Of(plain) {
				t.Errorf("got %v, want %v", err, plain)
			}
			if after := openFDs(t); after != before {
				t.Errorf("%d descriptors are open, there were %d", after, before)
			}
			if len(c.waited) != 1 || errors.Is(c.waited[0], ErrNoWord) {
				t.Errorf("with a word: %v", c.waited)
			}
			if called != 1 {
				t.Errorf("what it waits for was called %d times, want once", called)
			}
		})
	}
}

// TestNoneCanWaitNow: where no child can be made before the word is there, one is made
// after it.
func TestNoneCanWaitNow(t *testing.T) {
	t.Run("the kernel makes none", func(t *testing.T) {
		m := newManager(t, nil)
		m.opts.Starter = starterFunc(func(spec *Spec) (Child, error) {
			if spec.Await != nil {
				early := *spec
				early.Sys = &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(m.null.Fd())} // which is no group
				return direct{}.Start(&early)
			}
			return direct{}.Start(spec)
		})
		wait, tell := wire(t)
		say(t, tell, goAhead)
		got, err := m.Run(Awaiting(t.Context(), Await{FD: wait, Word: goAhead}), held(wait, "echo", "here"))
		if err != nil || string(got.Stdout) != "here\n" {
			t.Errorf("it says %q, %v", got.Stdout, err)
		}
	})
	t.Run("others make theirs", func(t *testing.T) {
		m := newManager(t, nil)
		wait, tell := wire(t)
		say(t, tell, goAhead)
		cmd := held(wait, "echo", "here")
		read := cmd.Before
		syscall.ForkLock.Lock() // one who waited for it here would never get it
		cmd.Before = func(ctx context.Context) error {
			syscall.ForkLock.Unlock()
			return read(ctx)
		}
		got, err := m.Run(Awaiting(t.Context(), Await{FD: wait, Word: goAhead}), cmd)
		if err != nil || string(got.Stdout) != "here\n" {
			t.Errorf("it says %q, %v", got.Stdout, err)
		}
	})
}

// waitLonger lets children wait until a test is done with them.
func waitLonger(t *testing.T) {
	t.Helper()
	most := longestWait
	longestWait = patience
	t.Cleanup(func() { longestWait = most })
}

// meanwhile runs a script, with fd as its descriptor 3, once a child of this process
// waits, which is $p. It is another process because this one may stand still until then.
func meanwhile(t *testing.T, fd int, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", `while :; do
		for p in $(cat /proc/$0/task/*/children 2>/dev/null); do
			if [ /proc/$p/exe -ef /proc/$0/exe ]; then `+script+`; exit; fi
		done
	done`, strconv.Itoa(os.Getpid()))
	fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(fd), "tell")}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles[0].Close()
	t.Cleanup(func() {
		cmd.Process.Kill() // it has ended, or never had to do anything
		cmd.Wait()
	})
}

// TestKilledWhileItWaits: a child that ends before the word comes was none.
func TestKilledWhileItWaits(t *testing.T) {
	needTwo(t)
	waitLonger(t)
	for name, word := range map[string][]byte{"start": goAhead, "never": []byte("never")} {
		t.Run(name, func(t *testing.T) {
			c := &countingStarter{}
			m := newManager(t, &Options{Starter: c})
			wait, tell := wire(t)
			before := openFDs(t)
			meanwhile(t, tell, `kill -KILL $p; printf `+string(word)+` >&3`)
			got, err := m.Run(Awaiting(t.Context(), Await{FD: wait, Word: goAhead}), held(wait, "echo", "here"))
			if string(word) == string(goAhead) {
				if err != nil || string(got.Stdout) != "here\n" {
					t.Errorf("it says %q, signal %q, %v", got.Stdout, got.Signal, err)
				}
			} else if !errors.Is(err, fault.Canceled) {
				t.Errorf("got %+v, %v, want %v", got, err, fault.Canceled)
			}
			if len(c.waited) != 1 || !errors.Is(c.waited[0], ErrNoWord) {
				t.Errorf("with a word: %v", c.waited)
			}
			if after := openFDs(t); after > before+1 { // one is of the process that killed it
				t.Errorf("%d descriptors are open, there were %d", after, before)
			}
		})
	}
}

// TestStartsWithTheWord: the time until the word is no part of the command's, nor is
// what the child used until then.
func TestStartsWithTheWord(t *testing.T) {
	needTwo(t)
	waitLonger(t)
	c := &countingStarter{}
	m := newManager(t, &Options{Starter: c})
	wait, tell := wire(t)
	// The word comes when the child has looked for it for 300 ms of a processor's time.
	const least = 200 * time.Millisecond
	meanwhile(t, tell, `while set -- $(cat /proc/$p/stat); [ $((${14} + ${15})) -lt 30 ]; do :; done; printf start >&3`)
	begin := time.Now()
	got, err := m.Run(Awaiting(t.Context(), Await{FD: wait, Word: goAhead}), held(wait, "true"))
	if all := time.Since(begin); err != nil || all-got.Duration < least || got.Usage.User+got.Usage.System > least {
		t.Errorf("it ran for %v of %v, and used %+v, %v", got.Duration, all, got.Usage, err)
	}
	if errors.Join(c.waited...) != nil || c.plain != 0 {
		t.Errorf("with a word: %v, without: %d", c.waited, c.plain)
	}
}

const waitEnv = "CROFT_TEST_WAIT"

// TestParentOfOneThatWaitsIsKilled: a program does not start once there is nobody who
// would see it end.
func TestParentOfOneThatWaitsIsKilled(t *testing.T) {
	needTwo(t)
	waitLonger(t)
	if root := os.Getenv(waitEnv); root != "" {
		m := newManager(t, &Options{Root: root})
		_, err := m.Run(Awaiting(t.Context(), Await{FD: 3, Word: goAhead}), held(3, "touch", "ran"))
		t.Fatalf("nobody killed it: %v", err)
	}
	root := t.TempDir()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	tell := fds[1]
	defer closeRaw(tell)
	parent := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	parent.Env = append(os.Environ(), waitEnv+"="+root)
	parent.ExtraFiles = []*os.File{os.NewFile(uintptr(fds[0]), "wait")}
	parent.Stdout, parent.Stderr = os.Stderr, os.Stderr
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	parent.ExtraFiles[0].Close()
	child := 0
	for till := time.Now().Add(patience); child == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(till) {
			t.Fatal("no child waits")
		}
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent.Process.Pid))
		for _, name := range tasks {
			data, _ := os.ReadFile(name)
			if pid, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && leads(pid) {
				child = pid
			}
		}
	}
	fd, err := unix.PidfdOpen(child, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer closeRaw(fd)
	parent.Process.Kill()
	parent.Wait()
	unix.SendmsgN(tell, goAhead, nil, nil, unix.MSG_NOSIGNAL) // perhaps nobody hears it
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if _, err := os.Stat(filepath.Join(root, "ran")); err == nil {
		t.Error("it ran")
	}
}

// leads reports whether a process has a session of its own, which one that waits has.
func leads(pid int) bool {
	sid, err := unix.Getsid(pid)
	return err == nil && sid == pid
}

const deathEnv = "CROFT_TEST_DEATH"

// TestOutlivesItsThread: a program has nothing of what its child had until the word came.
func TestOutlivesItsThread(t *testing.T) {
	if os.Getenv(deathEnv) != "" {
		var sig int32
		if err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&sig)), 0, 0, 0); err != nil || sig != 0 {
			t.Fatalf("with its parent it gets signal %d, %v", sig, err)
		}
		return
	}
	needTwo(t)
	c := &countingStarter{}
	m := newManager(t, &Options{Starter: c, Env: map[string]string{deathEnv: "1"}})
	wait, tell := wire(t)
	say(t, tell, goAhead)
	got, err := m.Run(Awaiting(t.Context(), Await{FD: wait, Word: goAhead}), held(wait, os.Args[0], "-test.run=^"+t.Name()+"$"))
	if err != nil || got.ExitCode != 0 || errors.Join(c.waited...) != nil {
		t.Errorf("%v %v\n%s", err, c.waited, got.Stdout)
	}
}

// TestLimitOfOneThatWaits: Go raises the limit of open files for itself alone.
func TestLimitOfOneThatWaits(t *testing.T) {
	needTwo(t)
	const script = `ulimit -Sn 100 && ulimit -Hn 512 && exec "$0" -test.run='^TestChildThatWaits$' -test.v`
	out, err := exec.Command("sh", "-c", script, os.Args[0]).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestManyWait: while others start children in both ways, and memory is collected.
func TestManyWait(t *testing.T) {
	c := &countingStarter{}
	m := newManager(t, &Options{Starter: c})
	stop := make(chan struct{})
	var collect, workers sync.WaitGroup
	collect.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	})
	for i := range 4 {
		wait, tell := wire(t)
		workers.Go(func() {
			for j := range 50 {
				want := fmt.Sprint(i, j)
				cmd := held(wait, "echo", want)
				ctx := t.Context()
				if j%2 == 0 {
					ctx = Awaiting(ctx, Await{FD: wait, Word: goAhead})
				}
				workers.Go(func() { unix.Write(tell, goAhead) })
				got, err := m.Run(ctx, cmd)
				if err != nil || string(got.Stdout) != want+"\n" {
					t.Errorf("got %q, %v, want %q", got.Stdout, err, want)
				}
			}
		})
	}
	workers.Wait()
	close(stop)
	collect.Wait()
	if len(c.waited) != 100 {
		t.Errorf("%d were to wait, want 100", len(c.waited))
	}
}
