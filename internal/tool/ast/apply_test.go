package ast

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func place(t *testing.T) (*workspace.Workspace, string) {
	t.Helper()
	dir := t.TempDir()
	p, err := local.New(&local.Config{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	d, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: p.Kind(), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.New("test", d, driver.Capabilities{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Destroy(context.WithoutCancel(t.Context())) })
	return ws, dir
}

func TestApply(t *testing.T) {
	ws, dir := place(t)
	file := filepath.Join(dir, "run.py")
	if err := os.WriteFile(file, []byte("def f():\n    return 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	body := func(src []byte) (Change, error) {
		return editor.FunctionBody(t.Context(), "run.py", src, "f", "return 2")
	}
	if _, _, err := editor.Apply(t.Context(), ws, "run.py", body); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := "def f():\n    return 2\n"; string(got) != want {
		t.Errorf("content = %q, want %q", got, want)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := info.Mode().Perm(), fs.FileMode(0o755); got != want {
		t.Errorf("mode = %v, want %v", got, want)
	}
	_, _, err = editor.Apply(t.Context(), ws, "run.py", func(src []byte) (Change, error) {
		if err := os.WriteFile(file, []byte("def f():\n    return 3\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return editor.FunctionBody(t.Context(), "run.py", src, "f", "return 4")
	})
	if !errors.Is(err, fault.Conflict) {
		t.Errorf("error after the file changed = %v, want %v", err, fault.Conflict)
	}
}
