package template

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
)

func symlink(name, target string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}
}

func hardLink(name, target string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: target}
}

func directory(name string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o750}
}

func imageTar(t *testing.T, layers ...v1.Layer) string {
	t.Helper()
	tag, err := name.NewTag("example.com/x:1")
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(t.TempDir(), "x.tar")
	if err := tarball.WriteToFile(at, tag, imageOf(t, layers...)); err != nil {
		t.Fatal(err)
	}
	return at
}

// TestHostileImage refuses entries that leave the image, and those that can't be
// what they say: by their names, with nothing outside and no template made.
func TestHostileImage(t *testing.T) {
	for what, x := range map[string]struct {
		entry   string
		headers []tar.Header
	}{
		"name":               {"../out", []tar.Header{file("a", "x"), file("../out", "x")}},
		"rooted name":        {"/../out", []tar.Header{file("/../out", "x")}},
		"inner name":         {"d/../../out", []tar.Header{file("d/../../out", "x")}},
		"directory":          {"../d/", []tar.Header{directory("../d/")}},
		"below a symlink":    {"d/out", []tar.Header{symlink("d", ".."), file("d/out", "x")}},
		"below two symlinks": {"e/out", []tar.Header{symlink("d/up", "/.."), symlink("e", "d/up"), file("e/out", "x")}},
		"symlinks in a ring": {"a/out", []tar.Header{symlink("a", "b"), symlink("b", "a"), file("a/out", "x")}},
		"below a file":       {"f/out", []tar.Header{file("f", "x"), file("f/out", "x")}},
		"hard link":          {"l", []tar.Header{hardLink("l", "../secret")}},
		"rooted hard link":   {"l", []tar.Header{hardLink("l", "/../secret")}},
		"link by a symlink":  {"l", []tar.Header{symlink("d", "../.."), hardLink("l", "d/secret")}},
		"link to nothing":    {"l", []tar.Header{hardLink("l", "nothing")}},
		"link to directory":  {"l", []tar.Header{directory("d"), hardLink("l", "d")}},
		"link to itself":     {"l", []tar.Header{file("l", "x"), hardLink("l", "l")}},
		"whiteout":           {"../.wh.secret", []tar.Header{file("../.wh.secret", "")}},
		"whiteout of all":    {"../.wh..wh..opq", []tar.Header{file("../.wh..wh..opq", "")}},
		"whiteout by a link": {"d/.wh.secret", []tar.Header{symlink("d", ".."), file("d/.wh.secret", "")}},
		"whiteout of dots":   {"d/.wh...", []tar.Header{file("d/x", ""), file("d/.wh...", "")}},
		"no name":            {".", []tar.Header{file(".", "x")}},
		"unknown type":       {"t", []tar.Header{{Name: "t", Typeflag: 'Z'}}},
	} {
		t.Run(what, func(t *testing.T) {
			c := newCatalog(t)
			write(t, filepath.Dir(c.Temp), "secret", "s")
			write(t, c.Temp, "secret", "s")
			_, err := c.Create(t.Context(), "bad", Source{Image: imageTar(t, layerOf(t, x.headers...))})
			if fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), `"`+x.entry+`"`) {
				t.Errorf("got %v, want %v that names %q", err, fault.InvalidArgument, x.entry)
			}
			if list, err := c.List(t.Context()); err != nil || len(list) != 0 {
				t.Errorf("there are the templates %v, %v", list, err)
			}
			for _, dir := range []string{c.Temp, filepath.Dir(c.Temp)} {
				if text, err := os.ReadFile(filepath.Join(dir, "secret")); err != nil || string(text) != "s" {
					t.Errorf("what is outside is %q now, %v", text, err)
				}
			}
			if left, err := os.ReadDir(c.Temp); err != nil || len(left) != 1 {
				t.Errorf("beside the file that was there: %v, %v", left, err)
			}
		})
	}
}

// contents lists what is below a directory: files with what is in them, links with
// where they lead to.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		switch {
		case d.IsDir():
			all[rel] = "/"
		case d.Type() == os.ModeSymlink:
			target, err := os.Readlink(path)
			all[rel] = "-> " + target
			return err
		default:
			data, err := os.ReadFile(path)
			all[rel] = string(data)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestLayers lays layers over each other as an engine does, and loses nothing.
