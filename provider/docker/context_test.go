package docker

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
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

func FuzzParseIgnoring(f *testing.F) {
	f.Add("a\n!b\n**/c\n[\n", "a/b")
	f.Add("\\\n{x}\n!\n/\n", "x")
	f.Fuzz(func(t *testing.T, text, name string) {
		list, err := parseIgnoring(text)
		if err != nil || !filepath.IsLocal(name) {
			return
		}
		list.out(filepath.ToSlash(filepath.Clean(name)))
	})
}
