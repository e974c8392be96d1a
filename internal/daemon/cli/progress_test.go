package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/gofrs/flock"

	"github.com/croft-run/croft/internal/daemon/cli"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/workspace/driver"
)

// A screen is what a terminal shows of a program.
type screen struct {
	tty  *os.File
	mu   sync.Mutex
	cond *sync.Cond
	text strings.Builder
	end  bool
	read chan struct{}
}

// watch reads what is written to a terminal until that is closed.
func watch(t *testing.T, tty *os.File) *screen {
	t.Helper()
	s := &screen{tty: tty, read: make(chan struct{})}
	s.cond = sync.NewCond(&s.mu)
	go func() {
		defer close(s.read)
		buf := make([]byte, 4096)
		for {
			n, err := tty.Read(buf)
			s.mu.Lock()
			s.text.Write(buf[:n])
			s.end = err != nil
			s.cond.Broadcast()
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return s
}

// until waits until the terminal has shown a line, with for how long that goes on.
func (s *screen) until(t *testing.T, line string) {
	t.Helper()
	s.wait(t, regexp.MustCompile(regexp.QuoteMeta(line)+` \([1-9][0-9]* s\)`)) // a second may pass without a look
}

// wait waits until the terminal has shown a text.
func (s *screen) wait(t *testing.T, want *regexp.Regexp) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !want.MatchString(s.text.String()) {
		if s.end || strings.Contains(s.text.String(), "(120 s)") {
			t.Fatalf("the terminal never shows %q, but %q", want, s.text.String())
		}
		s.cond.Wait()
	}
}

// all waits for the end, and returns all that was shown.
func (s *screen) all() string {
	<-s.read
	return s.text.String()
}

const wiped = "\x1b[1A\x1b[J"

// TestLongWorkShowsOnATerminal holds up each command that may take long, by the
// lock of the store, until its terminal says what it does and for how long; then
// the line goes, and the answer follows.
func TestLongWorkShowsOnATerminal(t *testing.T) {
	for _, tt := range []struct {
		name, shows string
		args        []string
	}{
		{"snapshot", "taking a snapshot", []string{"ws", "snapshot", "demo"}},
		{"in place", "going back", []string{"ws", "restore", "demo", "first", "--in-place"}},
		{"fork", "forking", []string{"ws", "fork", "demo", "kid"}},
		{"undo", "going back", []string{"ws", "undo", "demo"}},
		{"apply", "comparing", []string{"ws", "apply", "demo", "DIR"}},
		{"apply into", "merging", []string{"ws", "apply", "demo", "--into", "other"}},
		{"template", "making the template", []string{"template", "create", "t", "--dir", "DIR"}},
		{"gc", "collecting garbage", []string{"snapshot", "gc"}},
		{"backup", "backing up", []string{"backup", "DIR/all.croft"}},
		{"put", "copying", []string{"ws", "put", "fresh", "DIR", "."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			data, dir := filepath.Join(t.TempDir(), "data"), t.TempDir()
			for _, args := range [][]string{
				{"ws", "open", "demo", "--provider", "local"}, {"ws", "open", "other", "--provider", "local"},
				{"ws", "open", "fresh", "--provider", "local"}, {"ws", "put", "demo", "-", "file"},
				{"ws", "snapshot", "demo", "first"}, {"ws", "put", "demo", "-", "second"},
			} {
				cmd := croft(t, data, args...)
				cmd.Stdin = strings.NewReader("text\n")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%q: %s%v", args, out, err)
				}
			}
			lock := flock.New(filepath.Join(data, "store", "lock"))
			if err := lock.Lock(); err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
			for i, arg := range tt.args {
				tt.args[i] = strings.Replace(arg, "DIR", dir, 1)
			}
			cmd := croft(t, data, tt.args...)
			tty, err := pty.Start(cmd)
			if err != nil {
				t.Fatal(err)
			}
			defer tty.Close()
			s := watch(t, tty)
			s.until(t, wiped+tt.shows)
			if err := lock.Unlock(); err != nil {
				t.Fatal(err)
			}
			shown := s.all()
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v: %q", err, shown)
			}
			if after := shown[strings.LastIndex(shown, wiped)+len(wiped):]; strings.TrimSpace(after) == "" || strings.Contains(after, " s)") {
				t.Errorf("in the end it shows %q, want the answer alone", after)
			}
		})
	}
}

// slow is a provider whose snapshots take until they are let go.
type slow struct {
	driver.Provider
	enough chan struct{}
}

func (p *slow) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	return p.slowed(p.Provider.Open(ctx, spec))
}

func (p *slow) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	return p.slowed(p.Provider.Resolve(ctx, ref))
}

func (p *slow) slowed(ws *driver.Workspace, err error) (*driver.Workspace, error) {
	if err == nil {
		ws.Life.Snapshot = &driver.Snapshots{Snapshotter: p}
		ws.Ref.Capabilities = ws.Built()
	}
	return ws, err
}

