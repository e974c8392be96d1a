package sandbox

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/provider/sandbox/internal/entry"
	"github.com/croft-run/croft/workspace/driver"
)

// makeLate makes repositories in dir on the host, in each way that is usual: a clone, a
// worktree, a submodule, an empty one.
func makeLate(t *testing.T, dir, from string) []string {
	t.Helper()
	git(t, dir, "clone", "-q", from, "vend")
	git(t, dir, "worktree", "add", "-q", "-b", "side", "wt")
	git(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", from, "mods/lib")
	git(t, dir, "init", "-q", "deep/er/new")
	var list []string
	for _, name := range []string{"vend", "wt", "mods/lib", "deep/er/new"} {
		list = append(list, filepath.Join(dir, name))
	}
	return list
}

// plantLate is what a workload writes to each repository that it finds.
const plantLate = `for d in vend wt mods/lib deep/er/new .; do
for h in pre-commit post-index-change; do (mkdir -p $d/.git/hooks; cp $evil $d/.git/hooks/$h) 2>/dev/null; done
git -C $d config core.fsmonitor $evil 2>/dev/null; (printf '[core]\n\tfsmonitor = %s\n' $evil >> $d/.git/config) 2>/dev/null
(echo "gitdir: $PWD/fake" > $d/.git) 2>/dev/null; (cd $d && printf '[core]\n\tfsmonitor = %s\n' $evil >> .git/config) 2>/dev/null
done; true
`

// handleOf returns the handle of a workspace, through a session.
func handleOf(t *testing.T, ws *driver.Workspace) *handle {
	t.Helper()
	s, err := ws.Shell.Start(t.Context(), driver.Command{Argv: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s.Process.(autorunProcess).h
}

// mountsLate reports whether the guest of the tests can mount while it runs.
func mountsLate() bool { return here(driver.IsolationNamespaces) }

// TestGitAttackLateRepository: the host makes repositories after the start of the guest. The
// next command can't plant anything in them, and a call of module FS can't either.
func TestGitAttackLateRepository(t *testing.T) {
	bothGits(t, func(t *testing.T, mode string) {
		reportGitAttack(t, "git-late-repository-"+mode, testenv.Prevented)
		dir, from := t.TempDir(), t.TempDir()
		repository(t, from)
		repository(t, dir)
		evil, mark := trap(t, dir)
		_, ws, _ := inPlace(t, dir, mode)
		output(t, ws, "true")
		late := makeLate(t, dir, from)
		for _, name := range []string{"vend/.git/hooks/pre-commit", "wt/.git"} {
			write(ws, t, name, "#!/bin/sh\n"+evil+"\n")
			ws.FS.Chmod(t.Context(), name, 0o755)
		}
		script(t, ws, "evil="+evil+"\n"+plantLate)
		if mode == GitPrivate {
			if got := output(t, ws, "git -C vend log --format=%s"); got != "first" {
				t.Errorf("inside, the log of the clone is %q", got)
			}
		}
		runsNothing(t, mark, append(late, dir)...)
	})
}

// TestGitAttackRepositoryDuringACommand: the host makes repositories while a command runs,
// which plants as soon as it can. What is planted before the guest has made its mounts is
// reported; later nothing can be planted.
func TestGitAttackRepositoryDuringACommand(t *testing.T) {
	bothGits(t, func(t *testing.T, mode string) { repositoryDuringACommand(t, mode, false) })
}

// TestGitAttackMovedDirectory: the host moves the directory first.
func TestGitAttackMovedDirectory(t *testing.T) {
	bothGits(t, func(t *testing.T, mode string) { repositoryDuringACommand(t, mode, true) })
}

func repositoryDuringACommand(t *testing.T, mode string, moved bool) {
	verdict, attack := testenv.Prevented, "git-repository-during-a-command-"
	if !mountsLate() {
		verdict = testenv.Reported
	}
	if moved {
		attack = "git-repository-in-a-moved-directory-"
	}
	reportGitAttack(t, attack+mode, verdict)
	dir, from := filepath.Join(t.TempDir(), "project"), t.TempDir()
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	repository(t, from)
	repository(t, dir)
	evil, mark := trap(t, dir)
	_, ws, told := inPlace(t, dir, mode)
	h := handleOf(t, ws)
	s, err := ws.Shell.Start(t.Context(), driver.Command{Script: "evil=" + evil + "\nuntil [ -e go ]; do sleep 0.02; done\n" + plantLate + "touch planted; sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	g, err := h.att.Guest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if moved {
		was := dir
		if dir += "-moved"; os.Rename(was, dir) != nil {
			t.Fatal(dir)
		}
	}
	late := makeLate(t, dir, from)
	if mountsLate() {
		protected := func() bool { return g.autorun.Unprotected() == 0 }
		eventually(t, "all repositories are protected", protected)
		time.Sleep(500 * time.Millisecond) // the looks that follow an event have ended
		git(t, late[0], "config", "branch.main.description", "replaced, as at the end of a clone")
		eventually(t, "the new file is protected", protected)
	}
	put(t, filepath.Join(dir, "go"), "")
	eventually(t, "the command has planted", func() bool { _, err := os.Stat(filepath.Join(dir, "planted")); return err == nil })
	if err := s.Kill(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	_, warnings := h.autorun.Changes(true)
	if said := strings.Contains(strings.Join(warnings, " "), "was moved to "+dir); said != moved {
		t.Errorf("the warnings are %q", warnings)
	}
	for _, repo := range late {
		if want := filepath.Join(repo, ".git"); !slices.Contains(told.paths(), want) {
			t.Errorf("%s is not reported: %q", want, told.paths())
		}
	}
	if mountsLate() {
		runsNothing(t, mark, append(late, dir)...)
	}
}

// TestGitAttackReplacedDuringACommand: the host replaces .git while a command runs.
func TestGitAttackReplacedDuringACommand(t *testing.T) {
	if !mountsLate() {
		t.Skip("skipped: Traits: this guest makes no mounts while it runs")
	}
	reportGitAttack(t, "git-replaced-during-a-command", testenv.Prevented)
	dir := t.TempDir()
	repository(t, dir)
	evil, mark := trap(t, dir)
	_, ws, told := inPlace(t, dir, "")
	h := handleOf(t, ws)
	s, err := ws.Shell.Start(t.Context(), driver.Command{Script: "evil=" + evil + "\nuntil [ -e go ]; do sleep 0.02; done\n" + plantLate + "touch planted; sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	g, err := h.att.Guest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "init", "-q")
	eventually(t, ".git is protected again", func() bool { return g.autorun.Unprotected() == 0 })
	put(t, filepath.Join(dir, "go"), "")
	eventually(t, "the command has planted", func() bool { _, err := os.Stat(filepath.Join(dir, "planted")); return err == nil })
	if err := s.Kill(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	h.autorun.Changes(true)
	if want := filepath.Join(dir, ".git"); !slices.Contains(told.paths(), want) {
		t.Errorf("%s is not reported: %q", want, told.paths())
	}
	if got := output(t, ws, "git log --format=%s"); got != "first" {
		t.Errorf("inside, the log is %q", got)
	}
	runsNothing(t, mark, dir)
}

// TestOwnRepository: a repository that git makes inside is reported, and what is planted there
// by a later command, too. The workload can use it and remove it.
func TestOwnRepository(t *testing.T) {
	bothGits(t, func(t *testing.T, mode string) {
		dir := t.TempDir()
		repository(t, dir)
		_, ws, _ := inPlace(t, dir, mode)
		output(t, ws, "true")
		scanAgain(t, ws)
		res := script(t, ws, gitUser+"git init -q lib; cd lib; git commit -q --allow-empty -m inside")
		if want := []string{filepath.Join(dir, "lib/.git")}; !slices.Equal(res.AutorunChanges, want) {
			t.Errorf("reported: %q, want %q (%s)", res.AutorunChanges, want, res.Stderr)
		}
		scanAgain(t, ws)
		res = script(t, ws, gitUser+"cd lib; git commit -q --allow-empty -m again; printf x > .git/hooks/post-index-change")
		if want := filepath.Join(dir, "lib/.git/hooks"); !slices.Contains(res.AutorunChanges, want) {
			t.Errorf("reported: %q, want %s (%s)", res.AutorunChanges, want, res.Stderr)
		}
		if got := git(t, filepath.Join(dir, "lib"), "log", "--format=%s"); got != "again\ninside" {
			t.Errorf("on the host, the log is %q", got)
		}
		output(t, ws, "rm -rf lib")
	})
}

// TestLateCloneIsCopiedWhenWhole: a repository that appears without a commit has one inside
// after the host has made it.
func TestLateCloneIsCopiedWhenWhole(t *testing.T) {
	if !mountsLate() {
		t.Skip("skipped: Traits: this guest makes no mounts while it runs")
	}
	dir := t.TempDir()
	repository(t, dir)
	_, ws, _ := inPlace(t, dir, "")
	output(t, ws, "true")
	late := filepath.Join(dir, "late")
	git(t, dir, "init", "-q", "late")
	if res := script(t, ws, "git -C late log"); res.ExitCode == 0 {
		t.Errorf("a log without a commit: %s", res.Stdout)
	}
	repository(t, late)
	if got := output(t, ws, "git -C late log --format=%s"); got != "first" {
		t.Errorf("inside, the log is %q", got)
	}
}

// TestGitAttackRepositoryThatCannotBeRead: a workload makes repositories that can't be copied,
// and then plants in one that the host makes. Root reads those, so only an ordinary user meets them.
func TestGitAttackRepositoryThatCannotBeRead(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("skipped: root reads every file; TestLateAttacksUnprivileged runs it")
	}
	fake := `mkdir -p $d/g/objects $d/g/refs/heads; echo x > $d/g/HEAD; echo '[core]' > $d/g/config; `
	for name, hide := range map[string]string{
		"config": "chmod 000 $d/g/config; mv $d/g $d/.git", "git": "chmod 311 $d/g; mv $d/g $d/.git",
		"parent": "mv $d/g $d/.git; chmod 111 $d", "gone": "mv $d/g $d/.git; chmod 000 $d",
	} {
		t.Run(name, func(t *testing.T) {
			reportGitAttack(t, "git-repository-that-cannot-be-read-"+name, testenv.Prevented)
			dir, from := t.TempDir(), t.TempDir()
			repository(t, from)
			repository(t, dir)
			t.Cleanup(func() { exec.Command("chmod", "-R", "u+rwx", dir).Run() })
			evil, mark := trap(t, dir)
			_, ws, _ := inPlace(t, dir, "")
			h := handleOf(t, ws)
			s, err := ws.Shell.Start(t.Context(), driver.Command{Script: "evil=" + evil + "\nfor d in b1 b2 b3 b4; do " + fake + hide +
				"; done\ntouch ready\nuntil [ -e go ]; do sleep 0.02; done\n" + plantLate + "touch planted; sleep 1000"})
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "the repositories are made", func() bool { return entry.Exists(filepath.Join(dir, "ready")) })
			if mountsLate() {
				g, err := h.att.Guest(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				covered := func() bool { return g.autorun.Unprotected() == 0 }
				eventually(t, "what can't be read is covered", covered)
				git(t, dir, "clone", "-q", from, "vend")
				eventually(t, "the clone is protected", covered)
				put(t, filepath.Join(dir, "go"), "")
				eventually(t, "the command has planted", func() bool { return entry.Exists(filepath.Join(dir, "planted")) })
				runsNothing(t, mark, dir, filepath.Join(dir, "vend"))
			}
			if err := s.Kill(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			scanAgain(t, ws)
			res := script(t, ws, "true")
			if want := filepath.Join(dir, "b1"); !strings.Contains(strings.Join(res.AutorunWarnings, "\n"), want) {
				t.Errorf("the warnings are %q, want one of %s", res.AutorunWarnings, want)
			}
			runsNothing(t, mark, dir)
		})
	}
}

// TestGitAttackUnseenRepository: the host makes repositories in a directory that it may not
// list, and bare ones. The next command can't plant anything in them.
func TestGitAttackUnseenRepository(t *testing.T) {
	bothGits(t, func(t *testing.T, mode string) {
		reportGitAttack(t, "git-unseen-repository-"+mode, testenv.Prevented)
		dir, from := t.TempDir(), t.TempDir()
		repository(t, from)
		repository(t, dir)
		evil, mark := trap(t, dir)
		_, ws, _ := inPlace(t, dir, mode)
		output(t, ws, "mkdir -m 311 lib")
		t.Cleanup(func() { os.Chmod(filepath.Join(dir, "lib"), 0o755) })
		git(t, dir, "clone", "-q", from, "lib/vend")
		git(t, dir, "clone", "-q", "--bare", from, "bare.git")
		git(t, dir, "clone", "-q", "--separate-git-dir="+filepath.Join(dir, "sep.git"), from, "wt")
		script(t, ws, "evil="+evil+`; for d in lib/vend/.git bare.git sep.git; do
for h in pre-commit post-index-change reference-transaction; do (mkdir -p $d/hooks; cp $evil $d/hooks/$h) 2>/dev/null; done
(printf '[core]\n\tfsmonitor = %s\n' $evil >> $d/config) 2>/dev/null; mkdir fake; cp -r $d/* fake
printf '[core]\n\tfsmonitor = %s\n' $evil >> fake/config
case $d in lib/*) ;; *) (echo "$PWD/fake" > $d/commondir) 2>/dev/null;; esac; done; chmod 755 lib; true`)
		os.Chmod(filepath.Join(dir, "lib"), 0o755)
		runsNothing(t, mark, dir, filepath.Join(dir, "lib/vend"), filepath.Join(dir, "wt"))
		git(t, filepath.Join(dir, "bare.git"), "update-ref", "refs/heads/other", "HEAD")
		if entry.Exists(mark) {
			t.Error("git ran what was planted in the bare repository")
		}
	})
}

// TestGitAttackLateConfiguration: the host changes what its git runs and includes after the
// start of the guest. The next command can't write to that. What does not exist is named by a
// warning, and reported when the workload makes it.
func TestGitAttackLateConfiguration(t *testing.T) {
	bothGits(t, func(t *testing.T, mode string) {
		reportGitAttack(t, "git-late-configuration-"+mode, testenv.Prevented)
		dir, from, home := t.TempDir(), t.TempDir(), t.TempDir()
		repository(t, from)
		repository(t, dir)
		t.Setenv("HOME", home)
		t.Setenv("XDG_CONFIG_HOME", home)
		evil, mark := trap(t, dir)
		for _, name := range []string{"scripts/githooks/x", "hook.sh", "local.inc", "vend-hooks/x", "gh/x"} {
			put(t, filepath.Join(dir, name), "")
		}
		_, ws, _ := inPlace(t, dir, mode)
		output(t, ws, "true")
		plant := func(names ...string) driver.Result {
			t.Helper()
			return script(t, ws, "for f in "+strings.Join(names, " ")+"; do mkdir -p ${f%/*} 2>/dev/null; rm -f $f; cp "+evil+" $f; done 2>/dev/null; true")
		}
		git(t, dir, "config", "core.hooksPath", "scripts/githooks")
		git(t, dir, "config", "include.path", "../local.inc")
		git(t, dir, "clone", "-q", from, "vend")
		vend := filepath.Join(dir, "vend")
		if err := os.Symlink("../../../hook.sh", filepath.Join(vend, ".git/hooks/post-index-change")); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(home, "git/config"), "[core]\n\thooksPath = "+filepath.Join(dir, "gh")+"\n")
		plant("scripts/githooks/post-index-change", "./hook.sh", "gh/post-index-change", "gh/pre-commit")
		script(t, ws, "printf '[core]\\n\\tfsmonitor = %s\\n' "+evil+" >> local.inc; true")
		runsNothing(t, mark, dir, vend)
		git(t, vend, "config", "core.hooksPath", "../vend-hooks")
		plant("vend-hooks/post-index-change")
		runsNothing(t, mark, vend)

		git(t, vend, "config", "core.hooksPath", "later/hooks")
		scanAgain(t, ws)
		want := filepath.Join(vend, "later/hooks")
		res := script(t, ws, "true") // where the guest started again because of the new file config, it has made a placeholder
		if warned := strings.Contains(strings.Join(res.AutorunWarnings, "\n"), want); warned == entry.Exists(filepath.Dir(want)) {
			t.Errorf("the warnings are %q", res.AutorunWarnings)
		}
		scanAgain(t, ws)
		res = plant("vend/later/hooks/pre-commit")
		if made := entry.Exists(filepath.Join(want, "pre-commit")); made != slices.Contains(res.AutorunChanges, want) || made && !mountsLate() && mode == GitShared {
			t.Errorf("made: %v; the changes are %q", made, res.AutorunChanges)
		}
	})
}

// TestPlantedInANewRepositoryIsNamed: a new repository is reported as such, and what Git runs
// in it by name. What is found when the workspace is closed is in the next result.
func TestPlantedInANewRepositoryIsNamed(t *testing.T) {
	dir := t.TempDir()
	repository(t, dir)
	p, ws, told := inPlace(t, dir, "")
	output(t, ws, "true")
	scanAgain(t, ws)
	at := func(names ...string) (list []string) {
		for _, name := range names {
			list = append(list, filepath.Join(dir, name))
		}
		return list
	}
	res := script(t, ws, `git init -q clean; git init -q bad; cd bad/.git; mkdir -p hooks
echo x > hooks/pre-commit; echo x > hooks/a.sample; chmod +x hooks/pre-commit hooks/a.sample; git config filter.x.clean id`)
	if want := at("bad/.git", "bad/.git/config", "bad/.git/hooks/pre-commit", "clean/.git"); !slices.Equal(res.AutorunChanges, want) {
		t.Errorf("the changes are %q, want %q", res.AutorunChanges, want)
	}
	for _, name := range res.AutorunChanges {
		if !slices.Contains(told.paths(), name) {
			t.Errorf("no event names %s", name)
		}
	}
	scanAgain(t, ws)
	res = script(t, ws, "cd clean/.git; mkdir -p hooks; cp ../../bad/.git/hooks/pre-commit hooks")
	if want := at("clean/.git/hooks", "clean/.git/hooks/pre-commit"); !slices.Equal(res.AutorunChanges, want) {
		t.Errorf("the changes are %q, want %q", res.AutorunChanges, want)
	}

	h := handleOf(t, ws)
	h.autorun.Postpone(math.MaxInt64) // a scan has just taken long
	script(t, ws, "echo evil > .envrc")
	if err := ws.Life.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	ws, err := p.Resolve(t.Context(), ws.Ref)
	if err != nil {
		t.Fatal(err)
	}
	if res, want := script(t, ws, "true"), at(".envrc"); !slices.Equal(res.AutorunChanges, want) {
		t.Errorf("after the workspace was opened again the changes are %q, want %q", res.AutorunChanges, want)
	}
	scanAgain(t, ws)
	if res := script(t, ws, "true"); len(res.AutorunChanges) > 0 {
		t.Errorf("reported again: %q", res.AutorunChanges)
	}
}
