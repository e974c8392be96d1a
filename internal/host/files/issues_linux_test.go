package files_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/workspace/driver"
)

// A read far beyond the end was answered with EINVAL by the kernel, after the
// caller had been told that all was well.
func TestReadBeyondTheEndIsEmpty(t *testing.T) {
	r, _ := open(t, nil)
	put(t, r, "f", "hello")
	for _, off := range []int64{5, 6, 1 << 40, math.MaxInt64 - 5, math.MaxInt64 - 1, math.MaxInt64} {
		for _, limit := range []int64{0, 1, math.MaxInt64} {
			body, _, err := r.Read(t.Context(), "f", &driver.ReadOptions{Offset: off, Limit: limit})
			must(t, err)
			if data, err := io.ReadAll(body); err != nil || len(data) != 0 {
				t.Errorf("offset %d, limit %d: %q, %v", off, limit, data, err)
			}
			must(t, body.Close())
		}
	}
}

// A time that the file system can't hold was reported as if it did.
func TestModTimeIsWhatTheFileHas(t *testing.T) {
	r, dir := open(t, nil)
	for _, inPlace := range []bool{false, true} {
		asked := time.Date(9000, 1, 2, 3, 4, 5, 678, time.UTC)
		res, err := r.Write(t.Context(), "f", strings.NewReader("x"), &driver.WriteOptions{ModTime: asked, InPlace: inPlace})
		must(t, err)
		fi, err := os.Stat(filepath.Join(dir, "f"))
		must(t, err)
		if got, want := res.Info.ModTime, fi.ModTime().UTC(); !got.Equal(want) {
			t.Errorf("in place %v: the result says %v, the file has %v", inPlace, got, want)
		}
	}
	for _, asked := range []time.Time{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(math.MaxInt64/2, 0)} {
		_, err := r.Write(t.Context(), "f", strings.NewReader("y"), &driver.WriteOptions{ModTime: asked})
		wantCode(t, err, fault.InvalidArgument)
	}
}

// An agent could make set-user-id programs of the user that runs Croft.
func TestNoModeBeyondPermissionBits(t *testing.T) {
	r, dir := open(t, nil)
	put(t, r, "f", "x")
	for _, mode := range []os.FileMode{0o4755, 0o2755, 0o1777, 0o6000, 0o10000, os.ModeSetuid | 0o755} {
		_, err := r.Write(t.Context(), "new", strings.NewReader("x"), &driver.WriteOptions{Mode: mode})
		wantCode(t, err, fault.InvalidArgument)
		wantCode(t, r.Chmod(t.Context(), "f", mode), fault.InvalidArgument)
		err = r.Mkdir(t.Context(), "d", &driver.MkdirOptions{Mode: mode})
		wantCode(t, err, fault.InvalidArgument)
		if !strings.Contains(err.Error(), "0o777 ") {
			t.Errorf("%v does not say what is allowed", err)
		}
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"f", "inplace"} {
		must(t, os.WriteFile(path(name), []byte("x"), 0o600))
		must(t, unix.Chmod(path(name), 0o6755))
	}
	must(t, r.Copy(t.Context(), "f", "copy", nil))
	_, err := r.Write(t.Context(), "inplace", strings.NewReader("mine"), &driver.WriteOptions{InPlace: true})
	must(t, err)
	put(t, r, "f", "mine")
	for _, name := range []string{"f", "inplace", "copy"} {
		var st unix.Stat_t
		must(t, unix.Stat(path(name), &st))
		if got := st.Mode & 0o7777; got != 0o755 {
			t.Errorf("%s, with content of the agent, has mode %o", name, got)
		}
	}
}

// The words of a target were believed where they named nothing yet; what was
// made there later, each step of it allowed, made the symlink lead outside.
func TestSymlinkThatCouldLeadOutsideLater(t *testing.T) {
	r, dir := open(t, nil)
	must(t, os.MkdirAll(filepath.Join(dir, "real/sub"), 0o700))
	must(t, os.Symlink("real/sub", filepath.Join(dir, "way")))
	put(t, r, "file", "x")
	for dest, want := range map[string]fault.Code{
		"q/a/b/c/d/e/f/l/../../../../etc": fault.SandboxViolation,
		"q/../file":                       fault.SandboxViolation,
		"way/../sub":                      fault.SandboxViolation,
		"file/../file":                    fault.SandboxViolation,
		"real/../q/../file":               fault.SandboxViolation,
		"real/sub/../sub":                 "",
		"real/../q/a":                     "",
		"./q//a":                          "",
		"way/new":                         "",
	} {
		err := r.Symlink(t.Context(), dest, "link")
		if got := fault.Of(err); got != want {
			t.Errorf("a symlink to %s: %v (%s), want %s", dest, err, got, want)
		}
		if err == nil {
			must(t, os.Remove(filepath.Join(dir, "link")))
		}
	}
}

