package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
)

func TestFSPassesTheStandardSuite(t *testing.T) {
	ws := newMemory(t, nil)
	fs := ws.FS().With(t.Context())
	for _, dir := range []string{"d/e", "empty"} {
		if err := fs.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"a.txt", "d/b.txt", "d/e/c.go", "empty"}
	for _, name := range want[:3] {
		if err := fs.WriteFile(name, []byte("this is "+name), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := fs.Symlink("d/b.txt", "link"); err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(fs, append(want, "link")...); err != nil {
		t.Error(err)
	}
	sub, err := iofs.Sub(fs, "d")
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(sub, "b.txt", "e/c.go"); err != nil {
		t.Error(err)
	}
}

func TestFSWrites(t *testing.T) {
	ws := newMemory(t, nil)
	fs := ws.FS().With(t.Context())
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	check("Mkdir", fs.Mkdir("d", 0o700))
	w, err := fs.Create("d/new")
	check("Create", err)
	for i := range 3 {
		_, err := fmt.Fprintf(w, "line %d\n", i)
		check("Write", err)
	}
	if _, err := fs.Stat("d/new"); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("Stat before Close = %v, want that it does not exist", err)
	}
	check("Close", w.Close())
	if err := w.Close(); !errors.Is(err, iofs.ErrClosed) {
		t.Errorf("second Close = %v", err)
	}
	data, err := fs.ReadFile("d/new")
	if string(data) != "line 0\nline 1\nline 2\n" || err != nil {
		t.Errorf("ReadFile = %q, %v", data, err)
	}
	w, err = fs.Create("d/new")
	check("Create", err)
	_, err = io.WriteString(w, "given up")
	check("Write", err)
	w.Abort()
	if again, err := fs.ReadFile("d/new"); string(again) != string(data) {
		t.Errorf("after Abort the file holds %q, %v", again, err)
	}
	if err := fs.Chmod("d/new", 0o600|iofs.ModeSetuid); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), "04600") {
		t.Errorf("Chmod to set-user-id: %v, want InvalidArgument that names the mode", err)
	}
	check("Chmod", fs.Chmod("d/new", 0o600))
	info, err := fs.Stat("d/new")
	check("Stat", err)
	if got, want := info.Mode(), iofs.FileMode(0o600); got != want {
		t.Errorf("mode is %v, want %v", got, want)
	}
	check("Symlink", fs.Symlink("new", "d/link"))
	if target, err := fs.ReadLink("d/link"); target != "new" || err != nil {
		t.Errorf("ReadLink = %q, %v", target, err)
	}
	check("Rename", fs.Rename("d/new", "d/old"))
	check("RemoveAll", fs.RemoveAll("d"))
	check("RemoveAll of nothing", fs.RemoveAll("d"))
	names, err := fs.Glob("*")
	if len(names) != 0 || err != nil {
		t.Errorf("Glob = %q, %v", names, err)
	}
}

func TestFSErrorsAreOfBothWorlds(t *testing.T) {
	ws := newMemory(t, nil)
	fs := ws.FS().With(t.Context())
	if err := fs.WriteFile("f", nil, 0); err != nil {
		t.Fatal(err)
	}
	_, missing := fs.Open("missing")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, late := ws.FS().With(canceled).Stat("f")
	_, notLink := fs.ReadLink("f")
	type both struct {
		PathError, Std, Code bool
	}
	tests := map[string]struct {
		err  error
		std  error
		code fault.Code
	}{
		"missing":  {missing, iofs.ErrNotExist, fault.NotFound},
		"exists":   {fs.Mkdir("f", 0), iofs.ErrExist, fault.AlreadyExists},
		"escape":   {fs.Symlink("../..", "out"), iofs.ErrPermission, fault.SandboxViolation},
		"bad name": {fs.Remove("../f"), iofs.ErrInvalid, fault.InvalidArgument},
		"root":     {fs.Remove("."), iofs.ErrInvalid, fault.InvalidArgument},
		"canceled": {late, context.Canceled, fault.Canceled},
		"no link":  {notLink, iofs.ErrInvalid, fault.InvalidArgument},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var pathErr *iofs.PathError
			got := both{errors.As(tt.err, &pathErr), errors.Is(tt.err, tt.std), fault.Of(tt.err) == tt.code}
			if diff := cmp.Diff(both{true, true, true}, got); diff != "" {
				t.Errorf("%v (-want +got):\n%s", tt.err, diff)
			}
		})
	}
}

func TestSeekNoticesAReplacedFile(t *testing.T) {
	ws := newMemory(t, nil)
	fs := ws.FS().With(t.Context())
	if err := fs.WriteFile("f", []byte("0123456789"), 0); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Open("f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.(io.Seeker).Seek(-3, io.SeekEnd); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(f); string(got) != "789" || err != nil {
		t.Errorf("after Seek: %q, %v", got, err)
	}
	if err := fs.WriteFile("f", []byte("other, and longer"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.(io.Seeker).Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(f); !errors.Is(err, fault.Conflict) {
		t.Errorf("reading on in a replaced file = %v, want Conflict", err)
	}
}

func TestAnAbandonedWriterDoesNotKeepTheHandleOpen(t *testing.T) {
	ws := newMemory(t, nil)
	w, err := ws.FS().Create("f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "half"); err != nil {
		t.Fatal(err)
	}
	if err := ws.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err == nil {
		t.Error("Close of a writer whose handle is closed succeeded")
	}
}
