package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// TestWhatIsHeldStaysWithoutItsGuest writes through the mounts of a guest from
// outside, where the kernel lets mount points be replaced, while the guest lives
// and after it was killed, when its mounts would come apart.
func TestWhatIsHeldStaysWithoutItsGuest(t *testing.T) {
	needLevel(t, driver.IsolationNamespaces)
	dir := t.TempDir()
	files := map[string]string{
		"main.go": "package main", ".git/config": "[core]", ".git/hooks/pre-commit": "#!/bin/sh", ".vscode/tasks.json": "{}", ".git/index": "old",
	}
	for name, content := range files {
		put(t, filepath.Join(dir, name), content)
	}
	p := newProvider(t, t.TempDir())
	p.onlyLevel, p.cfg.Isolation = driver.IsolationNamespaces, driver.IsolationNamespaces
	ws := open(t, p, func(s *driver.Spec) { s.Dir = dir })
	if got := output(t, ws, "ln -s .git/config link; cat main.go"); got != "package main" {
		t.Fatalf("a command sees %q", got)
	}
	rec := guestOf(t, p, ws)
	g := new(guestConn)
	if p.ids.root {
		g.owner = p.ids.base + workloadUID
	}
	l, err := p.chooseLevel(t.Context(), driver.IsolationNamespaces)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.openFiles(rec, launchSpec{level: l, id: idOf(t, ws), guestDir: dir, hostDir: true}); err != nil {
		t.Fatalf("the mounts of the guest are not reached: %v", err)
	}
	defer g.root.Close()
	defer g.pinnedNS.Close()
	refused := func(when string) {
		t.Helper()
		for _, name := range []string{".vscode/tasks.json", ".vscode"} {
			for _, opts := range []driver.WriteOptions{{}, {InPlace: true}, {Parents: true}} {
				_, err := g.files.Write(t.Context(), name, strings.NewReader("evil"), &opts)
				if code := fault.Of(err); code != fault.PermissionDenied && code != fault.InvalidArgument {
					t.Errorf("%s, a write of %s with %+v gives %v", when, name, opts, err)
				}
			}
		}
		for _, name := range []string{".git", ".vscode"} {
			for what, err := range map[string]error{
				"removal":           g.files.Remove(t.Context(), name, &driver.RemoveOptions{}),
				"recursive removal": g.files.Remove(t.Context(), name, &driver.RemoveOptions{Recursive: true}),
				"renaming":          g.files.Rename(t.Context(), name, "elsewhere", &driver.RenameOptions{}),
				"replacing":         g.files.Rename(t.Context(), "link", name, &driver.RenameOptions{}),
				"chmod":             g.files.Chmod(t.Context(), name, 0o777),
			} {
				if err == nil && (what != "chmod" || name != ".git") {
					t.Errorf("%s, the %s of %s succeeds", when, what, name)
				}
			}
		}
		for _, name := range []string{"main.go", "new", "link", ".git/index", ".git/config", ".git/hooks/pre-commit", ".git/hooks/evil"} { // .git is a private copy
			if _, err := g.files.Write(t.Context(), name, strings.NewReader(when), &driver.WriteOptions{Parents: true}); err != nil {
				t.Errorf("%s, a write of %s gives %v", when, name, err)
			}
		}
	}
	refused("while the guest lives")
	if got := output(t, ws, "cat main.go"); got != "while the guest lives" {
		t.Errorf("a command sees %q", got)
	}
	if err := rec.Kill(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ended", func() bool { return !alive(rec) })
	refused("after its end")
	for name, want := range map[string]string{".git/config": "[core]", ".git/hooks/pre-commit": "#!/bin/sh", ".vscode/tasks.json": "{}", ".git/index": "old"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
}
