package sandbox

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

func put(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func write(ws *driver.Workspace, t testing.TB, name, content string) error {
	_, err := ws.FS.Write(t.Context(), name, strings.NewReader(content), &driver.WriteOptions{})
	return err
}

func read(t testing.TB, ws *driver.Workspace, name string) string {
	t.Helper()
	body, _, err := ws.FS.Read(t.Context(), name, &driver.ReadOptions{})
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

func digest(t testing.TB, dir string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", "cd "+dir+" && find . -printf '%p %y %m %U %s\n' | sort; find . -type f | sort | xargs cat").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func TestTemplateShowsThroughAndStaysAsItIs(t *testing.T) {
	template := t.TempDir()
	put(t, filepath.Join(template, "README"), "template")
	put(t, filepath.Join(template, "src/deep/main.go"), "package main")
	put(t, filepath.Join(template, "gone"), "x")
	before := digest(t, template)
	data := t.TempDir()
	p := newProvider(t, data)
	ws := open(t, p, func(s *driver.Spec) { s.From.Template = template })
	if got := read(t, ws, "src/deep/main.go"); got != "package main" {
		t.Errorf("a file of the template is %q", got)
	}
	if err := write(ws, t, "README", "changed outside"); err != nil {
		t.Fatal(err)
	}
	if err := write(ws, t, "src/new", "new"); err != nil {
		t.Fatal(err)
	}
	if err := ws.FS.Remove(t.Context(), "gone", &driver.RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	owner := workloadName
	if here(driver.IsolationGVisor) && os.Getuid() != 0 {
		owner = "root"
	}
	if got := output(t, ws, "cat README; ls src; ls gone 2>&1; stat -c %U README src/new src/deep; echo inside > inside; echo x >> src/deep/main.go"); got !=
		"changed outsidedeep\nnew\nls: cannot access 'gone': No such file or directory\n"+owner+"\n"+owner+"\n"+owner {
		t.Errorf("a command sees %q", got)
	}
	if got := read(t, ws, "inside"); got != "inside\n" {
		t.Errorf("what a command wrote is %q", got)
	}
	if err := ws.Life.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	next, err := newProvider(t, data).Resolve(t.Context(), ws.Ref)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, next, "src/deep/main.go"); got != "package mainx\n" {
		t.Errorf("after another process took over: %q", got)
	}
	if err := write(next, t, "after", "y"); err != nil {
		t.Errorf("write after another process took over: %v", err)
	}
	// A guest that was killed leaves a work directory that is refused.
	rec := guestOf(t, p, next)
	if err := rec.Kill(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "noticed", func() bool {
		_, err := next.FS.Stat(t.Context(), "after", &driver.StatOptions{})
		return fault.Of(err) == fault.Evicted
	})
	if got := read(t, next, "after"); got != "y" {
		t.Errorf("after the guest was killed: %q", got)
	}
	if after := digest(t, template); after != before {
		t.Errorf("the template was changed: %s", after)
	}
}

func TestInPlace(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "main.go"), "package main")
	put(t, filepath.Join(dir, ".git/config"), "[core]")
	put(t, filepath.Join(dir, ".git/hooks/pre-commit"), "#!/bin/sh")
	put(t, filepath.Join(dir, ".vscode/tasks.json"), "{}")
	ws := open(t, newProvider(t, t.TempDir()), func(s *driver.Spec) { s.Dir = dir })
	if ws.Traits.Root != dir {
		t.Errorf("the root is %q, want %q", ws.Traits.Root, dir)
	}
	if got := output(t, ws, "pwd; cat main.go; echo made > made; mkdir -p .git/objects; echo o > .git/objects/o; ls "+filepath.Dir(dir)); got !=
		dir+"\npackage main"+filepath.Base(dir) {
		t.Errorf("a command sees %q", got)
	}
	made, err := os.Stat(filepath.Join(dir, "made"))
	if err != nil {
		t.Fatal(err)
	}
	if mine, err := os.Stat(filepath.Join(dir, "main.go")); err != nil || !sameOwner(made, mine) {
		t.Errorf("what a command makes belongs to someone else: %+v, %v", made.Sys(), err)
	}
	before := digest(t, filepath.Join(dir, ".git/hooks")) + digest(t, filepath.Join(dir, ".vscode"))
	res := script(t, ws, `
echo evil > .git/config; echo evil > .git/hooks/post-checkout; rm -f .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit
mv .git .git-old; mv .git/hooks .git/x; rm -rf .vscode; echo evil > .vscode/tasks.json; mv .vscode v; ln -sf evil .git/config
`)
	if err := write(ws, t, ".vscode/tasks.json", "evil"); err == nil {
		t.Error(".vscode/tasks.json can be written")
	}
	if err := write(ws, t, ".git/evil", "evil"); err != nil { // of the private copy
		t.Error(err)
	}
	if err := ws.FS.Rename(t.Context(), ".git", ".git2", &driver.RenameOptions{}); err == nil {
		t.Error(".git can be renamed")
	}
	if after := digest(t, filepath.Join(dir, ".git/hooks")) + digest(t, filepath.Join(dir, ".vscode")); after != before {
		t.Errorf("what others run later was changed: %s\n%s", after, res.Stderr)
	}
	if data, err := os.ReadFile(filepath.Join(dir, ".git/config")); err != nil || string(data) != "[core]" {
		t.Errorf(".git/config is %q, %v", data, err)
	}
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "made")); err != nil {
		t.Errorf("Destroy took what was in place: %v", err)
	}
}