// A root followed symlinks in its own path, and nothing told one directory from
// another that took its name.
func TestOpenWithoutSymlinks(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	path := func(name string) string { return filepath.Join(top, name) }
	must(t, os.MkdirAll(path("a/b"), 0o700))
	must(t, os.Symlink("a", path("link")))
	must(t, os.Symlink("b", path("a/last")))
	must(t, os.WriteFile(path("file"), nil, 0o600))
	for name, want := range map[string]fault.Code{
		"a/b": "", "link/b": fault.SandboxViolation, "a/last": fault.SandboxViolation, "link": fault.SandboxViolation,
		"none": fault.NotFound, "file": fault.InvalidArgument, "file/x": fault.InvalidArgument,
	} {
		_, err := files.Identify(path(name))
		wantCode(t, err, want)
		r, err := files.Open(path(name), &files.Options{NoSymlinks: true})
		wantCode(t, err, want)
		if err == nil {
			must(t, r.Close())
		}
	}
	r, err := files.Open(path("a/b"), nil)
	must(t, err)
	was, err := r.Identity()
	must(t, err)
	must(t, os.Rename(path("a/b"), path("moved")))
	must(t, os.Mkdir(path("a/b"), 0o700))
	moved, err := files.Identify(path("moved"))
	must(t, err)
	now, err := files.Identify(path("a/b"))
	must(t, err)
	if was != moved || was == now {
		t.Errorf("the root is %v; moved is %v, in its place is %v", was, moved, now)
	}
	must(t, r.Close())
	_, err = r.Identity()
	wantCode(t, err, fault.WrongState)
}

// counterDir names, for a child process, the directory of the counters.
const counterDir, counterSteps = "CROFT_TEST_COUNTER", 300

// TestCountInAChild is what each process of TestConditionalWritesOfProcesses
// does; by itself it has nothing to count.
func TestCountInAChild(t *testing.T) {
	dir := os.Getenv(counterDir)
	if dir == "" {
		return
	}
	r, err := files.Open(dir, nil)
	must(t, err)
	defer r.Close()
	for range counterSteps {
		_, err := r.Edit(t.Context(), "d/edited", []driver.Edit{{Old: "end", New: "x end"}}, nil)
		for fault.Of(err) == fault.Conflict { // it gives up after many tries
			_, err = r.Edit(t.Context(), "d/edited", []driver.Edit{{Old: "end", New: "x end"}}, nil)
		}
		must(t, err)
		for increment(t, r) == fault.Conflict {
			continue
		}
	}
}

// increment adds one to a counter, if nobody else did meanwhile.
func increment(t *testing.T, r *files.Root) fault.Code {
	t.Helper()
	was := get(t, r, "counter")
	n, err := strconv.Atoi(was)
	must(t, err)
	_, err = r.Write(t.Context(), "counter", strings.NewReader(strconv.Itoa(n+1)), &driver.WriteOptions{IfMatch: driver.DigestBytes([]byte(was))})
	if err != nil && fault.Of(err) != fault.Conflict {
		t.Fatal(err)
	}
	return fault.Of(err)
}

// Writers of one process took turns; two processes lost each other's updates.
func TestConditionalWritesOfProcesses(t *testing.T) {
	r, dir := open(t, nil)
	put(t, r, "counter", "0")
	put(t, r, "d/edited", "end")
	const processes = 3
	var children [processes]*exec.Cmd
	var outs [processes]bytes.Buffer
	for i := range children {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCountInAChild$")
		c.Env = append(os.Environ(), counterDir+"="+dir)
		c.Stdout, c.Stderr = &outs[i], &outs[i]
		must(t, c.Start())
		children[i] = c
	}
	for i, c := range children {
		if err := c.Wait(); err != nil {
			t.Errorf("process %d: %v\n%s", i, err, outs[i].Bytes())
		}
	}
	if got, want := get(t, r, "counter"), strconv.Itoa(processes*counterSteps); got != want {
		t.Errorf("the counter is at %s, want %s", got, want)
	}
	if got, want := strings.Count(get(t, r, "d/edited"), "x"), processes*counterSteps; got != want {
		t.Errorf("%d edits are there, want %d", got, want)
	}
	noTemps(t, dir)
}

