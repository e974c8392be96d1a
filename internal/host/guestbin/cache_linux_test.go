package guestbin

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestCopy: later processes read a copy of the embedded program, and one that is damaged, or
// that another user may have written, is made again.
func TestCopy(t *testing.T) {
	if !Embedded(runtime.GOARCH) {
		t.Skip("skipped: this program was built without \"make guests\"")
	}
	want, err := Find("")
	if err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(t.TempDir(), "cache")
	old := filepath.Join(cache, Name+"-000000000000000000000000") // of another build
	if err := errors.Join(os.MkdirAll(cache, 0o700), os.WriteFile(old, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	name, err := copyName(cache)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		change func() error
		usable bool // before the call
	}{
		{"no copy", func() error { return nil }, false},
		{"a copy", func() error { return nil }, true},
		{"a part", func() error { return os.Truncate(name, 1<<20) }, false},
		{"a copy that others may write", func() error { return os.Chmod(name, 0o622) }, false},
		{"a symlink", func() error { return errors.Join(os.Rename(name, name+".moved"), os.Symlink(name+".moved", name)) }, false},
	} {
		if err := tt.change(); err != nil {
			t.Fatal(err)
		}
		if b, err := readCopy(name); (err == nil) != tt.usable {
			t.Errorf("%s: got %+v, %v", tt.name, b, err)
		}
		b, err := FindCached("", cache)
		if err != nil || b.Version != want.Version || b.From != want.From {
			t.Errorf("%s: got %+v, %v, want %+v", tt.name, b, err, want)
		}
		if _, err := readCopy(name); err != nil {
			t.Errorf("%s: the copy was not made: %v", tt.name, err)
		}
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the copy of another build is still there: %v", err)
	}
}
