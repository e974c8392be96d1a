package plot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestRemovePlain removes trees without any help, and nothing beside them.
func TestRemovePlain(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside", "kept")
	must(t, os.MkdirAll(outside, 0o755))
	must(t, os.WriteFile(filepath.Join(outside, "file"), nil, 0o600))
	top := filepath.Join(dir, "top")
	must(t, os.MkdirAll(filepath.Join(top, "many", "a", "b", "empty"), 0o755))
	must(t, os.Symlink(filepath.Dir(outside), filepath.Join(top, "many", "a", "link")))
	for i := range 2000 { // more than one batch of names
		must(t, os.WriteFile(filepath.Join(top, "many", fmt.Sprintf("a-file-with-a-name-of-some-length-%d", i)), nil, 0o600))
	}
	link := filepath.Join(dir, "link")
	must(t, os.Symlink(filepath.Dir(outside), link))
	for _, path := range []string{top, link, filepath.Join(dir, "never", "was")} {
		if !removePlain(path) {
			t.Errorf("removePlain(%s) = false", path)
		}
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
	if _, err := os.Stat(filepath.Join(outside, "file")); err != nil {
		t.Error(err)
	}
}

// TestRemovePlainGivesUp: what is too deep is left to others, and not taken for gone.
func TestRemovePlainGivesUp(t *testing.T) {
	top := filepath.Join(t.TempDir(), "top")
	must(t, os.Mkdir(top, 0o755))
	dig(t, top, deepest+10)
	if removePlain(top) {
		t.Error("removePlain = true for a tree that is too deep")
	}
	must(t, RemoveTree(top))
}

func TestHoldsLittle(t *testing.T) {
	for name, test := range map[string]struct {
		make func(dir string) error
		want bool
	}{
		"nothing": {func(string) error { return nil }, true},
		"much": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "f"), make([]byte, littleBytes+1), 0o600)
		}, false},
		"just":      {func(dir string) error { return os.WriteFile(filepath.Join(dir, "f"), make([]byte, littleBytes), 0o600) }, true},
		"some":      {func(dir string) error { return names(dir, littleEntries/2) }, true},
		"many":      {func(dir string) error { return names(dir, littleEntries/2+1) }, false},
		"not there": {os.Remove, false},
		"a link out": {func(dir string) error { // which is not followed
			out := filepath.Join(filepath.Dir(dir), "out")
			if err := os.MkdirAll(out, 0o755); err != nil {
				return err
			}
			return errors.Join(names(out, littleEntries), os.Symlink(out, filepath.Join(dir, "link")))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "dir")
			must(t, os.Mkdir(dir, 0o755))
			must(t, test.make(dir))
			if got := holdsLittle(dir); got != test.want {
				t.Errorf("holdsLittle = %v, want %v", got, test.want)
			}
		})
	}
}

// names makes so many directories, with a file in each.
func names(dir string, n int) error {
	for i := range n {
		sub := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(sub, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(sub, "f"), nil, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