func (p *slow) Snapshot(ctx context.Context, _ *driver.SnapshotOptions) (driver.SnapshotInfo, error) {
	for {
		driver.Progress(ctx)(512, 3<<20)
		select {
		case <-p.enough:
			return driver.SnapshotInfo{ID: driver.NewID(), Frozen: true}, nil
		case <-ctx.Done():
			return driver.SnapshotInfo{}, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestHowFarLongWorkIs is about what the terminal says beyond the time: what the
// provider tells while it works. With --json it says nothing.
func TestHowFarLongWorkIs(t *testing.T) {
	for _, json := range []bool{false, true} {
		data := filepath.Join(t.TempDir(), "data")
		inner, err := testshell.New(filepath.Join(data, "shelltest"))
		if err != nil {
			t.Fatal(err)
		}
		p := &slow{inner, make(chan struct{})}
		letGo := sync.OnceFunc(func() { close(p.enough) })
		defer letGo()
		master, slave, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer master.Close()
		s := watch(t, master)
		croft := func(args ...string) int {
			return cli.Run(t.Context(), append([]string{"croft", "--data", data}, args...), console.Streams{In: strings.NewReader(""),
				Out: slave, Err: slave}, p)
		}
		if got := croft("ws", "open", "demo", "--provider", "shelltest"); got != 0 {
			t.Fatalf("open: %d", got)
		}
		args := []string{"ws", "snapshot", "demo"}
		if json {
			args = append(args, "--json")
			time.AfterFunc(1500*time.Millisecond, letGo)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if got := croft(args...); got != 0 {
				t.Errorf("%q: exit status %d", args, got)
			}
			slave.Close()
		})
		if !json {
			s.until(t, "taking a snapshot: 512 files, 3 MiB")
			letGo()
		}
		wg.Wait()
		if shown := s.all(); json && strings.Contains(shown, "\x1b") {
			t.Errorf("with --json the terminal shows %q", shown)
		}
	}
}

// TestColourOnATerminal: patches and statistics have colours there, and only there.
func TestColourOnATerminal(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	say := func(text string, args ...string) string {
		t.Helper()
		cmd := croft(t, data, args...)
		cmd.Stdin = strings.NewReader(text)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %s%v", args, out, err)
		}
		return string(out)
	}
	say("", "ws", "open", "demo", "--provider", "local")
	say("one\ntwo\n", "ws", "put", "demo", "-", "file")
	say("", "ws", "snapshot", "demo", "first")
	say("one\nthree\n", "ws", "put", "demo", "-", "file")
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"ws", "diff", "demo"}, []string{"\x1b[1mdiff --git", "\x1b[36m@@", "\x1b[31m-two\x1b[m", "\x1b[32m+three\x1b[m"}},
		{[]string{"ws", "diff", "demo", "--stat"}, []string{" file | 2 \x1b[32m+\x1b[31m-\x1b[m"}},
	} {
		show := func(env ...string) string {
			cmd := croft(t, data, tt.args...)
			cmd.Env = append(cmd.Env, env...)
			tty, err := pty.Start(cmd)
			if err != nil {
				t.Fatal(err)
			}
			defer tty.Close()
			shown := watch(t, tty).all()
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%q: %v: %q", tt.args, err, shown)
			}
			return shown
		}
		shown := show()
		for _, want := range tt.want {
			if !strings.Contains(shown, want) {
				t.Errorf("%q on a terminal shows %q, want %q in it", tt.args, shown, want)
			}
		}
		for where, text := range map[string]string{"in a pipe": say("", tt.args...), "with NO_COLOR": show("NO_COLOR=1")} {
			if strings.Contains(text, "\x1b") {
				t.Errorf("%q %s has colours: %q", tt.args, where, text)
			}
		}
	}
}

// TestRmAsks: on a terminal, ws rm --all removes after a yes alone.
func TestRmAsks(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	if out, err := croft(t, data, "ws", "open", "demo", "--provider", "local").CombinedOutput(); err != nil {
		t.Fatalf("%s%v", out, err)
	}
	for _, tt := range []struct {
		answer, shows string
		status        int
	}{{"n", "nothing is removed", 21}, {"y", "removed demo", 0}} {
		cmd := croft(t, data, "ws", "rm", "--all")
		tty, err := pty.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		defer tty.Close()
		s := watch(t, tty)
		s.wait(t, regexp.MustCompile(regexp.QuoteMeta("Remove 1 workspace (demo)? [y/N] ")))
		if _, err := tty.WriteString(tt.answer + "\n"); err != nil {
			t.Fatal(err)
		}
		shown := s.all()
		cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != tt.status || !strings.Contains(shown, tt.shows) {
			t.Errorf("%s: exit status %d, %q; want %d, %q", tt.answer, got, shown, tt.status, tt.shows)
		}
	}
}
