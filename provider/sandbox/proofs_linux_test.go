package sandbox

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/croft-run/croft/workspace/driver"
)

// A proofHost is a host on which one process after another chooses a level.
type proofHost struct {
	root, cache, sysctls string
	boot                 string
	guest                string
}

func newProofHost(t *testing.T) *proofHost {
	t.Helper()
	dir := t.TempDir()
	h := &proofHost{root: filepath.Join(dir, "ws"), cache: filepath.Join(dir, "cache"), sysctls: filepath.Join(dir, "sys"), boot: "boot", guest: os.Getenv(guestVar)}
	h.write(t, filepath.Join(h.sysctls, "user/max_user_namespaces"), "1000\n")
	return h
}

func (h *proofHost) write(t *testing.T, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func (h *proofHost) proofs() string { return filepath.Join(h.cache, proofsName) }

// process returns the provider of a new process, and the number of its tests of levels.
func (h *proofHost) process(t *testing.T) (*Provider, *int) {
	t.Helper()
	probed.Clear() // another process has no results
	p, err := New(&Config{Root: h.root, Cache: h.cache, BootID: h.boot, Guest: h.guest})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	tests := new(int)
	p.sysctlDir, p.beforeTest = h.sysctls, func() { *tests++ }
	return p, tests
}

// choose chooses a level in a new process, and returns how often it tested one.
func (h *proofHost) choose(t *testing.T) int {
	t.Helper()
	p, tests := h.process(t)
	l, err := p.chooseLevel(t.Context(), driver.IsolationNamespaces)
	if err != nil {
		t.Fatal(err)
	}
	if l.name != driver.IsolationNamespaces {
		t.Skipf("skipped: host: the level is %s", l.name)
	}
	return *tests
}

func TestProofs(t *testing.T) {
	if !here(driver.IsolationNamespaces) {
		t.Skip("skipped: the level of this run is another one")
	}
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, h *proofHost)
		want   int
	}{
		{"nothing changed", func(*testing.T, *proofHost) {}, 0},
		{"another boot", func(_ *testing.T, h *proofHost) { h.boot = "next" }, 1},
		{"a changed sysctl", func(t *testing.T, h *proofHost) {
			h.write(t, filepath.Join(h.sysctls, "user/max_user_namespaces"), "0\n")
		}, 1},
		{"a sysctl that is new", func(t *testing.T, h *proofHost) {
			h.write(t, filepath.Join(h.sysctls, "kernel/apparmor_restrict_unprivileged_userns"), "1\n")
		}, 1},
		{"another program on PATH", func(t *testing.T, h *proofHost) {
			bin := filepath.Join(filepath.Dir(h.cache), "bin")
			h.write(t, filepath.Join(bin, "bwrap"), "#!/bin/sh\n")
			if err := os.Chmod(filepath.Join(bin, "bwrap"), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
		}, 1},
		{"no file", func(t *testing.T, h *proofHost) {
			if err := os.Remove(h.proofs()); err != nil {
				t.Fatal(err)
			}
		}, 1},
		{"a damaged file", func(t *testing.T, h *proofHost) {
			if err := os.Truncate(h.proofs(), 20); err != nil {
				t.Fatal(err)
			}
		}, 1},
		{"an unknown key", func(t *testing.T, h *proofHost) { h.write(t, h.proofs(), `{"levels":["namespaces"],"all":true}`) }, 1},
		{"a file that others may write", func(t *testing.T, h *proofHost) {
			if err := os.Chmod(h.proofs(), 0o666); err != nil {
				t.Fatal(err)
			}
		}, 1},
		{"a symlink", func(t *testing.T, h *proofHost) {
			other := h.proofs() + ".other"
			if err := errors.Join(os.Rename(h.proofs(), other), os.Symlink(other, h.proofs())); err != nil {
				t.Fatal(err)
			}
		}, 1},
		{"a file of another user", func(t *testing.T, h *proofHost) {
			if err := os.Chown(h.proofs(), 65534, 65534); err != nil {
				t.Skip("skipped: this process is not root")
			}
		}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newProofHost(t)
			if got := h.choose(t); got != 1 {
				t.Fatalf("the first process made %d tests, want 1", got)
			}
			tt.change(t, h)
			if got := h.choose(t); got != tt.want {
				t.Errorf("%d tests, want %d", got, tt.want)
			}
			if got := h.choose(t); got != 0 {
				t.Errorf("the process after it made %d tests, want 0", got)
			}
		})
	}
}

// TestProofsOfPrograms: a program that was changed in place, with its size and modification
// time restored, is another one.
func TestProofsOfPrograms(t *testing.T) {
	name := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(name, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	before := fileIdentity(name)
	time.Sleep(20 * time.Millisecond) // longer than the clock of the file system ticks
	if err := errors.Join(os.WriteFile(name, []byte("two"), 0o600), os.Chtimes(name, time.Time{}, info.ModTime())); err != nil {
		t.Fatal(err)
	}
	if after := fileIdentity(name); before == after || before == "" {
		t.Errorf("%q before and %q after the change", before, after)
	}
}

// TestProofsAfterAFailedStart: where a guest can't be started, its level is tested again,
// and the start is an error.
func TestProofsAfterAFailedStart(t *testing.T) {
	if !here(driver.IsolationNamespaces) {
		t.Skip("skipped: the level of this run is another one")
	}
	h := newProofHost(t)
	h.guest = filepath.Join(filepath.Dir(h.cache), "guest")
	copyGuest(t, os.Getenv(guestVar), h.guest)
	h.choose(t)
	p, tests := h.process(t)
	ws, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind})
	if err != nil || *tests != 0 {
		t.Fatalf("%v after %d tests", err, *tests)
	}
	defer ws.Life.Destroy(t.Context())
	if err := os.Remove(h.guest); err != nil {
		t.Fatal(err)
	}
	if res, err := ws.Shell.Run(t.Context(), driver.Command{Argv: []string{"true"}}); err == nil {
		t.Fatalf("a command without a guest gives %+v", res)
	}
	if _, err := os.Stat(h.proofs()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the proofs are still there: %v", err)
	}
}

func copyGuest(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE, 0o755) // the guest becomes another user
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
