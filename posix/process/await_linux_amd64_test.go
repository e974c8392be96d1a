package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"

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
	c := &countingStarter{}
	m := newManager(t, &Options{Starter: c})
	if err := os.WriteFile(filepath.Join(m.opts.Root, "nonsense"), []byte{0x7f, 'E', 'L', 'F'}, 0o755); err != nil {
		t.Fatal(err)
	}
	_, plain := m.Run(t.Context(), driver.Command{Argv: []string{"./nonsense"}})
	wait, tell := wire(t)
	say(t, tell, goAhead)
	before := openFDs(t)
	_, err := m.Run(Awaiting(t.Context(), Await{FD: wait, Word: goAhead}), held(wait, "./nonsense"))
	if plain == nil || err == nil || err.Error() != plain.Error() || fault.Of(err) != fault.Of(plain) {
		t.Errorf("got %v, want %v", err, plain)
	}
	if after := openFDs(t); after != before {
		t.Errorf("%d descriptors are open, there were %d", after, before)
	}
	if len(c.waited) != 1 || errors.Is(c.waited[0], ErrNoWord) {
		t.Errorf("with a word: %v", c.waited)
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
