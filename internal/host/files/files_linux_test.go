package files_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/workspace/driver"
)

func TestWriteKeepsModeOwnerAndXattrs(t *testing.T) {
	r, dir := open(t, nil)
	put(t, r, "f", "old")
	path := filepath.Join(dir, "f")
	must(t, os.Chmod(path, 0o751))
	var owner uint32
	if os.Getuid() == 0 {
		owner = 12345
		must(t, os.Chown(path, int(owner), 23456))
	}
	xattrs := unix.Setxattr(path, "user.croft", []byte("kept"), 0) == nil
	res := put(t, r, "f", "new")
	if res.Info.Mode != 0o751 || res.Created {
		t.Errorf("result %+v", res)
	}
	var st unix.Stat_t
	must(t, unix.Stat(path, &st))
	if st.Mode&0o7777 != 0o751 || os.Getuid() == 0 && (st.Uid != owner || st.Gid != 23456) {
		t.Errorf("mode %o, owner %d:%d", st.Mode, st.Uid, st.Gid)
	}
	buf := make([]byte, 16)
	if n, err := unix.Getxattr(path, "user.croft", buf); xattrs && (err != nil || string(buf[:n]) != "kept") {
		t.Errorf("the extended attribute is %q, %v", buf[:max(n, 0)], err)
	}
	res, err := r.Write(t.Context(), "f", strings.NewReader("x"), &driver.WriteOptions{SetMode: true, Mode: 0o600})
	if err != nil || res.Info.Mode != 0o600 {
		t.Errorf("with SetMode: %+v, %v", res, err)
	}
}

func TestXattrs(t *testing.T) {
	r, dir := open(t, nil)
	put(t, r, "f", "x")
	if err := unix.Setxattr(filepath.Join(dir, "f"), "user.other", []byte("kept"), 0); err != nil {
		t.Skipf("skipped: host: it lacks extended attributes in %s: %v", dir, err)
	}
	for _, want := range []map[string]string{{"a": "1", "b": ""}, {"b": "2", "c": "\xff"}, {}} {
		must(t, r.SetXattrs(t.Context(), "f", "mine.", want))
		got, err := r.Xattrs(t.Context(), "f", "mine.")
		must(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if got, err := r.Xattrs(t.Context(), "f", ""); err != nil || len(got) != 1 || got["other"] != "kept" {
		t.Errorf("all attributes are %q, %v", got, err)
	}
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "out")))
	for name, want := range map[string]fault.Code{"none": fault.NotFound, "fifo": fault.InvalidArgument, "out": fault.SandboxViolation} {
		_, err := r.Xattrs(t.Context(), name, "")
		if set := r.SetXattrs(t.Context(), name, "", nil); fault.Of(err) != want || fault.Of(set) != want {
			t.Errorf("%s: %v, %v; want %v", name, err, set, want)
		}
	}
}

func TestWriteIgnoresTheUmask(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	r, dir := open(t, nil)
	_, err := r.Write(t.Context(), "d/f", strings.NewReader("x"), &driver.WriteOptions{Parents: true, Mode: 0o666})
	must(t, err)
	for name, want := range map[string]fs.FileMode{"d": 0o755, "d/f": 0o666} {
		fi, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if fi.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", name, fi.Mode().Perm(), want)
		}
	}
}

func TestWriteAndHardLinks(t *testing.T) {
	r, dir := open(t, nil)
	put(t, r, "a", "old")
	must(t, os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b")))
	res := put(t, r, "a", "new")
	if !res.BrokeLinks || get(t, r, "b") != "old" {
		t.Errorf("BrokeLinks %v, the other link has %q", res.BrokeLinks, get(t, r, "b"))
	}
	must(t, os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "c")))
	res, err := r.Write(t.Context(), "a", strings.NewReader("in place and longer"), &driver.WriteOptions{InPlace: true})
	if err != nil || res.BrokeLinks || get(t, r, "c") != "in place and longer" {
		t.Errorf("in place: %+v, %v; the other link has %q", res, err, get(t, r, "c"))
	}
	res, err = r.Write(t.Context(), "a", strings.NewReader("s"), &driver.WriteOptions{InPlace: true})
	if err != nil || get(t, r, "c") != "s" || res.Info.Size != 1 {
		t.Errorf("in place and shorter: %+v, %v; the other link has %q", res, err, get(t, r, "c"))
	}
	must(t, r.Chmod(t.Context(), "a", 0o600))
	fi, err := os.Stat(filepath.Join(dir, "c"))
	if err != nil || fi.Mode().Perm() != 0o644 || get(t, r, "a") != "s" {
		t.Errorf("chmod reached the other link: %v, %v", fi.Mode(), err)
	}
	noTemps(t, dir)
}

