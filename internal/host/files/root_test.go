package files_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/workspace/driver"
)

func open(t testing.TB, opts *files.Options) (*files.Root, string) {
	t.Helper()
	dir := t.TempDir()
	r, err := files.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r, dir
}

func put(t testing.TB, r *files.Root, name, content string) driver.WriteResult {
	t.Helper()
	res, err := r.Write(t.Context(), name, strings.NewReader(content), &driver.WriteOptions{Parents: true})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func get(t testing.TB, r *files.Root, name string) string {
	t.Helper()
	body, _, err := r.Read(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func wantCode(t testing.TB, err error, want fault.Code) {
	t.Helper()
	if got := fault.Of(err); got != want {
		t.Errorf("got %v (%s), want %s", err, got, want)
	}
}

// noTemps fails if a temporary file is left anywhere below dir.
func noTemps(t testing.TB, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), files.TempPrefix) {
			t.Errorf("%s is left", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestWriteAndReadBack(t *testing.T) {
	r, dir := open(t, nil)
	res := put(t, r, "a/b/c.txt", "hello")
	if !res.Created || res.Digest != driver.DigestBytes([]byte("hello")) || res.Info.Size != 5 || res.Info.Mode != 0o644 || res.Info.Path != "a/b/c.txt" {
		t.Errorf("result %+v", res)
	}
	if got := get(t, r, "a/b/c.txt"); got != "hello" {
		t.Errorf("read %q", got)
	}
	res = put(t, r, "a/b/c.txt", "again")
	if res.Created || res.BrokeLinks {
		t.Errorf("second result %+v", res)
	}
	info, err := r.Stat(t.Context(), "a/b/c.txt", &driver.StatOptions{Digest: true})
	if err != nil || info.Digest != res.Digest {
		t.Errorf("stat %+v, %v", info, err)
	}
	noTemps(t, dir)
}

func TestClosedRoot(t *testing.T) {
	r, _ := open(t, nil)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := r.Stat(t.Context(), ".", nil)
	wantCode(t, err, fault.WrongState)
}

func TestCanceledContext(t *testing.T) {
	r, _ := open(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Write(ctx, "f", strings.NewReader("x"), nil)
	wantCode(t, err, fault.Canceled)
}
