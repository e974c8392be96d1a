package flockfile_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/croft-run/croft/internal/flockfile"
	"github.com/gofrs/flock"
)

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if _, err := flockfile.Lock(t.Context(), path, flock.SetFlag(os.O_RDWR)); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a file that is not to be created: %v", err)
	}
	first, err := flockfile.Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if _, err := flockfile.Lock(short, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second exclusive lock: %v", err)
	}
	if _, err := flockfile.RLock(short, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a shared lock beside an exclusive one: %v", err)
	}
	if err := errors.Join(first.Close(), first.Close()); err != nil {
		t.Error(err)
	}
	a, err := flockfile.RLock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := flockfile.RLock(t.Context(), path)
	if err != nil {
		t.Fatalf("a second shared lock: %v", err)
	}
	defer b.Close()
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
}