func TestWriteConditions(t *testing.T) {
	r, dir := open(t, nil)
	ctx := t.Context()
	res := put(t, r, "f", "one")
	write := func(name string, o driver.WriteOptions) error {
		_, err := r.Write(ctx, name, strings.NewReader("two"), &o)
		return err
	}
	wantCode(t, write("f", driver.WriteOptions{CreateOnly: true}), fault.AlreadyExists)
	wantCode(t, write("f", driver.WriteOptions{IfMatch: driver.DigestBytes([]byte("other"))}), fault.Conflict)
	wantCode(t, write("none", driver.WriteOptions{IfMatch: res.Digest}), fault.Conflict)
	wantCode(t, write("f", driver.WriteOptions{IfMatch: "nonsense"}), fault.InvalidArgument)
	wantCode(t, write("f", driver.WriteOptions{MaxSize: 2}), fault.ResourceExhausted)
	wantCode(t, write("f", driver.WriteOptions{MaxSize: 2, InPlace: true}), fault.ResourceExhausted)
	wantCode(t, write("f", driver.WriteOptions{Mode: fs.ModeDir | 0o755}), fault.InvalidArgument)
	_, err := r.Write(ctx, "f", iotest.ErrReader(errors.New("torn")), nil)
	wantCode(t, err, fault.Internal)
	long := io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<20)), iotest.ErrReader(fault.Unavailable))
	_, err = r.Write(ctx, "f", long, nil)
	wantCode(t, err, fault.Unavailable)
	if got := get(t, r, "f"); got != "one" {
		t.Fatalf("a refused write left %q", got)
	}
	wantCode(t, write("f", driver.WriteOptions{IfMatch: res.Digest, Sync: true}), "")
	wantCode(t, write("new", driver.WriteOptions{CreateOnly: true, Sync: true}), "")
	when := time.Date(2001, 2, 3, 4, 5, 6, 7000, time.UTC)
	out, err := r.Write(ctx, "f", strings.NewReader("dated"), &driver.WriteOptions{ModTime: when})
	info, errStat := r.Stat(ctx, "f", nil)
	if err != nil || errStat != nil || !info.ModTime.Equal(when) || !out.Info.ModTime.Equal(when) {
		t.Errorf("dated %v and %v, %v %v; want %v", out.Info.ModTime, info.ModTime, err, errStat, when)
	}
	noTemps(t, dir)
}

func TestLargeWriteHasTheDigestOfItsContent(t *testing.T) {
	r, _ := open(t, &files.Options{Sync: true})
	content := strings.Repeat("0123456789", 100_000)
	res := put(t, r, "big", content)
	if res.Digest != driver.DigestBytes([]byte(content)) || res.Info.Size != int64(len(content)) || get(t, r, "big") != content {
		t.Errorf("result %+v", res)
	}
	_, err := r.Write(t.Context(), "big", strings.NewReader(content+content), &driver.WriteOptions{MaxSize: 1 << 20})
	wantCode(t, err, fault.ResourceExhausted)
}

