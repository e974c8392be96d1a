package web

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAssetsAreBuilt builds the page again and compares: what is committed is what internal/web/src and
// docs/openapi.json make.
func TestAssetsAreBuilt(t *testing.T) {
	if _, err := os.Stat("node_modules/preact"); err != nil {
		t.Skip("skipped: host: it lacks the packages of the page: scripts/deps installs them in web from npm where npm can be reached")
	}
	dir := t.TempDir()
	out, types := filepath.Join(dir, "dist"), filepath.Join(dir, "api.gen.ts")
	if text, err := exec.CommandContext(t.Context(), "go", "run", "./build", "-install=false", "-out", out, "-types", types).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	const advice = "run go generate ./internal/web and commit what it writes"
	want, err := os.ReadFile(types)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile("src/api.gen.ts"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("src/api.gen.ts is not what docs/openapi.json makes (%v); %s", err, advice)
	}
	built := readAll(t, os.DirFS(out))
	committed, err := fs.Sub(Assets, "dist")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range readAll(t, committed) {
		if !bytes.Equal(built[name], data) {
			t.Errorf("dist/%s is not what the sources make; %s", name, advice)
		}
		delete(built, name)
	}
	for name := range built {
		t.Errorf("dist/%s is missing; %s", name, advice)
	}
}

func readAll(t *testing.T, dir fs.FS) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := fs.WalkDir(dir, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		files[name], err = fs.ReadFile(dir, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// maxAssets bounds what the page adds to croft, in bytes.
const maxAssets = 1500 << 10

// TestAssetsAreStrict: the page needs no exception of its Content-Security-Policy, and names no
// other origin that it would load from.
func TestAssetsAreStrict(t *testing.T) {
	page, err := fs.ReadFile(Assets, "dist/index.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{`(?i)<script[^>]*>[^<]`, `(?i)<style`, `(?i)\sstyle=`, `(?i)\son[a-z]+=`, `(?i)(src|href)="(https?:)?//`} {
		if found := regexp.MustCompile(pattern).Find(page); found != nil {
			t.Errorf("index.html has %q", found)
		}
	}
	total := 0
	for name, data := range readAll(t, Assets) {
		total += len(data)
		if strings.HasSuffix(name, ".map") {
			t.Errorf("%s is a source map", name)
		}
	}
	if total > maxAssets {
		t.Errorf("the assets have %d bytes; at most %d", total, maxAssets)
	}
}

// TestTypes checks the types of the sources.
func TestTypes(t *testing.T) {
	tsc := filepath.Join("node_modules", ".bin", "tsc")
	if _, err := os.Stat(tsc); err != nil {
		t.Skip("skipped: host: it lacks the packages of the page: scripts/deps installs them in web from npm where npm can be reached")
	}
	if out, err := exec.CommandContext(t.Context(), tsc, "-p", ".").CombinedOutput(); err != nil {
		t.Errorf("tsc: %v\n%s", err, out)
	}
}
