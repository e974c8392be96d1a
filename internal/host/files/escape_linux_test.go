package files_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/workspace/driver"
)

const secret = "the witness must not be seen"

// A field is a root with a witness beside it.
type field struct {
	r       *files.Root
	dir     string // of the root
	outside string
}

// newField makes
//
//	outside/{secret.txt,dir/secret.txt}   the witness
//	root/{file.txt,dir/file.txt}          the root
func newField(t testing.TB) *field {
	t.Helper()
	base := t.TempDir()
	f := &field{dir: filepath.Join(base, "root"), outside: filepath.Join(base, "outside")}
	for _, dir := range []string{f.dir, f.outside} {
		must(t, os.MkdirAll(filepath.Join(dir, "dir"), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(f.outside, "secret.txt"), []byte(secret), 0o644))
	must(t, os.WriteFile(filepath.Join(f.outside, "dir/secret.txt"), []byte(secret), 0o644))
	must(t, os.WriteFile(filepath.Join(f.dir, "file.txt"), []byte("inside"), 0o644))
	must(t, os.WriteFile(filepath.Join(f.dir, "dir/file.txt"), []byte("inside"), 0o644))
	r, err := files.Open(f.dir, nil)
	must(t, err)
	f.r = r
	t.Cleanup(func() { must(t, r.Close()) })
	return f
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// witness is the digest of everything outside.
func (f *field) witness(t testing.TB) string {
	t.Helper()
	out, err := files.Open(f.outside, &files.Options{ReadOnly: true})
	must(t, err)
	defer out.Close()
	sum, err := out.Digest(context.Background(), ".")
	must(t, err)
	return sum
}

func (f *field) link(t testing.TB, dest, name string) {
	t.Helper()
	must(t, os.Symlink(dest, filepath.Join(f.dir, name)))
}

// What a row of the corpus promises.
type verdict int

const (
	leaves  verdict = iota // every operation is a SandboxViolation
	leaf                   // as leaves, but what acts on a symlink itself may do so
	refused                // every operation has a clear code
	legal                  // it may work; nothing outside is touched
)

var corpus = []struct {
	name  string
	path  string
	want  verdict
	setup func(t testing.TB, f *field)
}{
	{"dotdot", "..", leaves, nil},
	{"dotdot to the witness", "../outside/secret.txt", leaves, nil},
	{"dotdot in the middle", "dir/../../outside/secret.txt", leaves, nil},
	{"dotdot through nothing", "none/../../outside/secret.txt", leaves, nil},
	{"dotdot at the end", "dir/../..", leaves, nil},
	{"absolute", "/etc/passwd", leaves, nil},
	{"absolute root", "/", leaves, nil},
	{"absolute twice", "//etc/passwd", leaves, nil},
	{"proc self root", "/proc/self/root/etc/passwd", leaves, nil},
	{"symlink leaf", "sym", leaf, func(t testing.TB, f *field) { f.link(t, "../outside/secret.txt", "sym") }},
	{"symlink leaf absolute", "sym", leaf, func(t testing.TB, f *field) { f.link(t, filepath.Join(f.outside, "secret.txt"), "sym") }},
	{"symlink leaf absolute but inside", "sym", leaf, func(t testing.TB, f *field) { f.link(t, filepath.Join(f.dir, "file.txt"), "sym") }},
	{"symlink leaf to a directory", "sym", leaf, func(t testing.TB, f *field) { f.link(t, "../outside/dir", "sym") }},
	{"symlink parent", "sym/secret.txt", leaves, func(t testing.TB, f *field) { f.link(t, "../outside", "sym") }},
	{"symlink parent absolute", "sym/secret.txt", leaves, func(t testing.TB, f *field) { f.link(t, f.outside, "sym") }},
	{"symlink parent of a new name", "sym/new.txt", leaves, func(t testing.TB, f *field) { f.link(t, "../outside", "sym") }},
	{"symlink to the parent", "up/outside/secret.txt", leaves, func(t testing.TB, f *field) { f.link(t, "..", "up") }},
	{"symlink chain", "one", leaf, func(t testing.TB, f *field) {
		f.link(t, "two", "one")
		f.link(t, "dir/three", "two")
		f.link(t, "../../outside/secret.txt", "dir/three")
	}},
	{"symlink chain of parents", "one/secret.txt", leaves, func(t testing.TB, f *field) {
		f.link(t, "two", "one")
		f.link(t, "../outside/dir", "two")
	}},
	{"symlink to proc self root", "sym", leaf, func(t testing.TB, f *field) { f.link(t, "/proc/self/root/etc/passwd", "sym") }},
	{"symlink to proc self cwd", "sym/x", leaves, func(t testing.TB, f *field) { f.link(t, "/proc/self/cwd", "sym") }},
	{"dangling symlink that leaves", "sym", leaf, func(t testing.TB, f *field) { f.link(t, "../outside/new.txt", "sym") }},
	{"dangling symlink that leaves, in a missing directory", "sym", leaf, func(t testing.TB, f *field) { f.link(t, "../outside/none/new.txt", "sym") }},
	{"dangling symlink inside", "sym", legal, func(t testing.TB, f *field) { f.link(t, "dir/new.txt", "sym") }},
	{"symlink to itself", "sym", legal, func(t testing.TB, f *field) { f.link(t, "sym", "sym") }},
	{"hard link", "hard", legal, func(t testing.TB, f *field) {
		must(t, os.Link(filepath.Join(f.outside, "secret.txt"), filepath.Join(f.dir, "hard")))
	}},
	{"fifo", "fifo", legal, func(t testing.TB, f *field) { must(t, unix.Mkfifo(filepath.Join(f.dir, "fifo"), 0o666)) }},
	{"socket", "sock", legal, func(t testing.TB, f *field) {
		l, err := net.Listen("unix", filepath.Join(f.dir, "sock"))
		must(t, err)
		t.Cleanup(func() { l.Close() })
	}},
	{"device", "dev", legal, func(t testing.TB, f *field) {
		if err := unix.Mknod(filepath.Join(f.dir, "dev"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil {
			t.Skip("skipped: host: it lacks the right to mknod")
		}
	}},
	{"NUL", "file.txt\x00", refused, nil},
	{"NUL before dots", "a\x00/../../outside/secret.txt", refused, nil},
	{"empty", "", refused, nil},
	{"overlong element", strings.Repeat("x", 256), refused, nil},
	{"overlong element below", "dir/" + strings.Repeat("x", 300) + "/y", refused, nil},
	{"overlong name", strings.Repeat("dir/../", 1000) + "file.txt", refused, nil},
	{"reserved", files.TempPrefix + "0123456789abc", refused, nil},
	{"a file as a directory", "file.txt/x", refused, nil},
	{"slash behind a file", "file.txt/", legal, nil},
	{"dot behind a file", "file.txt/.", legal, nil},
	{"slash behind a directory", "dir/", legal, nil},
	{"the root", ".", legal, nil},
	{"two dots and a word", "..foo", legal, nil},
	{"dots in the middle", "dir/..foo/x", legal, nil},
	{"three dots", "...", legal, nil},
	{"newline", "a\nb", legal, nil},
	{"not UTF-8", "\xff\xfe", legal, nil},
}

// operations are every way to name a file. Those with link act on a symlink
// itself.
var operations = []struct {
	name string
	link bool
	run  func(ctx context.Context, r *files.Root, path string) (shown string, err error)
}{
	{"read", false, func(ctx context.Context, r *files.Root, path string) (string, error) {
		body, _, err := r.Read(ctx, path, nil)
		if err != nil {
			return "", err
		}
		defer body.Close()
		data, err := io.ReadAll(body)
		return string(data), err
	}},
	{"write", false, func(ctx context.Context, r *files.Root, path string) (string, error) {
		_, err := r.Write(ctx, path, strings.NewReader("new"), nil)
		return "", err
	}},
	{"write with parents", false, func(ctx context.Context, r *files.Root, path string) (string, error) {
		_, err := r.Write(ctx, path, strings.NewReader("new"), &driver.WriteOptions{Parents: true})
		return "", err
	}},
	{"write if match", false, func(ctx context.Context, r *files.Root, path string) (string, error) {
		_, err := r.Write(ctx, path, strings.NewReader("new"), &driver.WriteOptions{IfMatch: driver.DigestBytes([]byte(secret))})
		return "", err
	}},
	{"create", true, func(ctx context.Context, r *files.Root, path string) (string, error) {
		_, err := r.Write(ctx, path, strings.NewReader("new"), &driver.WriteOptions{CreateOnly: true})
		return "", err
	}},
	{"edit", false, func(ctx context.Context, r *files.Root, path string) (string, error) {
		_, err := r.Edit(ctx, path, []driver.Edit{{Old: "witness", New: "victim"}}, nil)
		return "", err
	}},
	{"stat", false, func(ctx context.Context, r *files.Root, path string) (string, error) {
		info, err := r.Stat(ctx, path, &driver.StatOptions{Digest: true})
		return fmt.Sprint(info), err
	}},
	{"stat the link", true, func(ctx context.Context, r *files.Root, path string) (string, error) {
		info, err := r.Stat(ctx, path, &driver.StatOptions{NoFollow: true})
		return fmt.Sprint(info), err
	}},
	{"readdir", false, func(ctx context.Context, r *files.Root, path string) (string, error) {
		infos, err := r.ReadDir(ctx, path)
		return fmt.Sprint(infos), err
	}},
	{"list", false, func(ctx context.Context, r *files.Root, path string) (string, error) {
		l, err := r.List(ctx, path, &driver.ListOptions{Depth: -1})
		return fmt.Sprint(l), err
	}},
	{"mkdir", true, func(ctx context.Context, r *files.Root, path string) (string, error) {
		return "", r.Mkdir(ctx, path, nil)
	}},
	{"mkdir with parents", false, func(ctx context.Context, r *files.Root, path string) (string, error) {
		return "", r.Mkdir(ctx, path, &driver.MkdirOptions{Parents: true})
	}},
	{"remove", true, func(ctx context.Context, r *files.Root, path string) (string, error) {
		return "", r.Remove(ctx, path, nil)
	}},
	{"remove all", true, func(ctx context.Context, r *files.Root, path string) (string, error) {
		return "", r.Remove(ctx, path, &driver.RemoveOptions{Recursive: true})
	}},
	{"rename from", true, func(ctx context.Context, r *files.Root, path string) (string, error) {
		return "", r.Rename(ctx, path, "moved", nil)
	}},
	{"rename to", true, func(ctx context.Context, r *files.Root, path string) (string, error) {
		return "", r.Rename(ctx, "dir/file.txt", path, &driver.RenameOptions{Parents: true})
	}},
	{"copy from", false, func(ctx context.Context, r *files.Root, path string) (string, error) {
		err := r.Copy(ctx, path, "copied", &driver.CopyOptions{Recursive: true})
		return "", err
	}},
	{"copy to", false, func(ctx context.Context, r *files.Root, path string) (string, error) {
		return "", r.Copy(ctx, "dir/file.txt", path, &driver.CopyOptions{Parents: true})
	}},
	{"copy a tree to", true, func(ctx context.Context, r *files.Root, path string) (string, error) {
		return "", r.Copy(ctx, "dir", path, &driver.CopyOptions{Recursive: true, Parents: true})
	}},
	{"chmod", false, func(ctx context.Context, r *files.Root, path string) (string, error) {
		return "", r.Chmod(ctx, path, 0o700)
	}},
	{"symlink at", true, func(ctx context.Context, r *files.Root, path string) (string, error) {
		return "", r.Symlink(ctx, "file.txt", path)
	}},
	{"glob below", false, func(ctx context.Context, r *files.Root, path string) (string, error) {
		if path == "" {
			return "", fault.InvalidArgument // "" is the root there
		}
		res, err := r.Glob(ctx, "**/*", &driver.GlobOptions{Path: path, Hidden: true, Stat: true})
		return fmt.Sprint(res), err
	}},
	{"glob", true, func(ctx context.Context, r *files.Root, path string) (string, error) {
		res, err := r.Glob(ctx, path+"/*", &driver.GlobOptions{Stat: true})
		if err == nil && len(res.Entries) == 0 {
			err = fault.NotFound // to match nothing is no error of a glob
		}
		return fmt.Sprint(res), err
	}},
	{"grep", false, func(ctx context.Context, r *files.Root, path string) (string, error) {
		if path == "" {
			return "", fault.InvalidArgument
		}
		res, err := r.Grep(ctx, "witness", &driver.GrepOptions{Path: path})
		return fmt.Sprint(res), err
	}},
	{"watch", false, func(ctx context.Context, r *files.Root, path string) (string, error) {
		w, err := r.Watch(ctx, path, &driver.WatchOptions{Recursive: true})
		if err != nil {
			return "", err
		}
		return "", w.Close()
	}},
	{"digest", false, func(ctx context.Context, r *files.Root, path string) (string, error) {
		return r.Digest(ctx, path)
	}},
}

func TestEscapeCorpus(t *testing.T) {
	for _, row := range corpus {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			for _, op := range operations {
				t.Run(op.name, func(t *testing.T) {
					f := newField(t)
					if row.setup != nil {
						row.setup(t, f)
					}
					before := f.witness(t)
					shown, err := op.run(t.Context(), f.r, row.path)
					checkVerdict(t, row.want, op.link, err)
					if strings.Contains(shown, "outside") && row.want != leaf || strings.Contains(shown, secret) && row.name != "hard link" {
						t.Errorf("it shows %q", shown)
					}
					if after := f.witness(t); after != before {
						t.Error("the witness changed")
					}
					noTemps(t, f.dir)
				})
			}
		})
	}
}

func checkVerdict(t *testing.T, want verdict, onLink bool, err error) {
	t.Helper()
	code := fault.Of(err)
	switch {
	case code == fault.Internal:
		t.Errorf("unclassified: %v", err)
	case want == leaves && code != fault.SandboxViolation, want == leaf && !onLink && code != fault.SandboxViolation:
		t.Errorf("got %v, want %s", err, fault.SandboxViolation)
	case want == refused && err == nil:
		t.Error("it is not refused")
	}
	var own fault.Code
	if err != nil && !errors.As(err, &own) {
		t.Errorf("a bare error came out: %v", err)
	}
}

// What must be refused, where the corpus says only that nothing leaves.
func TestClearErrors(t *testing.T) {
	f := newField(t)
	must(t, unix.Mkfifo(filepath.Join(f.dir, "fifo"), 0o666))
	f.link(t, "loop", "loop")
	f.link(t, "dir/new.txt", "dangling")
	f.link(t, "none/new.txt", "homeless")
	ctx := t.Context()
	for name, want := range map[string]fault.Code{
		"fifo": fault.InvalidArgument, "file.txt/": fault.InvalidArgument, "file.txt/.": fault.InvalidArgument,
		"dir": fault.InvalidArgument, "dir/": fault.InvalidArgument, ".": fault.InvalidArgument, "loop": fault.InvalidArgument,
		"none": fault.NotFound, "dangling": fault.NotFound, "none/x": fault.NotFound, "file.txt/x": fault.InvalidArgument,
	} {
		_, _, err := f.r.Read(ctx, name, nil)
		if fault.Of(err) != want {
			t.Errorf("read %s: %v, want %s", name, err, want)
		}
	}
	for name, want := range map[string]fault.Code{
		"fifo": fault.InvalidArgument, "file.txt/": fault.InvalidArgument, "dir": fault.InvalidArgument, "loop": fault.InvalidArgument,
		"homeless": fault.NotFound, "none/x": fault.NotFound, "dangling": "",
	} {
		_, err := f.r.Write(ctx, name, strings.NewReader("x"), nil)
		if fault.Of(err) != want {
			t.Errorf("write %s: %v, want %s", name, err, want)
		}
	}
	if got := get(t, f.r, "dir/new.txt"); got != "x" {
		t.Errorf("a dangling symlink was written through as %q", got)
	}
	if err := f.r.Remove(ctx, "file.txt/", nil); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("remove with a slash: %v", err)
	}
	if err := f.r.Rename(ctx, "file.txt/", "x", nil); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("rename with a slash: %v", err)
	}
}