// Writers that add to one file by IfMatch lose nothing.
func TestIfMatchAmongGoroutines(t *testing.T) {
	r, dir := open(t, nil)
	put(t, r, "n", "")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for done := 0; done < 20; {
				old := get(t, r, "n")
				_, err := r.Write(t.Context(), "n", strings.NewReader(old+"x"), &driver.WriteOptions{IfMatch: driver.DigestBytes([]byte(old))})
				if err == nil {
					done++
				} else if fault.Of(err) != fault.Conflict {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := len(get(t, r, "n")); got != 160 {
		t.Errorf("%d of 160 writes are there", got)
	}
	noTemps(t, dir)
}

func TestEdit(t *testing.T) {
	r, _ := open(t, nil)
	put(t, r, "f", "a b b")
	ctx := t.Context()
	res, err := r.Edit(ctx, "f", []driver.Edit{{Old: "a", New: "c"}, {Old: "b", New: "d", All: true}}, nil)
	if err != nil || !cmp.Equal(res.Replaced, []int{1, 2}) || get(t, r, "f") != "c d d" {
		t.Errorf("%+v, %v: %q", res, err, get(t, r, "f"))
	}
	_, err = r.Edit(ctx, "f", []driver.Edit{{Old: "c", New: "x"}, {Old: "none", New: "x"}}, nil)
	wantCode(t, err, fault.NotFound)
	_, err = r.Edit(ctx, "f", []driver.Edit{{Old: "c", New: "x"}}, &driver.EditOptions{IfMatch: driver.DigestBytes(nil)})
	wantCode(t, err, fault.Conflict)
	if got := get(t, r, "f"); got != "c d d" {
		t.Errorf("a refused edit left %q", got)
	}
}

func TestReadRanges(t *testing.T) {
	r, _ := open(t, nil)
	put(t, r, "f", "0123456789")
	for _, tt := range []struct {
		o    driver.ReadOptions
		want string
	}{
		{driver.ReadOptions{}, "0123456789"}, {driver.ReadOptions{Offset: 4}, "456789"}, {driver.ReadOptions{Limit: 3}, "012"},
		{driver.ReadOptions{Offset: 8, Limit: 5}, "89"}, {driver.ReadOptions{Offset: 10}, ""}, {driver.ReadOptions{Offset: 1 << 40, Limit: 1}, ""},
	} {
		body, info, err := r.Read(t.Context(), "f", &tt.o)
		must(t, err)
		data, err := io.ReadAll(body)
		if string(data) != tt.want || err != nil || info.Size != 10 {
			t.Errorf("%+v: %q, %v; want %q", tt.o, data, err, tt.want)
		}
		must(t, body.Close())
		if _, err := body.Read(make([]byte, 1)); err == nil {
			t.Error("a closed reader reads")
		}
	}
	_, _, err := r.Read(t.Context(), "f", &driver.ReadOptions{Offset: -1})
	wantCode(t, err, fault.InvalidArgument)
}

func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o644))
	r, err := files.Open(dir, &files.Options{ReadOnly: true})
	must(t, err)
	defer r.Close()
	before, err := r.Digest(t.Context(), ".")
	must(t, err)
	for _, op := range operations {
		switch op.name {
		case "read", "stat", "stat the link", "grep", "digest", "watch":
			if _, err := op.run(t.Context(), r, "f"); err != nil {
				t.Errorf("%s: %v", op.name, err)
			}
		case "readdir", "list", "glob below", "glob":
			if _, err := op.run(t.Context(), r, "."); err != nil {
				t.Errorf("%s: %v", op.name, err)
			}
		default:
			_, err := op.run(t.Context(), r, "f")
			if fault.Of(err) != fault.PermissionDenied || !strings.Contains(err.Error(), "read-only") {
				t.Errorf("%s: %v, want read-only", op.name, err)
			}
		}
	}
	wantCode(t, r.CleanTemps(t.Context()), fault.PermissionDenied)
	if after, err := r.Digest(t.Context(), "."); err != nil || after != before {
		t.Errorf("a read-only root changed, %v", err)
	}
}

