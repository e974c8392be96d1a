package sandbox

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// git runs the host's git, with nobody's configuration.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := tryGit(t, dir, args...)
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return out
}

func tryGit(t testing.TB, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com"}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// repository makes one with a commit.
func repository(t testing.TB, dir string) {
	t.Helper()
	put(t, filepath.Join(dir, "a.txt"), "a")
	git(t, dir, "init", "-q")
	git(t, dir, "add", "a.txt")
	git(t, dir, "commit", "-qm", "first")
}

// events gathers those of a kind.
type events struct {
	mu   sync.Mutex
	list []event.Event
}

func (e *events) Emit(ev event.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ev.Kind == event.SandboxViolation {
		e.list = append(e.list, ev)
	}
}

func (e *events) paths() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var paths []string
	for _, ev := range e.list {
		paths = append(paths, ev.Fields[event.FieldPath].(string))
	}
	slices.Sort(paths)
	return paths
}

// inPlace opens a directory in place, at the level of the tests if that can keep
// files read-only. git is the option of that name.
func inPlace(t *testing.T, dir, git string) (*Provider, *driver.Workspace, *events) {
	t.Helper()
	if here(driver.IsolationProcess) || here(driver.IsolationGVisor) && git == GitShared {
		t.Skip("skipped: Traits: no directory in place with files that others run later")
	}
	p := newProvider(t, t.TempDir())
	told := new(events)
	p.cfg.Events = told
	return p, open(t, p, func(s *driver.Spec) { s.Dir, s.Config = dir, gitOption(git) }), told
}

// gitOption is a configuration with the option git.
func gitOption(git string) []byte { return []byte(`{"git":"` + git + `"}`) }

// bothGits runs a test with a private copy of each .git, and with the host's.
func bothGits(t *testing.T, test func(t *testing.T, git string)) {
	for _, git := range []string{GitPrivate, GitShared} {
		if git == GitShared && here(driver.IsolationGVisor) {
			continue // refused
		}
		t.Run(git, func(t *testing.T) { test(t, git) })
	}
}

// plantings are what a process inside tries, in a repository, so that git runs
// $evil later. fake is a copy of the repository whose configuration names it.
var plantings = map[string]string{
	"commondir":     `echo "$fake" > .git/commondir`,
	"commondir-ln":  `rm -f .git/commondir; ln -s x .git/commondir; ln -s "$fake/HEAD" .git/commondir`,
	"config":        `cat "$fake/config" > .git/config`,
	"config-moved":  `cp "$fake/config" .git/c && mv -f .git/c .git/config`,
	"config-anew":   `rm -f .git/config; cp "$fake/config" .git/config`,
	"hooks":         `mkdir -p .git/hooks; for h in pre-commit post-checkout post-index-change; do cp "$evil" .git/hooks/$h; done`,
	"hooks-moved":   `mv .git/hooks .git/old; mkdir .git/hooks; cp "$evil" .git/hooks/pre-commit`,
	"git-moved":     `mv .git old && cp -r "$fake" .git`,
	"git-a-file":    `mv .git old && echo "gitdir: $fake" > .git`,
	"git-a-symlink": `mv .git old && ln -s "$fake" .git`,
	"repo-moved":    `d=$PWD; cd ..; mv "$d" "$d.old" && mkdir "$d" && cp -r "$fake" "$d/.git"`,
	"parent-moved":  `d=$PWD; cd ../..; mv "${d%/*}" gone && mkdir -p "$d" && cp -r "$fake" "$d/.git"`,
	"hookspath":     `mkdir -p tools/hooks; cp "$evil" tools/hooks/pre-commit; mv tools t; mkdir -p tools/hooks; cp "$evil" tools/hooks/pre-commit`,
	"include":       `cat "$fake/config" > shared.inc; rm -f shared.inc; cp "$fake/config" shared.inc`,
	"worktree":      `cd tree; echo "gitdir: $fake" > .git; rm -f .git; echo "gitdir: $fake" > .git`,
	"worktree-dir":  `for f in commondir gitdir; do echo "$fake" > .git/worktrees/tree/$f; done; mv .git/worktrees/tree .git/t; cp -r "$fake" .git/worktrees/tree`,
}

