package template

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/snapshot"
)

func newCatalog(t *testing.T) *Catalog {
	t.Helper()
	return &Catalog{Store: snapshot.Open(snapshot.Dir(t.TempDir()), nil), Temp: filepath.Join(t.TempDir(), "tmp")}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// holdsFile checks a file of a template.
func holdsFile(t *testing.T, c *Catalog, name, path, want string) {
	t.Helper()
	one, err := c.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	tree, _, err := c.Store.Tree(t.Context(), one.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := snapshot.OpenFile(t.Context(), tree, path)
	if err != nil {
		t.Fatalf("%s of template %s: %v", path, name, err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != want {
		t.Errorf("%s of template %s is %q, %v, want %q", path, name, got, err, want)
	}
}

func create(t *testing.T, c *Catalog, name string, s Source) Template {
	t.Helper()
	made, err := c.Create(t.Context(), name, s)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestDirectoryAndSnapshot(t *testing.T) {
	c, dir := newCatalog(t), t.TempDir()
	write(t, dir, "src/main.go", "package main\n")
	write(t, dir, "node_modules/x", "x")
	made := create(t, c, "app", Source{Dir: dir, Ignore: []string{"node_modules/"}})
	if made.Files == 0 || made.Source != "dir:"+dir {
		t.Errorf("made %+v", made)
	}
	holdsFile(t, c, "app", "src/main.go", "package main\n")
	again := create(t, c, "again", Source{Snapshot: made.Snapshot})
	if again.Digest != made.Digest {
		t.Errorf("of a snapshot %s, want %s", again.Digest, made.Digest)
	}
	if _, err := c.Create(t.Context(), "app", Source{Dir: dir}); fault.Of(err) != fault.AlreadyExists {
		t.Errorf("a second time: %v", err)
	}
	if err := c.Delete(t.Context(), "app", nil); err != nil {
		t.Fatal(err)
	}
	list, err := c.List(t.Context())
	if err != nil || len(list) != 1 || list[0].Name != "again" {
		t.Errorf("there are %v, %v", list, err)
	}
}

// TestGit takes a commit, not the work tree, and runs nothing of the repository.
func TestGit(t *testing.T) {
	c, dir, mark := newCatalog(t), t.TempDir(), filepath.Join(t.TempDir(), "ran")
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=n", "-c", "user.email=n@example.com"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	git("init", "-q", "-b", "main")
	write(t, dir, "a", "committed\n")
	write(t, dir, ".gitattributes", "* filter=bad\n")
	git("add", "-A")
	git("commit", "-qm", "first")
	git("config", "filter.bad.smudge", "touch "+mark)
	git("config", "filter.bad.clean", "touch "+mark)
	write(t, dir, "a", "not committed\n")
	made := create(t, c, "repo", Source{Git: dir})
	if !strings.HasPrefix(made.Source, "git:"+dir+"@") {
		t.Errorf("source %q", made.Source)
	}
	holdsFile(t, c, "repo", "a", "committed\n")
	if _, err := os.Stat(mark); err == nil {
		t.Error("a filter of the repository ran")
	}
	if _, err := c.Create(t.Context(), "none", Source{Git: dir, Revision: "no-such"}); fault.Of(err) != fault.NotFound {
		t.Errorf("an unknown revision: %v", err)
	}
}

func layerOf(t *testing.T, headers ...tar.Header) v1.Layer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		body := ""
		if h.Typeflag == tar.TypeReg {
			body = h.PAXRecords["body"]
		}
		h.PAXRecords, h.Size = nil, int64(len(body))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func file(name, body string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, PAXRecords: map[string]string{"body": body}}
}

func imageOf(t *testing.T, layers ...v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// TestImage reads layouts and tarballs, with what one layer removes of another.
func TestImage(t *testing.T) {
	c, dir := newCatalog(t), t.TempDir()
	img := imageOf(t,
		layerOf(t, file("etc/old", "old"), file("etc/keep", "keep"), tar.Header{Name: "etc/link", Typeflag: tar.TypeSymlink, Linkname: "/etc/keep"}),
		layerOf(t, file("etc/.wh.old", ""), file("bin/tool", "tool")))
	at := filepath.Join(dir, "layout")
	path, err := layout.Write(at, empty.Index)
	if err == nil {
		err = path.AppendImage(img)
	}
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("example.com/x:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(filepath.Join(dir, "x.tar"), tag, img); err != nil {
		t.Fatal(err)
	}
	one := create(t, c, "layout", Source{Image: at})
	two := create(t, c, "tarball", Source{Image: filepath.Join(dir, "x.tar")})
	if one.Digest != two.Digest {
		t.Errorf("the same image is %s and %s", one.Digest, two.Digest)
	}
	holdsFile(t, c, "layout", "bin/tool", "tool")
	holdsFile(t, c, "layout", "etc/keep", "keep")
	tree, _, err := c.Store.Tree(t.Context(), one.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := snapshot.Lookup(t.Context(), tree, "etc/old"); fault.Of(err) != fault.NotFound {
		t.Errorf("what a layer removed: %v", err)
	}
	if left, err := os.ReadDir(c.Temp); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestRefusals(t *testing.T) {
	c, dir := newCatalog(t), t.TempDir()
	c.Roots, c.Forbidden = []string{dir}, []string{filepath.Join(dir, "data")}
	write(t, dir, "data/x", "x")
	write(t, dir, "app/x", "x")
	for _, x := range []struct {
		name string
		s    Source
		want fault.Code
	}{
		{"Bad Name", Source{Dir: dir}, fault.InvalidArgument},
		{"a", Source{}, fault.InvalidArgument},
		{"a", Source{Dir: dir, Image: "x"}, fault.InvalidArgument},
		{"a", Source{Dir: dir, Revision: "v1"}, fault.InvalidArgument},
		{"a", Source{Dir: "relative"}, fault.InvalidArgument},
		{"a", Source{Dir: filepath.Join(dir, "none")}, fault.NotFound},
		{"a", Source{Dir: t.TempDir()}, fault.PermissionDenied},
		{"a", Source{Dir: dir}, fault.PermissionDenied},
		{"a", Source{Dir: filepath.Join(dir, "data")}, fault.PermissionDenied},
		{"a", Source{Image: filepath.Join(dir, "app")}, fault.InvalidArgument},
		{"a", Source{Image: "not a name!"}, fault.InvalidArgument},
	} {
		if _, err := c.Create(context.WithoutCancel(t.Context()), x.name, x.s); fault.Of(err) != x.want {
			t.Errorf("%q of %+v: %v, want %v", x.name, x.s, err, x.want)
		}
	}
	create(t, c, "app", Source{Dir: filepath.Join(dir, "app")})
}

// FuzzUnpack feeds the unpacker streams of any kind: whatever they hold, nothing
// appears or changes outside the directory.
func FuzzUnpack(f *testing.F) {
	add := func(headers ...tar.Header) {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range headers {
			h.Size = 0
			if h.Typeflag == tar.TypeReg {
				h.Size = 1
			}
			if w.WriteHeader(&h) == nil && h.Size > 0 {
				w.Write([]byte("x"))
			}
		}
		w.Close()
		f.Add(b.Bytes())
	}
	add(tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o700}, tar.Header{Name: "d/f", Typeflag: tar.TypeReg, Mode: 0o4755})
	add(tar.Header{Name: "../out", Typeflag: tar.TypeReg})
	add(tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "../secret"}, tar.Header{Name: "l", Typeflag: tar.TypeReg})
	add(tar.Header{Name: "d", Typeflag: tar.TypeSymlink, Linkname: ".."}, tar.Header{Name: "d", Typeflag: tar.TypeDir, Mode: 0o777})
	add(tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "../secret"})
	add(tar.Header{Name: "d", Typeflag: tar.TypeSymlink, Linkname: "/x/.."}, tar.Header{Name: "d/.wh.secret", Typeflag: tar.TypeReg}, tar.Header{Name: "d/.wh..wh..opq", Typeflag: tar.TypeReg})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			t.Skip()
		}
		top := t.TempDir()
		if err := os.WriteFile(filepath.Join(top, "secret"), []byte("s"), 0o640); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(top, "in")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		u, err := newUnpacker(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer u.root.Close()
		// Two layers of the same, so that one is written over the other. Refusing is fine.
		for range 2 {
			if err := u.unpackTar(t.Context(), bytes.NewReader(data)); err != nil {
				break
			}
		}
		u.setDirAttrs()
		entries, err := os.ReadDir(top)
		if err != nil || len(entries) != 2 {
			t.Errorf("beside the directory there is %v, %v", entries, err)
		}
		info, err := os.Stat(filepath.Join(top, "secret"))
		if text, rerr := os.ReadFile(filepath.Join(top, "secret")); err != nil || rerr != nil || string(text) != "s" || info.Mode() != 0o640 {
			t.Errorf("what was outside is %q, %v now", text, info)
		}
		if err := files.RemoveTree(dir); err != nil {
			t.Error(err)
		}
	})
}