// TestWorkingTreeStaysWhereItBelongs: a .git that is a file names the directory
// with the configuration, and another one could name what a process has made.
func TestWorkingTreeStaysWhereItBelongs(t *testing.T) {
	needLevel(t, driver.IsolationNamespaces)
	dir := t.TempDir()
	put(t, filepath.Join(dir, ".git"), "gitdir: /elsewhere")
	p := newProvider(t, t.TempDir())
	p.onlyLevel, p.cfg.Isolation = driver.IsolationNamespaces, driver.IsolationNamespaces
	ws := open(t, p, func(s *driver.Spec) { s.Dir = dir })
	res := script(t, ws, "echo evil > .git; rm -f .git; mv .git away; ln -sf evil .git; echo evil > new && mv -f new .git")
	if data, err := os.ReadFile(filepath.Join(dir, ".git")); err != nil || string(data) != "gitdir: /elsewhere" {
		t.Errorf(".git is %q, %v (%s)", data, err, res.Stderr)
	}
}

func TestTemplateIsNotTheDataOfCroft(t *testing.T) {
	dir := t.TempDir()
	p := newProvider(t, dir)
	other := open(t, p)
	for _, template := range []string{"/", dir, p.store.Path(), p.store.Path(idOf(t, other))} {
		_, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind, From: driver.Source{Template: template}})
		if fault.Of(err) != fault.InvalidArgument {
			t.Errorf("the template %s gives %v", template, err)
		}
	}
}

func TestInPlaceWithoutTriggers(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "main.go"), "package main")
	p := newProvider(t, t.TempDir())
	ws := open(t, p, func(s *driver.Spec) { s.Dir = dir })
	if got := output(t, ws, "pwd; cat main.go; echo made > made"); got != dir+"\npackage main" {
		t.Errorf("a command sees %q", got)
	}
	if err := write(ws, t, "made", "changed"); err != nil {
		t.Fatal(err)
	}
	if got := output(t, ws, "cat made"); got != "changed" {
		t.Errorf("a command sees %q", got)
	}
	made, err := os.Stat(filepath.Join(dir, "made"))
	if err != nil {
		t.Fatal(err)
	}
	if mine, err := os.Stat(filepath.Join(dir, "main.go")); err != nil || !sameOwner(made, mine) {
		t.Errorf("what was made belongs to someone else: %+v, %v", made.Sys(), err)
	}
	if !here(driver.IsolationGVisor, driver.IsolationProcess) {
		return
	}
	repository(t, dir)
	before := digest(t, filepath.Join(dir, ".git"))
	if err := p.endGuest(t.Context(), p.store.Path(idOf(t, ws))); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a guest is to start again", func() bool { // calls fail while the guest is gone, also one that began before that was known
		_, err = ws.Shell.Run(t.Context(), driver.Command{Script: "echo evil > .git/config"})
		code := fault.Of(err)
		return code != fault.Evicted && code != fault.Unavailable
	})
	if refused := err != nil && strings.Contains(err.Error(), "in place"); refused != here(driver.IsolationProcess) {
		t.Errorf("with autorun files: %v", err)
	}
	if after := digest(t, filepath.Join(dir, ".git")); after != before {
		t.Errorf(".git of the host changed: %s, want %s", after, before)
	}
}

func TestPlacesThatAreRefused(t *testing.T) {
	p := newProvider(t, t.TempDir())
	for _, dir := range []string{"/", "/usr", "/etc/ssl", "/proc/self", "/tmp", "/home"} {
		_, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind, Dir: dir})
		if fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%s in place gives %v", dir, err)
		}
	}
}

func sameOwner(a, b os.FileInfo) bool {
	x, okX := a.Sys().(*syscall.Stat_t)
	y, okY := b.Sys().(*syscall.Stat_t)
	return okX && okY && x.Uid == y.Uid && x.Gid == y.Gid
}