// TestGitOfTheHostRunsNothingPlanted: what a process inside does to a repository
// that is there, at the top or further down, makes the host's git run nothing.
func TestGitOfTheHostRunsNothingPlanted(t *testing.T) { bothGits(t, testPlanted) }

func testPlanted(t *testing.T, mode string) {
	dir, mark := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	repository(t, dir)
	git(t, dir, "config", "core.hooksPath", "tools/hooks")
	put(t, filepath.Join(dir, "tools/hooks/README"), "hooks")
	git(t, dir, "config", "include.path", "../shared.inc")
	put(t, filepath.Join(dir, "shared.inc"), "[alias]\n\tx = status\n")
	if err := os.RemoveAll(filepath.Join(dir, ".git/hooks")); err != nil {
		t.Fatal(err)
	}
	base := t.TempDir()
	if err := os.CopyFS(filepath.Join(base, "r"), os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	for name := range plantings {
		at := filepath.Join(dir, "all", name)
		if err := os.CopyFS(at, os.DirFS(filepath.Join(base, "r"))); err != nil {
			t.Fatal(err)
		}
		git(t, at, "worktree", "add", "-q", "-b", "tree", filepath.Join(at, "tree"))
		put(t, filepath.Join(dir, "evil", name), "#!/bin/sh\necho "+name+" >> "+mark+"\n")
		if err := os.Chmod(filepath.Join(dir, "evil", name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	_, ws, _ := inPlace(t, dir, mode)
	repos := []string{"."}
	text := "top=$PWD\n"
	for _, name := range slices.Sorted(maps.Keys(plantings)) {
		repos = append(repos, "all/"+name)
		text += "evil=$top/evil/" + name + " fake=$top/fake/" + name + "; mkdir -p fake; cp -r all/" + name + `/.git $fake; rm -f $fake/commondir
printf '[core]\n\tfsmonitor = %s\n\thooksPath = %s\n' "$evil" "$fake/hooks" >> $fake/config; mkdir -p $fake/hooks; cp $evil $fake/hooks/pre-commit
(cd all/` + name + "\n" + plantings[name] + ")\n"
	}
	res := script(t, ws, text+plantings["commondir"]+"\n"+plantings["config"]+"\n"+plantings["git-moved"]+"\n true")
	for _, repo := range repos {
		for _, at := range []string{repo, repo + "/tree"} {
			at := filepath.Join(dir, at)
			put(t, filepath.Join(at, "new.txt"), "new")
			for _, args := range [][]string{{"status"}, {"add", "new.txt"}, {"commit", "-qm", "second"}} {
				if out, err := tryGit(t, at, args...); err != nil && !strings.HasSuffix(at, "tree") {
					t.Errorf("git %v in %s: %v: %s", args, repo, err, out)
				}
			}
		}
	}
	if data, err := os.ReadFile(mark); err == nil {
		t.Errorf("the host's git ran what a process inside has made: %q (%s)", data, res.Stderr)
	}
}

// TestPlaceholdersAreNeutralAndGo: while a workspace uses a repository, git works
// in it, inside and outside; afterwards it is as it was.
func TestPlaceholdersAreNeutralAndGo(t *testing.T) {
	dir := t.TempDir()
	repository(t, dir)
	before := digest(t, filepath.Join(dir, ".git"))
	p, ws, _ := inPlace(t, dir, GitShared)
	if got := output(t, ws, "git --no-optional-locks status --porcelain; git log --format=%s; git rev-parse --git-common-dir | tail -c5; cat .git/commondir"); got != "first\n.git\n." {
		t.Errorf("git says inside: %q", got)
	}
	if got := git(t, dir, "log", "--format=%s"); got != "first" {
		t.Errorf("git says outside: %q", got)
	}
	// Another workspace in the same directory needs them, too.
	other := open(t, p, func(s *driver.Spec) { s.Dir, s.Config = dir, gitOption(GitShared) })
	output(t, other, "true")
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := output(t, other, "(echo x > .git/commondir) 2>/dev/null; cat .git/commondir"); got != "." {
		t.Errorf("after the end of the other the placeholder holds %q", got)
	}
	if err := other.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := digest(t, filepath.Join(dir, ".git")); after != before {
		t.Errorf("the repository is not as it was:\n%s", cmp.Diff(before, after))
	}
}

// TestCommitsInPlace: what git needs to write is not held, where the host's .git is
// shared.
func TestCommitsInPlace(t *testing.T) {
	dir := t.TempDir()
	repository(t, dir)
	_, ws, told := inPlace(t, dir, GitShared)
	output(t, ws, `export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
echo b > b.txt && git add b.txt && git commit -qm second && git checkout -qb x && git stash list && git gc -q`)
	if got := git(t, dir, "log", "--format=%s"); got != "second\nfirst" {
		t.Errorf("the log is %q", got)
	}
	if paths := told.paths(); len(paths) > 0 {
		t.Errorf("work is told as a violation: %q", paths)
	}
}

// TestWhatIsPlantedIsTold: what can't be kept from coming is told, once, in the
// result and by an event.
func TestWhatIsPlantedIsTold(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "main.go"), "package main")
	put(t, filepath.Join(dir, "sub/.envrc"), "mine")
	p := newProvider(t, t.TempDir())
	told := new(events)
	p.cfg.Events = told
	ws := open(t, p, func(s *driver.Spec) { s.Dir = dir })
	if here(driver.IsolationProcess) {
		if err := os.RemoveAll(filepath.Join(dir, "sub/.envrc")); err != nil {
			t.Fatal(err)
		}
	}
	if res := script(t, ws, "echo x > ordinary; mkdir -p node_modules/x/.vscode"); len(res.AutorunChanges) > 0 {
		t.Errorf("ordinary work is told: %q", res.AutorunChanges)
	}
	sess, err := ws.Shell.Start(t.Context(), driver.Command{Argv: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	h := sess.Process.(autorunProcess).h
	h.autorun.Postpone(0)
	res := script(t, ws, "mkdir -p deep/er/.git bare.git/objects bare.git/refs; : > bare.git/HEAD; echo evil > sub/.envrc; mkdir .vscode; ln -s /elsewhere lib.git; mkdir mod; echo 'gitdir: ../x' > mod/.git")
	want := []string{".vscode", "bare.git", "deep/er/.git", "mod/.git", "sub/.envrc"}
	for i, name := range want {
		want[i] = filepath.Join(dir, name)
	}
	slices.Sort(res.AutorunChanges)
	if diff := cmp.Diff(want, res.AutorunChanges); diff != "" {
		t.Errorf("planted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, told.paths()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if code := told.list[0].Fields[event.FieldCode]; code != fault.SandboxViolation.Wire() {
		t.Errorf("the code is %v", code)
	}
	if _, err := ws.Shell.Run(t.Context(), driver.Command{Script: "mkdir late && mkdir late/.git"}); err != nil {
		t.Fatal(err)
	}
	if err := ws.Life.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got, late := told.paths(), filepath.Join(dir, "late/.git"); !slices.Contains(got, late) || len(got) != len(want)+1 {
		t.Errorf("after Close: %q", got)
	}
}

// TestNewWorktreeIsTold: a directory in .git/worktrees of a shared .git is a Git directory: the host's
// git runs what its configuration names. A new one is told; one that is there stays as it is.
func TestNewWorktreeIsTold(t *testing.T) {
	if here(driver.IsolationProcess) || here(driver.IsolationGVisor) {
		t.Skip("skipped: Traits: no shared .git")
	}
	dir := t.TempDir()
	repository(t, dir)
	git(t, dir, "worktree", "add", "-q", "-b", "tree", filepath.Join(t.TempDir(), "tree"))
	_, ws, _ := inPlace(t, dir, GitShared)
	if res := script(t, ws, gitUser+"echo x > w; git add w; git commit -qm inside; echo x > .git/worktrees/tree/x"); len(res.AutorunChanges) > 0 || res.ExitCode != 0 {
		t.Errorf("ordinary work is told: %q, %s", res.AutorunChanges, res.Stderr)
	}
	scanAgain(t, ws)
	res := script(t, ws, "cp -r .git/worktrees/tree .git/worktrees/new; mv .git/worktrees/tree .git/worktrees/old")
	if want := []string{filepath.Join(dir, ".git/worktrees/new")}; !slices.Equal(res.AutorunChanges, want) {
		t.Errorf("told: %q, want %q", res.AutorunChanges, want)
	}
	scanAgain(t, ws)
	if res := script(t, ws, "echo x > .git/worktrees/new/x"); len(res.AutorunChanges) > 0 {
		t.Errorf("told again: %q", res.AutorunChanges)
	}
}

// TestUnreadableDirectoryIsNoChange: a warning names a directory that can't be read, which
// is no autorun file that was changed.
func TestUnreadableDirectoryIsNoChange(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.Mkdir(secret, 0); err != nil {
		t.Fatal(err)
	}
	ws := open(t, newProvider(t, t.TempDir()), func(s *driver.Spec) { s.Dir = dir })
	res := script(t, ws, "true")
	if len(res.AutorunChanges) > 0 {
		t.Errorf("changes: %q", res.AutorunChanges)
	}
	if warned := strings.Contains(strings.Join(res.AutorunWarnings, "\n"), secret+" can't be read"); warned != (os.Geteuid() != 0) { // root reads all
		t.Errorf("warnings: %q", res.AutorunWarnings)
	}
}

// TestSwapBetweenJudgementAndMount: who replaces a directory, after it was judged,
// by another one or by a symlink to it shows nothing of that.
func TestSwapBetweenJudgementAndMount(t *testing.T) {
	for _, how := range []string{"symlink", "directory"} {
		for _, beside := range []bool{false, true} {
			t.Run(how+map[bool]string{true: " beside", false: " in place"}[beside], func(t *testing.T) {
				base := t.TempDir()
				dir, secret := filepath.Join(base, "proj"), filepath.Join(base, "secret")
				put(t, filepath.Join(dir, "f"), "judged")
				put(t, filepath.Join(secret, "f"), "hidden")
				p := newProvider(t, t.TempDir())
				ws := open(t, p, func(s *driver.Spec) {
					if beside {
						s.Config = []byte(`{"binds":[{"dir":"` + dir + `"}]}`)
					} else {
						s.Dir = dir
					}
				})
				p.dirs.afterCheck = func(at string) {
					p.dirs.afterCheck = nil // once
					swap(t, how, at, secret)
				}
				res, err := ws.Shell.Run(t.Context(), driver.Command{Script: "cat " + dir + "/f; echo changed > " + dir + "/f"})
				if bytes.Contains(res.Stdout, []byte("hidden")) {
					t.Errorf("what was not judged is shown: %q", res.Stdout)
				}
				if err != nil && !strings.Contains(err.Error(), "was replaced") { // where the guest itself mounts it
					t.Errorf("got %v", err)
				}
				for _, at := range []string{filepath.Join(secret, "f"), filepath.Join(dir, "f")} {
					if data, err := os.ReadFile(at); err == nil && string(data) == "changed" {
						t.Errorf("what was not judged is changed: %s", at)
					}
				}
			})
		}
	}
}

func swap(t *testing.T, how, dir, secret string) {
	t.Helper()
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Error(err)
		return
	}
	var err error
	if how == "symlink" {
		err = os.Symlink(secret, dir)
	} else {
		err = os.Rename(secret, dir)
	}
	if err != nil {
		t.Error(err)
	}
}

// inPlaceTests are those of directories of the user's.
const inPlaceTests = "^(TestGitOfTheHostRunsNothingPlanted|TestPlaceholdersAreNeutralAndGo|TestCommitsInPlace|TestWhatIsPlantedIsTold|TestUnreadableDirectoryIsNoChange|TestSwapBetweenJudgementAndMount|" +
	"TestGitOfTheHostRunsNothingThatItsConfigurationNames|TestNoPipeStopsTheStart|TestSymlinksAmongTraps|TestPrivateGit.*|TestOwnRepository|TestLateClone.*)$"

//croft:slow
func TestInPlaceUnprivileged(t *testing.T) { asNobody(t, inPlaceTests) }

// At the level of bubblewrap the process that is known is bubblewrap, and the guest
// outlives it.
func TestPartialOutputUnprivileged(t *testing.T) {
	asNobody(t, "^TestPartialOutputOfAGuestThatWasKilled$")
}

//croft:slow
func TestInPlaceBubblewrap(t *testing.T) { atLevel(t, driver.IsolationBubblewrap, inPlaceTests) }

//croft:slow
func TestInPlaceGVisor(t *testing.T) { atLevel(t, driver.IsolationGVisor, inPlaceTests) }

func TestInPlaceProcess(t *testing.T) {
	atLevel(t, driver.IsolationProcess, "^(TestWhatIsPlantedIsTold|TestSwapBetweenJudgementAndMount)$")
}

// TestOtherAutorunFiles: configuration of other version control than Git can't be changed
// where it is there, and a new one is reported, with new repositories and with settings of
// agents further down.
func TestOtherAutorunFiles(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, ".hg/hgrc"), "mine")
	put(t, filepath.Join(dir, ".hg/store/x"), "x")
	put(t, filepath.Join(dir, ".devcontainer.json"), "mine")
	put(t, filepath.Join(dir, ".jj/repo/x"), "x")
	_, ws, _ := inPlace(t, dir, "")
	output(t, ws, "true")
	scanAgain(t, ws)
	if res := script(t, ws, "echo x > .hg/store/y; echo x > .jj/repo/y; echo x > ordinary"); len(res.AutorunChanges) > 0 {
		t.Errorf("ordinary work is reported: %q", res.AutorunChanges)
	}
	scanAgain(t, ws)
	res := script(t, ws, `for f in .hg/hgrc .devcontainer.json; do (echo evil > $f) 2>/dev/null; rm -f $f; (echo evil > $f) 2>/dev/null; done
echo evil > .jj/repo/config.toml; mkdir -p sub/.hg pkg/.claude a/.helix node_modules/x/.hg; echo evil > sub/.hg/hgrc; echo evil > pkg/.claude/settings.json; ln -s ../../x b.hg; ln -s x .sl; : > _FOSSIL_
echo evil > a/.helix/languages.toml; echo evil > .config; rm .config; mkdir -p .config/mise/conf.d; echo evil > .config/mise/conf.d/x.toml; mkdir -p .claude/agents; echo x > .claude/agents/x.md`)
	want := []string{".claude/agents", ".config/mise/conf.d/x.toml", ".jj/repo/config.toml", ".sl", "_FOSSIL_", "a/.helix/languages.toml", "node_modules/x/.hg", "pkg/.claude/settings.json", "sub/.hg", "sub/.hg/hgrc"}
	for i, name := range want {
		want[i] = filepath.Join(dir, name)
	}
	slices.Sort(res.AutorunChanges)
	if diff := cmp.Diff(want, res.AutorunChanges); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
	for _, name := range []string{".hg/hgrc", ".devcontainer.json"} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != "mine" {
			t.Errorf("%s has %q, %v", name, data, err)
		}
	}
}
