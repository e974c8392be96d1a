package snapshot

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/internal/testenv"
)

// asOrdinary runs the test again as an ordinary user, if this process is root, for which
// modes do not count. It reports whether the caller is that user.
func asOrdinary(t *testing.T) bool {
	t.Helper()
	if os.Getuid() != 0 {
		return true
	}
	dir, err := os.MkdirTemp("", "croft-ordinary-") //nolint:usetesting // another user can't enter what t.TempDir is in
	must0(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must0(t, os.Chown(dir, testenv.Nobody, testenv.Nobody))
	self := filepath.Join(dir, "tests")
	program, err := os.ReadFile(os.Args[0])
	must0(t, err)
	must0(t, os.WriteFile(self, program, 0o755)) //nolint:gosec // another user runs it
	cmd := exec.CommandContext(t.Context(), self, "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testenv.Nobody, Gid: testenv.Nobody}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	}
	return false
}

// closeDirs takes the right to write from directories of a tree, of their owner, too.
func closeDirs(t *testing.T, dir string, names ...string) string {
	t.Helper()
	for _, name := range names {
		must0(t, os.Chmod(filepath.Join(dir, name), 0o555))
	}
	t.Cleanup(func() { openAll(dir) })
	return dir
}

// modesAndContents returns the mode of each entry of a tree, with the content of files.
func modesAndContents(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	must0(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var content []byte
		if info.Mode().IsRegular() {
			content, err = os.ReadFile(path)
		}
		found[strings.TrimPrefix(path, dir)] = info.Mode().String() + " " + string(content)
		return err
	}))
	return found
}

// TestReadOnlyDirectories: directories in which their owner may not write are added, changed,
// replaced, removed and taken back.
func TestReadOnlyDirectories(t *testing.T) {
	if !asOrdinary(t) {
		return
	}
	old := map[string]string{"changed/sub/file": "1", "removed/file": "1", "replaced/file": "1"}
	base := closeDirs(t, plant(t, old), "changed/sub", "changed", "removed", "replaced")
	to := closeDirs(t, plant(t, old), "changed/sub", "changed", "removed", "replaced")
	theirs := plant(t, map[string]string{"changed/sub/file": "2", "changed/sub/more": "1", "added/sub/file": "1", "replaced": "a file"})
	closeDirs(t, theirs, "changed/sub", "changed", "added/sub", "added")
	was := describe(t, HostDir(to, nil))
	s := Open(Dir(filepath.Join(t.TempDir(), "store")), nil)
	res, err := Apply(t.Context(), HostDir(base, nil), HostDir(theirs, nil), to, &ApplyOptions{Undo: s})
	must0(t, err)
	if diff := cmp.Diff(modesAndContents(t, theirs), modesAndContents(t, to)); diff != "" {
		t.Errorf("after the apply (-want +got):\n%s", diff)
	}
	_, err = Undo(t.Context(), s, res.Undo, to, nil)
	must0(t, err)
	if diff := cmp.Diff(was, describe(t, HostDir(to, nil))); diff != "" {
		t.Errorf("after the undo (-want +got):\n%s", diff)
	}
}

// TestFailureInReadOnlyDirectory: a change that fails leaves modes as they were.
func TestFailureInReadOnlyDirectory(t *testing.T) {
	if !asOrdinary(t) {
		return
	}
	dir, stage := closeDirs(t, plant(t, map[string]string{"closed/file": "1", "closed/sub/file": "1"}), "closed/sub", "closed"), t.TempDir()
	was := modesAndContents(t, dir)
	open := func(dir string) int {
		fd, err := openRetry(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY)
		must0(t, err)
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	p := &parentCache{root: open(dir), stage: open(stage)}
	ops := []op{{Path: []byte("closed/file"), Remove: true}, {Path: []byte("closed/sub"), Remove: true}, {Path: []byte("missing/file"), Temp: "1"}}
	if whole, err := p.runOps(t.Context(), ops, &RestoreOptions{}); err == nil || !whole {
		t.Errorf("got %v, %v; want an error after which all is as before", whole, err)
	}
	if diff := cmp.Diff(was, modesAndContents(t, dir)); diff != "" {
		t.Errorf("after the failure (-want +got):\n%s", diff)
	}
}