func TestMkdirRemove(t *testing.T) {
	r, dir := open(t, nil)
	ctx := t.Context()
	wantCode(t, r.Mkdir(ctx, "a/b", nil), fault.NotFound)
	wantCode(t, r.Mkdir(ctx, "a/b", &driver.MkdirOptions{Parents: true, Mode: 0o700}), "")
	wantCode(t, r.Mkdir(ctx, "a/b", &driver.MkdirOptions{Parents: true}), "")
	wantCode(t, r.Mkdir(ctx, "a/b", nil), fault.AlreadyExists)
	put(t, r, "f", "x")
	wantCode(t, r.Mkdir(ctx, "f", &driver.MkdirOptions{Parents: true}), fault.AlreadyExists)
	wantCode(t, r.Remove(ctx, "a", nil), fault.AlreadyExists)
	must(t, os.Symlink("a", filepath.Join(dir, "link")))
	wantCode(t, r.Remove(ctx, "link", &driver.RemoveOptions{Recursive: true}), "")
	if _, err := os.Stat(filepath.Join(dir, "a/b")); err != nil {
		t.Errorf("removing a symlink removed what it points to: %v", err)
	}
	wantCode(t, r.Remove(ctx, "a", &driver.RemoveOptions{Recursive: true}), "")
	wantCode(t, r.Remove(ctx, "a", &driver.RemoveOptions{Recursive: true}), fault.NotFound)
	wantCode(t, r.Remove(ctx, ".", &driver.RemoveOptions{Recursive: true}), fault.InvalidArgument)
	wantCode(t, r.Remove(ctx, "f", nil), "")
}

// A tree that is deeper than a process may have descriptors, and than a path can
// be long, can be removed.
func TestRemoveDeepTree(t *testing.T) {
	r, dir := open(t, nil)
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	for range 1500 {
		must(t, unix.Mkdirat(fd, "deep", 0o755))
		sub, err := unix.Openat(fd, "deep", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err)
		unix.Close(fd)
		fd = sub
	}
	unix.Close(fd)
	must(t, r.Remove(t.Context(), "deep", &driver.RemoveOptions{Recursive: true}))
	if infos, err := r.ReadDir(t.Context(), "."); err != nil || len(infos) != 0 {
		t.Errorf("left %v, %v", infos, err)
	}
}

func TestRename(t *testing.T) {
	r, _ := open(t, nil)
	ctx := t.Context()
	put(t, r, "a", "a")
	put(t, r, "b", "b")
	wantCode(t, r.Rename(ctx, "a", "b", &driver.RenameOptions{CreateOnly: true}), fault.AlreadyExists)
	wantCode(t, r.Rename(ctx, "a", "d/e", nil), fault.NotFound)
	wantCode(t, r.Rename(ctx, "a", "d/e", &driver.RenameOptions{Parents: true}), "")
	wantCode(t, r.Rename(ctx, "d/e", "b", nil), "")
	wantCode(t, r.Rename(ctx, "d", "d/x", nil), fault.InvalidArgument)
	wantCode(t, r.Rename(ctx, "none", "x", nil), fault.NotFound)
	if got := get(t, r, "b"); got != "a" {
		t.Errorf("b holds %q", got)
	}
}

func TestCopyTree(t *testing.T) {
	r, dir := open(t, nil)
	ctx := t.Context()
	put(t, r, "src/a", "a")
	put(t, r, "src/sub/b", "b")
	must(t, os.Chmod(filepath.Join(dir, "src/a"), 0o755))
	must(t, os.Symlink("a", filepath.Join(dir, "src/link")))
	wantCode(t, r.Copy(ctx, "src", "dst", nil), fault.InvalidArgument)
	wantCode(t, r.Copy(ctx, "src", "src/sub/x", &driver.CopyOptions{Recursive: true}), fault.InvalidArgument)
	must(t, os.Symlink("src/sub", filepath.Join(dir, "way")))
	wantCode(t, r.Copy(ctx, "src", "way/x", &driver.CopyOptions{Recursive: true}), fault.InvalidArgument)
	wantCode(t, r.Copy(ctx, "src", "dst", &driver.CopyOptions{Recursive: true}), "")
	wantCode(t, r.Copy(ctx, "src", "dst", &driver.CopyOptions{Recursive: true}), "")
	wantCode(t, r.Copy(ctx, "src", "dst", &driver.CopyOptions{Recursive: true, CreateOnly: true}), fault.AlreadyExists)
	wantCode(t, r.Copy(ctx, "src", "deep/dst", &driver.CopyOptions{Recursive: true, Parents: true}), "")
	want, err := r.Digest(ctx, "src")
	must(t, err)
	for _, name := range []string{"dst", "deep/dst"} {
		if got, err := r.Digest(ctx, name); err != nil || got != want {
			t.Errorf("the digest of %s differs, %v", name, err)
		}
	}
	must(t, unix.Mkfifo(filepath.Join(dir, "src/fifo"), 0o666))
	wantCode(t, r.Copy(ctx, "src", "other", &driver.CopyOptions{Recursive: true}), fault.InvalidArgument)
}

