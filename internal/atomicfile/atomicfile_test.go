package atomicfile_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/croft-run/croft/internal/atomicfile"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, o := range []atomicfile.Options{{}, {Mode: 0o644, Durable: true}, {Temp: path + ".new"}, {Mode: 0o400, Temp: path + ".new", Durable: true}} {
		want := o.Mode
		if want == 0 {
			want = 0o600
		}
		if err := atomicfile.Write(path, []byte("x"), o); err != nil {
			t.Fatalf("Write with %+v: %v", o, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != want || info.Size() != 1 {
			t.Errorf("with %+v the file is %v, %v; want mode %v", o, info, err, want)
		}
		wantAlone(t, dir)
	}
}

// TestFailedWrite checks that the old content stays and no temporary file is left.
func TestFailedWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for _, o := range []atomicfile.Options{{}, {Temp: path + ".new"}} {
		err := atomicfile.WriteTo(path, o, func(w io.Writer) error {
			if _, err := io.WriteString(w, "half"); err != nil {
				return err
			}
			return broken
		})
		if !errors.Is(err, broken) {
			t.Errorf("WriteTo with %+v: %v", o, err)
		}
		wantAlone(t, dir)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "old" {
		t.Errorf("the file holds %q, %v", data, err)
	}
	if err := atomicfile.Write(path, nil, atomicfile.Options{Temp: filepath.Join(t.TempDir(), "x")}); err == nil {
		t.Error("a temporary file in another directory was taken")
	}
	if err := atomicfile.Write(filepath.Join(dir, "none", "file"), nil, atomicfile.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that does not exist: %v", err)
	}
}

func wantAlone(t *testing.T, dir string) {
	t.Helper()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v, %v; want one file", entries, err)
	}
}
