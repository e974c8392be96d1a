package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/workspace/driver"
)

// named are repositories whose configuration, or whose hooks, lead to files of the
// working tree: how each is made, on the host, and what a process inside tries, so
// that git runs $evil.
var named = map[string]struct{ make, plant string }{
	"missing-hooks":    {`git config core.hooksPath .githooks`, `mkdir -p .githooks; cp $evil .githooks/pre-commit`},
	"missing-deeper":   {`git config core.hooksPath a/b/c`, `mkdir -p a/b/c; cp $evil a/b/c/pre-commit`},
	"hooks-by-path":    {`mkdir h; cp .git/HEAD h/x; git config core.hooksPath "$PWD/h"`, `cp $evil h/pre-commit`},
	"hooks-commented":  {`mkdir h; printf '[core]\n\thooksPath = h # team\n' >> .git/config`, `cp $evil h/pre-commit`},
	"hook-a-symlink":   {`mkdir -p s .git/hooks; printf '#!/bin/sh\n' > s/h; chmod +x s/h; ln -s ../../s/h .git/hooks/pre-commit`, `cat $evil > s/h; rm -f s/h; cp $evil s/h; mv s t; mkdir s; cp $evil s/h`},
	"include-missing":  {`git config include.path ../team.inc`, `printf '[core]\n\tfsmonitor = %s\n' $evil > team.inc`},
	"include-nested":   {`git config include.path ../a.inc; printf '[include]\n\tpath = b.inc\n' > a.inc; : > b.inc`, `printf '[core]\n\tfsmonitor = %s\n' $evil > b.inc`},
	"include-of-hooks": {`git config include.path ../a.inc; printf '[core]\n\thooksPath = h\n' > a.inc; mkdir h`, `cp $evil h/pre-commit`},
	"per-tree":         {`git config extensions.worktreeConfig true`, `printf '[core]\n\tfsmonitor = %s\n' $evil > .git/worktrees/tree/config.worktree`},
	"tree-hooks":       {`git config core.hooksPath .githooks`, `mkdir -p tree/.githooks; cp $evil tree/.githooks/pre-commit`},
}

// TestGitOfTheHostRunsNothingThatItsConfigurationNames is about what lies in the
// working tree and git was told of, also where it is not there yet.
func TestGitOfTheHostRunsNothingThatItsConfigurationNames(t *testing.T) { bothGits(t, testNamed) }

func testNamed(t *testing.T, mode string) {
	dir, mark := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	text := "top=$PWD\n"
	for name, r := range named {
		at := filepath.Join(dir, name)
		repository(t, at)
		git(t, at, "worktree", "add", "-q", "-b", "tree", filepath.Join(at, "tree"))
		shellOutside(t, at, r.make)
		evil := filepath.Join(dir, "evil", name)
		put(t, evil, "#!/bin/sh\necho "+name+" >> "+mark+"\n")
		if err := os.Chmod(evil, 0o755); err != nil {
			t.Fatal(err)
		}
		text += "cd $top/" + name + "; evil=$top/evil/" + name + "\n" + r.plant + "\n"
	}
	before := listing(t, dir)
	_, ws, _ := inPlace(t, dir, mode)
	res := script(t, ws, text+"true")
	for name := range named {
		for _, at := range []string{name, name + "/tree"} {
			at := filepath.Join(dir, at)
			put(t, filepath.Join(at, "new.txt"), "new")
			for _, args := range [][]string{{"status"}, {"add", "new.txt"}, {"commit", "-qm", "second"}} {
				if out, err := tryGit(t, at, args...); err != nil {
					t.Errorf("git %v in %s: %v: %s", args, at, err, out)
				}
			}
			os.Remove(filepath.Join(at, "new.txt"))
		}
	}
	if data, err := os.ReadFile(mark); err == nil {
		t.Errorf("the host's git ran what a process inside has made: %q (%s)", data, res.Stderr)
	}
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, listing(t, dir)); diff != "" {
		t.Errorf("what was made for the guest is still there (-before +after):\n%s", diff)
	}
}

// shellOutside runs a script on the host, whose git has nobody's configuration.
func shellOutside(t *testing.T, dir, text string) {
	t.Helper()
	git(t, dir, "-c", "alias.sh=!sh -ec '"+strings.ReplaceAll(text, "'", `'\''`)+"'", "sh")
}

// listing is what there is besides the insides of repositories.
func listing(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".git" && d.IsDir() {
			return filepath.SkipDir
		}
		names = append(names, strings.TrimPrefix(path, dir))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestNoPipeStopsTheStart: what a process inside leaves where Git's files should be
// does not make the next start of a guest wait, or read without an end.
func TestNoPipeStopsTheStart(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"commondir", "config", "config.worktree"} {
		at := filepath.Join(dir, name, ".git")
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(filepath.Join(at, name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(dir, "large/.git/commondir"), "")
	if err := os.Truncate(filepath.Join(dir, "large/.git/commondir"), 1<<40); err != nil {
		t.Fatal(err)
	}
	_, ws, _ := inPlace(t, dir, GitPrivate)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := ws.Shell.Run(ctx, driver.Command{Script: "true"})
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Error("the start waits for a pipe")
	}
}

// TestSymlinksAmongTraps: what a symlink stands for is kept as well, and told where
// it can't be.
func TestSymlinksAmongTraps(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "conf/editor/tasks.json"), "mine")
	put(t, filepath.Join(dir, "sub/.vscode/tasks.json"), "mine")
	put(t, filepath.Join(dir, ".claude/settings.json"), "mine")
	if err := os.Symlink("conf/editor", filepath.Join(dir, ".vscode")); err != nil {
		t.Fatal(err)
	}
	repository(t, filepath.Join(dir, "repo"))
	_, ws, _ := inPlace(t, dir, GitShared)
	res := script(t, ws, `mkdir repo/.git/rebase-merge; echo 'exec evil' > repo/.git/rebase-merge/git-rebase-todo; echo evil > .vscode/tasks.json; echo evil > conf/editor/tasks.json; mv conf c; echo evil > sub/.vscode/tasks.json
echo evil > .claude/settings.json; mv .claude x; mkdir .claude/skills; echo new > .mcp.json; mkdir -p home/.claude; echo x > home/.claude/settings.json`)
	if data, err := os.ReadFile(filepath.Join(dir, ".claude/settings.json")); err != nil || string(data) != "mine" {
		t.Errorf("an agent's hooks are %q, %v", data, err)
	}
	if _, err := os.Stat(filepath.Join(dir, ".claude/skills")); err != nil {
		t.Errorf("an agent can't be given skills: %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, ".vscode/tasks.json")); err != nil || string(data) != "mine" {
		t.Errorf("the tasks are %q, %v", data, err)
	}
	slices.Sort(res.AutorunChanges)
	want := []string{".claude/skills", ".mcp.json", "home/.claude/settings.json", "repo/.git/rebase-merge/git-rebase-todo", "sub/.vscode"}
	for i, name := range want {
		want[i] = filepath.Join(dir, name)
	}
	if diff := cmp.Diff(want, res.AutorunChanges); diff != "" {
		t.Errorf("planted (-want +got):\n%s", diff)
	}
}