// The magic links of /proc lead anywhere; a root in /proc is the way to have
// them inside.
func TestMagicLinks(t *testing.T) {
	r, err := files.Open("/proc/self", nil)
	must(t, err)
	defer r.Close()
	for _, name := range []string{"root/etc/passwd", "root", "cwd", "cwd/x", "exe", "fd/0", "task/../root/etc"} {
		if _, err := r.Stat(t.Context(), name, nil); err == nil || fault.Of(err) == fault.Internal {
			t.Errorf("stat %s: %v", name, err)
		}
		if _, _, err := r.Read(t.Context(), name, nil); err == nil || fault.Of(err) == fault.Internal {
			t.Errorf("read %s: %v", name, err)
		}
	}
}

func TestTwinsAreTwoFiles(t *testing.T) {
	r, _ := open(t, nil)
	names := []string{"caf\u00e9", "cafe\u0301", "CAF\u00c9", "README", "readme", "..foo", "..."}
	for _, name := range names {
		put(t, r, name, name)
	}
	for _, name := range names {
		if got := get(t, r, name); got != name {
			t.Errorf("%q holds %q", name, got)
		}
	}
	infos, err := r.ReadDir(t.Context(), ".")
	if err != nil || len(infos) != len(names) {
		t.Errorf("%d entries, %v; want %d", len(infos), err, len(names))
	}
}