func TestLayers(t *testing.T) {
	for what, x := range map[string]struct {
		layers [][]tar.Header
		want   map[string]string
	}{
		"whiteouts over nothing": {
			[][]tar.Header{{file("a", "1"), file(".wh.b", ""), file("no/such/.wh.c", ""), file("nor/.wh..wh..opq", "")}},
			map[string]string{"a": "1"},
		},
		"links that leave when they are followed stay": {
			[][]tar.Header{{symlink("up", "../../x"), symlink("d/abs", "/etc/passwd"), file("a", "1")}},
			map[string]string{"up": "-> ../../x", "d": "/", "d/abs": "-> /etc/passwd", "a": "1"},
		},
		"an entry below a link of the same or a lower layer": {
			[][]tar.Header{{directory("usr/lib"), symlink("lib", "usr/lib"), symlink("usr/lib64", "/lib"), file("lib/a", "1")}, {file("lib/b", "2"), file("usr/lib64/c", "3")}},
			map[string]string{"usr": "/", "usr/lib": "/", "lib": "-> usr/lib", "usr/lib64": "-> /lib", "usr/lib/a": "1", "usr/lib/b": "2", "usr/lib/c": "3"},
		},
		"a link that leads nowhere yet": {
			[][]tar.Header{{symlink("var/run", "/run"), file("var/run/x", "1")}},
			map[string]string{"var": "/", "var/run": "-> /run", "run": "/", "run/x": "1"},
		},
		"hard links into a lower layer": {
			[][]tar.Header{{file("a", "1"), file("b", "old")}, {hardLink("l", "/a"), hardLink("b", "a")}, {file("a", "2")}},
			map[string]string{"a": "2", "l": "1", "b": "1"},
		},
		"whiteouts spare their own layer": {
			[][]tar.Header{{file("d/old", "1"), file("e/old", "1"), file("f", "1")}, {file("d/new", "2"), file("d/.wh..wh..opq", ""), file("e/deep/new", "2"), file(".wh.e", ""), file("f", "2"), file(".wh.f", "")}},
			map[string]string{"d": "/", "d/new": "2", "e": "/", "e/deep": "/", "e/deep/new": "2", "f": "2"},
		},
		"another type": {
			[][]tar.Header{{file("d/x", "1"), file("f", "1"), symlink("s", "d"), file("p", "1")}, {file("d", "2"), directory("f"), directory("s"), {Name: "p", Typeflag: tar.TypeFifo}}},
			map[string]string{"d": "2", "f": "/", "s": "/"},
		},
		"names as they come": {
			[][]tar.Header{{directory("./"), file("./a", "1"), file("/b", "2"), file("c/../d", "3"), file("e\xff/f", "4")}, {file("e\xff/.wh..wh..opq", "")}},
			map[string]string{"a": "1", "b": "2", "d": "3", "e\xff": "/"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			var layers []v1.Layer
			for _, headers := range x.layers {
				layers = append(layers, layerOf(t, headers...))
			}
			dir := t.TempDir()
			if err := unpackImage(t.Context(), imageOf(t, layers...), dir, new(buildLog)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(x.want, contents(t, dir)); diff != "" {
				t.Errorf("unpacked (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLayerModes gives a directory the mode that the highest layer says, after all
// is written.
func TestLayerModes(t *testing.T) {
	dir := t.TempDir()
	closed := directory("d")
	closed.Mode = 0o555
	img := imageOf(t, layerOf(t, closed, directory("gone/x")), layerOf(t, file("d/e/f", "1"), file("gone/.wh.x", "")), layerOf(t, directory("d/e"), closed))
	if err := unpackImage(t.Context(), img, dir, new(buildLog)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.RemoveTree(dir) })
	var got []string
	for _, name := range []string{"d", "d/e", "d/e/f"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, info.Mode().String())
	}
	if want := []string{"dr-xr-xr-x", "drwxr-x---", "-rw-r--r--"}; !slices.Equal(got, want) {
		t.Errorf("modes %v, want %v", got, want)
	}
}

// A small image can't unpack to more than a tenant may have. The operator has no bound.
func TestImageBomb(t *testing.T) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := w.WriteHeader(&tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Mode: 0o644, Size: maxImage}); err != nil {
		t.Fatal(err)
	}
	img := imageOf(t, static.NewLayer(layer.Bytes(), types.DockerUncompressedLayer))
	for scope, want := range map[auth.Principal]fault.Code{
		{Tenant: "red", Scope: auth.Admin}: fault.ResourceExhausted,
		{Scope: auth.Run}:                  fault.ResourceExhausted,
		{Scope: auth.Admin}:                fault.InvalidArgument, // the layer is cut off
	} {
		if err := unpackImage(auth.With(t.Context(), scope), img, t.TempDir(), new(buildLog)); fault.Of(err) != want {
			t.Errorf("%+v: %v, want %v", scope, err, want)
		}
	}
}