// A directory that someone keeps locked holds nobody longer than their context.
func TestWaitingForALockedDirectoryEnds(t *testing.T) {
	r, dir := open(t, nil)
	res := put(t, r, "f", "x")
	d, err := os.Open(dir)
	must(t, err)
	must(t, unix.Flock(int(d.Fd()), unix.LOCK_EX))
	put(t, r, "f", "x") // who does not ask for a digest does not wait
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = r.Write(ctx, "f", strings.NewReader("y"), &driver.WriteOptions{IfMatch: res.Digest})
	wantCode(t, err, fault.DeadlineExceeded)
	must(t, d.Close())
	_, err = r.Write(t.Context(), "f", strings.NewReader("y"), &driver.WriteOptions{IfMatch: res.Digest})
	must(t, err)
	noTemps(t, dir)
}

// A write whose body was still on its way when the root became read-only was
// committed afterwards.
func TestCommitIsAskedAtTheEnd(t *testing.T) {
	denied := fmt.Errorf("%w: not any more", fault.PermissionDenied)
	allowed := true
	r, dir := open(t, &files.Options{Commit: func(change func() error) error {
		if !allowed {
			return denied
		}
		return change()
	}})
	res := put(t, r, "f", "old")
	withdraw := func() io.Reader {
		allowed = true
		return io.MultiReader(strings.NewReader("new"), readerFunc(func([]byte) (int, error) { allowed = false; return 0, io.EOF }))
	}
	for _, o := range []driver.WriteOptions{{}, {InPlace: true}, {IfMatch: res.Digest}} {
		_, err := r.Write(t.Context(), "f", withdraw(), &o)
		wantCode(t, err, fault.PermissionDenied)
	}
	_, err := r.Write(t.Context(), "new", withdraw(), &driver.WriteOptions{CreateOnly: true})
	wantCode(t, err, fault.PermissionDenied)
	_, err = r.Edit(t.Context(), "f", []driver.Edit{{Old: "old", New: "new"}}, nil)
	wantCode(t, err, fault.PermissionDenied)
	wantCode(t, r.Copy(t.Context(), "f", "g", nil), fault.PermissionDenied)
	if got := get(t, r, "f"); got != "old" {
		t.Errorf("the file has %q", got)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("there are %v, %v", entries, err)
	}
}

// Evicted promises that nothing happened, which a tree that is copied in part
// can't.
func TestEvictedInTheMiddleOfACopy(t *testing.T) {
	left := 3
	r, _ := open(t, &files.Options{Commit: func(change func() error) error {
		if left--; left < 0 {
			return fmt.Errorf("%w: it was destroyed", fault.Evicted)
		}
		return change()
	}})
	put(t, r, "src/a", "x")
	put(t, r, "src/b", "x")
	err := r.Copy(t.Context(), "src", "dst", &driver.CopyOptions{Recursive: true})
	wantCode(t, err, fault.Unavailable)
	if got := get(t, r, "dst/a"); got != "x" {
		t.Errorf("what was copied before has %q", got)
	}
	_, err = r.Write(t.Context(), "f", strings.NewReader("x"), nil)
	wantCode(t, err, fault.Evicted)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(buf []byte) (int, error) { return f(buf) }

func TestSameMount(t *testing.T) {
	dir := t.TempDir()
	inner := filepath.Join(dir, "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	if !files.SameMount(inner, dir) {
		t.Error("SameMount = false for a directory and what it lies in")
	}
	for _, other := range []string{"/proc", filepath.Join(dir, "missing")} {
		if files.SameMount(dir, other) {
			t.Errorf("boundary.SameMount(%s, %s) = true", dir, other)
		}
	}
}

func TestLineage(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	dir := filepath.Join(top, "a", "b", "c")
	must(t, os.MkdirAll(dir, 0o755))
	must(t, os.Symlink("a", filepath.Join(top, "link")))
	closed := filepath.Join(top, "closed")
	must(t, os.Mkdir(closed, 0)) // nobody but root goes up from there
	for _, dir := range []string{dir, "/", "/proc", top, closed} {
		var want []files.Identity
		for at := dir; ; at = filepath.Dir(at) {
			is, err := files.Identify(at)
			must(t, err)
			want = append(want, is)
			if at == "/" {
				break
			}
		}
		got, err := files.Lineage(dir)
		must(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Lineage(%s) differs from what is there (-want +got):\n%s", dir, diff)
		}
	}
	for name, want := range map[string]fault.Code{"link/b": fault.SandboxViolation, "link": fault.SandboxViolation, "none": fault.NotFound} {
		_, err := files.Lineage(filepath.Join(top, name))
		wantCode(t, err, want)
	}
}