// swap exchanges two names until the test ends.
func swap(t *testing.T, a, b string) (stop func()) {
	t.Helper()
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			default:
				if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	return func() { close(done); <-ended }
}

// A symlink that another thread swaps with what it stands for, at the end and in
// the middle of the path, a hundred thousand times.
func TestSwappedSymlink(t *testing.T) {
	f := newField(t)
	must(t, os.WriteFile(filepath.Join(f.dir, "dir/secret.txt"), []byte("inside"), 0o644))
	f.link(t, "../outside/dir", "swapdir")
	f.link(t, "../outside/secret.txt", "swapfile")
	before := f.witness(t)
	stopDir := swap(t, filepath.Join(f.dir, "dir"), filepath.Join(f.dir, "swapdir"))
	stopFile := swap(t, filepath.Join(f.dir, "file.txt"), filepath.Join(f.dir, "swapfile"))
	seen := map[fault.Code]int{}
	buf := make([]byte, 64)
	ctx := t.Context()
	for i := range 100_000 {
		err := race(ctx, t, f.r, i, buf)
		seen[fault.Of(err)]++
	}
	stopDir()
	stopFile()
	if f.witness(t) != before {
		t.Error("the witness changed")
	}
	if seen[""] == 0 || seen[fault.SandboxViolation] == 0 || seen[fault.Internal] > 0 {
		t.Errorf("outcomes %v: want both success and violation, and nothing unclassified", seen)
	}
	t.Logf("outcomes %v", seen)
}

