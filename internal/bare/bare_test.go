package bare_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/croft-run/croft/internal/bare"
)

func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if _, err := bare.ReadFile(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadFile of nothing: %v", err)
	}
	if err := bare.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Remove of nothing: %v", err)
	}
	for _, size := range []int{5 << 20, 2048, 2047, 1, 0} { // a longer one is replaced by a shorter one
		want := bytes.Repeat([]byte("x"), size)
		if err := bare.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := bare.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("ReadFile = %d bytes, %v; want %d", len(got), err, size)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	f, err := bare.Open(filepath.Dir(path), os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if names, err := f.Readdirnames(-1); err != nil || len(names) != 1 {
		t.Errorf("the directory holds %v, %v", names, err)
	}
	if err := errors.Join(f.Close(), bare.Remove(path)); err != nil {
		t.Error(err)
	}
	for _, err := range []error{bare.WriteFile(filepath.Join(path, "x"), nil, 0o600), bare.Remove(path)} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("error %v, want fs.ErrNotExist", err)
		}
	}
	if err := bare.Remove(filepath.Dir(path)); err == nil {
		t.Error("Remove removed a directory")
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if _, err := bare.TakeLock(t.Context(), path, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a lock that is not to be made: %v", err)
	}
	first, err := bare.TakeLock(t.Context(), path, os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if _, err := bare.TakeLock(short, path, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second one: %v", err)
	}
	got := make(chan error)
	go func() {
		second, err := bare.TakeLock(t.Context(), path, 0)
		if err == nil {
			err = second.Close()
		}
		got <- err
	}()
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if err := <-got; err != nil {
		t.Errorf("once the first has let go: %v", err)
	}
}
