package boundary_test

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
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

// An agent could make set-user-id programs of whoever Croft runs as.
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