func race(ctx context.Context, t *testing.T, r *files.Root, i int, buf []byte) error {
	switch path := []string{"dir/secret.txt", "file.txt"}[i/10%2]; {
	case i%1000 == 0:
		_, err := r.Write(ctx, path, strings.NewReader("inside"), nil)
		return err
	case i%1000 == 1:
		return r.Mkdir(ctx, fmt.Sprintf("dir/new%d", i), nil)
	case i%1000 == 2:
		return r.Chmod(ctx, path, 0o600)
	case i%1000 == 3:
		return r.Rename(ctx, fmt.Sprintf("dir/new%d", i-2), fmt.Sprintf("dir/was%d", i), nil)
	case i%1000 == 4:
		return r.Remove(ctx, fmt.Sprintf("dir/was%d", i-1), &driver.RemoveOptions{Recursive: true})
	case i%1000 == 5:
		res, err := r.Grep(ctx, "witness", nil)
		if len(res.Matches) > 0 {
			t.Errorf("grep saw the witness: %v", res.Matches)
		}
		return err
	case i%1000 == 6:
		_, err := r.Digest(ctx, "dir")
		return err
	case i%10 == 7:
		_, err := r.Stat(ctx, path, nil)
		return err
	default:
		body, _, err := r.Read(ctx, path, nil)
		if err != nil {
			return err
		}
		defer body.Close()
		n, err := body.Read(buf)
		if bytes.Contains(buf[:n], []byte("witness")) {
			t.Error("a read saw the witness")
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return err
	}
}