func TestSymlinkStaysInside(t *testing.T) {
	r, dir := open(t, nil)
	ctx := t.Context()
	put(t, r, "d/f", "x")
	must(t, os.Symlink(".", filepath.Join(dir, "here")))
	for _, tt := range []struct {
		dest, name string
		want       fault.Code
	}{
		{"f", "d/ok", ""}, {"../d/f", "d/up", ""}, {"not/yet", "later", ""}, {"d", "dir", ""},
		{"../x", "top", fault.SandboxViolation}, {"/etc/passwd", "abs", fault.SandboxViolation},
		{"../../x", "d/far", fault.SandboxViolation}, {"../x", "here/sly", fault.SandboxViolation},
		{"here/../../x", "sly", fault.SandboxViolation}, {"none/../../x", "missing", fault.SandboxViolation},
		{"", "empty", fault.InvalidArgument}, {"a\x00b", "nul", fault.InvalidArgument}, {"f", "d", fault.AlreadyExists},
	} {
		if err := r.Symlink(ctx, tt.dest, tt.name); fault.Of(err) != tt.want {
			t.Errorf("symlink %q at %q: %v, want %q", tt.dest, tt.name, err, tt.want)
		}
	}
	if got := get(t, r, "d/up"); got != "x" {
		t.Errorf("through a symlink: %q", got)
	}
}

func TestListPages(t *testing.T) {
	r, _ := open(t, nil)
	for _, name := range []string{"a/1", "a/2/x", "a-b", "a/2-", "b", "c/d/e/f"} {
		put(t, r, name, "")
	}
	want := []string{"a", "a/1", "a/2", "a/2/x", "a/2-", "a-b", "b", "c", "c/d", "c/d/e", "c/d/e/f"}
	for limit := 1; limit <= len(want)+1; limit++ {
		var got []string
		for after, pages := "", 0; ; pages++ {
			l, err := r.List(t.Context(), ".", &driver.ListOptions{Depth: -1, Limit: limit, After: after})
			must(t, err)
			for _, info := range l.Entries {
				got = append(got, info.Path)
			}
			if after = l.Next; after == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %d:\n%s", limit, diff)
		}
	}
	l, err := r.List(t.Context(), "a", nil)
	if err != nil || len(l.Entries) != 3 {
		t.Errorf("one level: %v, %v", l, err)
	}
	l, err = r.List(t.Context(), ".", &driver.ListOptions{Depth: 2})
	if err != nil || len(l.Entries) != 8 {
		t.Errorf("two levels: %v, %v", l, err)
	}
	_, err = r.List(t.Context(), "none", nil)
	wantCode(t, err, fault.NotFound)
}

