package process

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// newManager returns a Manager over new directories that is closed with the test.
func newManager(t testing.TB, opts *Options) *Manager {
	t.Helper()
	if opts == nil {
		opts = &Options{}
	}
	o := *opts
	if o.Root == "" {
		o.Root = t.TempDir()
	}
	if o.LogDir == "" {
		o.LogDir = t.TempDir()
	}
	m, err := New(&o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return m
}

func run(t testing.TB, m *Manager, cmd driver.Command) driver.Result {
	t.Helper()
	r, err := m.Run(t.Context(), cmd)
	if err != nil {
		t.Fatalf("Run(%q%s): %v", cmd.Argv, cmd.Script, err)
	}
	return r
}

func start(t testing.TB, m *Manager, cmd driver.Command) *driver.Session {
	t.Helper()
	s, err := m.Start(t.Context(), cmd)
	if err != nil {
		t.Fatalf("Start(%q%s): %v", cmd.Argv, cmd.Script, err)
	}
	return s
}

func wait(t testing.TB, s *driver.Session) driver.Result {
	t.Helper()
	r, err := s.Wait(t.Context())
	if err != nil {
		t.Fatalf("Wait: %v", err)
	}
	return r
}

// patience bounds how long a test waits for what must come.
const patience = 2 * time.Minute

// pollUntil polls until the output so far contains text, and returns it all.
func pollUntil(t testing.TB, s *driver.Session, text string) string {
	t.Helper()
	got, ok := polled(t, s, text)
	if !ok {
		t.Fatalf("the command ended, or went on for long, with output %q, want %q in it", got, text)
	}
	return got
}

// polled is pollUntil for a command that may end before.
func polled(t testing.TB, s *driver.Session, text string) (string, bool) {
	t.Helper()
	var got bytes.Buffer
	for till := time.Now().Add(patience); time.Now().Before(till); time.Sleep(time.Millisecond) {
		p, err := s.Poll(t.Context(), 0)
		if err != nil {
			t.Fatalf("Poll: %v", err)
		}
		got.Write(p.Stdout)
		got.Write(p.Stderr)
		if strings.Contains(got.String(), text) {
			return got.String(), true
		}
		if !p.Running && len(p.Stdout)+len(p.Stderr) == 0 {
			break
		}
	}
	return got.String(), false
}

// timedOut runs a command until its time is up, and again with more time as long as
// it does not get to say anything: how soon it starts is the machine's affair.
func timedOut(t testing.TB, m *Manager, cmd driver.Command) driver.Result {
	t.Helper()
	r := run(t, m, cmd)
	for r.Cause == driver.CauseTimeout && len(r.Stdout) == 0 && cmd.Timeout < patience {
		cmd.Timeout *= 10
		r = run(t, m, cmd)
	}
	return r
}

func wantCode(t testing.TB, what string, err error, want fault.Code) {
	t.Helper()
	if got := fault.Of(err); got != want {
		t.Errorf("%s: error %v has code %q, want %q", what, err, got, want)
	}
}

// pidIn reads a process id that a command writes, waiting for it.
func pidIn(t testing.TB, m *Manager, name string) int {
	t.Helper()
	for till := time.Now().Add(patience); time.Now().Before(till); time.Sleep(time.Millisecond) {
		data, err := os.ReadFile(filepath.Join(m.opts.Root, name))
		if pid, perr := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && perr == nil && strings.HasSuffix(string(data), "\n") {
			return pid
		}
	}
	t.Fatalf("no process id came in %s", name)
	return 0
}

func write(t testing.TB, m *Manager, name, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(m.opts.Root, name), []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

// readAll reads a whole log, in chunks.
func readAll(t testing.TB, s *driver.Session, stream driver.Stream) []byte {
	t.Helper()
	var all []byte
	for off := int64(0); ; {
		c, err := s.Log(t.Context(), stream, off, 50_000)
		if err != nil {
			t.Fatalf("Log(%d): %v", off, err)
		}
		if c.Offset != off {
			t.Fatalf("Log(%d) begins at %d", off, c.Offset)
		}
		all = append(all, c.Data...)
		if off = c.Next; off == c.Size {
			return all
		}
	}
}

// readerFunc is an io.Reader.
type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

var _ io.Reader = readerFunc(nil)

func lines(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "%d\n", i+1)
	}
	return b.Bytes()
}
