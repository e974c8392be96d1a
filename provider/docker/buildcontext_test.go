package docker

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"
)

// TestBuildContext: what a directory says is not for builds is not sent to one, and
// neither is what its links lead to.
func TestBuildContext(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"Dockerfile": "FROM scratch", ".dockerignore": "# secrets\n.env\n**/*.key\n/build/\n!build/keep\n*file\n",
		".env": "KEY=1", "a.txt": "a", "sub/.env": "x", "sub/deep/a.key": "k", "build/out": "o", "build/keep": "k",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := tarDir(&b, dir, "Dockerfile"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeDir {
			got = append(got, h.Name+h.Linkname)
		}
	}
	slices.Sort(got)
	want := []string{".dockerignore", "Dockerfile", "a.txt", "build/keep", "link/etc/passwd", "sub/.env"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is sent (-want +got):\n%s", diff)
	}
}

func FuzzParseIgnored(f *testing.F) {
	f.Add("a\n!b\n**/c\n[\n", "a/b")
	f.Add("\\\n{x}\n!\n/\n", "x")
	f.Fuzz(func(t *testing.T, text, name string) {
		ignored, err := parseIgnored(strings.NewReader(text))
		if err != nil || !filepath.IsLocal(name) {
			return
		}
		if _, err := ignored.MatchesOrParentMatches(filepath.ToSlash(filepath.Clean(name))); err != nil {
			t.Errorf("pattern of %q: %v", text, err)
		}
	})
}

// TestTarballs: an image is read from a tarball that is compressed, too, and a few
// bytes that say that they are gigabytes of a description are not believed.
func TestTarballs(t *testing.T) {
	var plain, small bytes.Buffer
	tag, err := name.NewTag("x:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.Write(tag, empty.Image, &plain); err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(&small)
	if _, err := z.Write(plain.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	dense, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	smaller := dense.EncodeAll(plain.Bytes(), nil)
	var bomb bytes.Buffer
	z = gzip.NewWriter(&bomb)
	w := tar.NewWriter(z)
	manifest := `[{"Config":"config.json","Layers":[]}]`
	for _, file := range []struct{ name, text string }{{"manifest.json", manifest}, {"config.json", strings.Repeat("0", maxDescription+1)}} {
		if err := w.WriteHeader(&tar.Header{Name: file.name, Size: int64(len(file.text)), Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, file.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	for what, tt := range map[string]struct {
		data []byte
		want string
	}{"plain": {plain.Bytes(), ""}, "compressed": {small.Bytes(), ""}, "zstd": {smaller, ""}, "bomb": {bomb.Bytes(), "config.json has 16777217 bytes"}, "torn": {small.Bytes()[:40], "no tarball"}} {
		path := filepath.Join(t.TempDir(), "image")
		if err := os.WriteFile(path, tt.data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readImage(path, false)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", what, err, tt.want)
		}
	}
}