func TestTempsAreHiddenAndCleaned(t *testing.T) {
	r, dir := open(t, nil)
	put(t, r, "d/f", "needle")
	before, err := r.Digest(t.Context(), ".")
	must(t, err)
	temp := filepath.Join(dir, "d", files.TempPrefix+"00000crashed0")
	must(t, os.WriteFile(temp, []byte("needle"), 0o600))
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(temp, old, old))
	fresh := filepath.Join(dir, files.TempPrefix+"0000000fresh0")
	must(t, os.WriteFile(fresh, nil, 0o600))
	locked := filepath.Join(dir, files.TempPrefix+"000000locked0")
	f, err := os.Create(locked)
	must(t, err)
	defer f.Close()
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	must(t, os.Chtimes(locked, old, old))

	ctx := t.Context()
	l, err := r.List(ctx, ".", &driver.ListOptions{Depth: -1})
	if err != nil || len(l.Entries) != 2 {
		t.Errorf("list shows %v, %v", l, err)
	}
	g, err := r.Glob(ctx, "**/*", &driver.GlobOptions{Hidden: true})
	if err != nil || len(g.Entries) != 1 {
		t.Errorf("glob shows %v, %v", g, err)
	}
	s, err := r.Grep(ctx, "needle", &driver.GrepOptions{Hidden: true})
	if err != nil || len(s.Matches) != 1 {
		t.Errorf("grep shows %v, %v", s, err)
	}
	if after, err := r.Digest(ctx, "."); err != nil || after != before {
		t.Errorf("the digest sees it, %v", err)
	}
	must(t, r.CleanTemps(ctx))
	for path, want := range map[string]bool{temp: false, fresh: false, locked: true} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", filepath.Base(path), err, want)
		}
	}
	must(t, os.WriteFile(temp, nil, 0o600))
	must(t, os.Chtimes(temp, old, old))
	must(t, r.Remove(ctx, "d/f", nil))
	must(t, r.Remove(ctx, "d", nil)) // it looks empty, so it can be removed
}

func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("croft", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip("skipped: host: it lacks the right to mount a tmpfs")
	}
	t.Cleanup(func() { must(t, unix.Unmount(dir, 0)) })
	r, err := files.Open(dir, nil)
	must(t, err)
	defer r.Close()
	put(t, r, "f", "small")
	put(t, r, "other", "other")
	before, err := r.Digest(t.Context(), ".")
	must(t, err)
	big := strings.Repeat("x", 1<<20)
	for _, o := range []driver.WriteOptions{{}, {InPlace: true}, {Sync: true}} {
		_, err := r.Write(t.Context(), "f", strings.NewReader(big), &o)
		wantCode(t, err, fault.ResourceExhausted)
	}
	_, err = r.Write(t.Context(), "new", strings.NewReader(big), &driver.WriteOptions{CreateOnly: true})
	wantCode(t, err, fault.ResourceExhausted)
	// Room for the temporary file but not for both.
	half := strings.Repeat("x", 160<<10)
	_, err = r.Write(t.Context(), "f", strings.NewReader(half), &driver.WriteOptions{InPlace: true})
	wantCode(t, err, fault.ResourceExhausted)
	if after, err := r.Digest(t.Context(), "."); err != nil || after != before {
		t.Errorf("a full disk changed something, %v", err)
	}
	noTemps(t, dir)
}

func TestFromFD(t *testing.T) {
	_, dir := open(t, nil)
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	r, err := files.FromFD(fd, nil)
	must(t, err)
	defer r.Close()
	put(t, r, "f", "x")
	if _, err := os.Stat(filepath.Join(dir, "f")); err != nil {
		t.Error(err)
	}
	file, err := unix.Open(filepath.Join(dir, "f"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	_, err = files.FromFD(file, nil)
	wantCode(t, err, fault.InvalidArgument)
	_, err = files.Open(filepath.Join(dir, "f"), nil)
	wantCode(t, err, fault.InvalidArgument)
	_, err = files.Open(filepath.Join(dir, "none"), nil)
	wantCode(t, err, fault.NotFound)
}

func TestMessages(t *testing.T) {
	r, _ := open(t, nil)
	_, err := r.Stat(t.Context(), "none", nil)
	if got, want := fmt.Sprint(err), `files: stat "none": not found: no such file or directory`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestNamesLikeTemps keeps a user's file whose name only begins like that of
// a temporary file: it is read and listed, and cleaning leaves it.
func TestNamesLikeTemps(t *testing.T) {
	r, dir := open(t, nil)
	name := files.TempPrefix + "notes"
	put(t, r, name, "mine")
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(filepath.Join(dir, name), old, old))
	must(t, r.CleanTemps(t.Context()))
	l, err := r.List(t.Context(), ".", nil)
	if err != nil || len(l.Entries) != 1 || l.Entries[0].Path != name {
		t.Errorf("list shows %v, %v", l, err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != "mine" {
		t.Errorf("it is %q, %v", data, err)
	}
}
