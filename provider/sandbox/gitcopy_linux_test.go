package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/provider/sandbox/internal/entry"
	"github.com/croft-run/croft/provider/sandbox/internal/gitdir"
	"github.com/croft-run/croft/workspace/driver"
)

// gitUser makes commits possible inside.
const gitUser = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=protocol.file.allow GIT_CONFIG_VALUE_0=always\nset -e\n"

// trap is a program of the workload, with the mark that it leaves when the host runs it.
func trap(t *testing.T, dir string) (evil, mark string) {
	t.Helper()
	evil, mark = filepath.Join(dir, "evil"), filepath.Join(t.TempDir(), "ran")
	put(t, evil, "#!/bin/sh\necho ran >> "+mark+"\n")
	if err := os.Chmod(evil, 0o755); err != nil {
		t.Fatal(err)
	}
	return evil, mark
}

// runsNothing uses the repositories on the host, and fails if that runs a trap.
func runsNothing(t *testing.T, mark string, repos ...string) {
	t.Helper()
	for _, repo := range repos {
		put(t, filepath.Join(repo, "new.txt"), "new")
		for _, args := range [][]string{{"status"}, {"add", "new.txt"}, {"commit", "-qm", "second"}} {
			tryGit(t, repo, args...) // what matters is what it runs
		}
	}
	if data, err := os.ReadFile(mark); err == nil {
		t.Errorf("the host's git ran a program of the workload: %q", data)
	}
}

// TestPrivateGitWorks: inside, git works as usual; the host's repository stays as it is, to
// the byte.
func TestPrivateGitWorks(t *testing.T) {
	dir := t.TempDir()
	top := filepath.Join(dir, "top")
	repository(t, filepath.Join(dir, "lib"))
	repository(t, top)
	git(t, top, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", filepath.Join(dir, "lib"), "mods/lib")
	git(t, top, "commit", "-qm", "with a submodule")
	git(t, top, "worktree", "add", "-q", "-b", "side", filepath.Join(top, "side"))
	git(t, top, "repack", "-adq")
	put(t, filepath.Join(top, "a.txt"), "changed")
	state := func() string {
		text := digest(t, filepath.Join(top, ".git"))
		for _, name := range []string{"side/.git", "mods/lib/.git"} {
			data, err := os.ReadFile(filepath.Join(top, name))
			if err != nil {
				t.Fatal(err)
			}
			text += string(data)
		}
		return text
	}
	before := state()
	_, ws, _ := inPlace(t, top, "")
	got := output(t, ws, gitUser+`git status --porcelain
git stash -q; git stash pop -q
git add a.txt; git commit -qm second; git checkout -qb topic; git branch --list
git log --format=%s -2
git submodule status | cut -c1,42-
(cd mods/lib; echo x > x; git add x; git commit -qm inner; git log --format=%s -1)
(cd side; git status --porcelain; echo y > y; git add y; git commit -qm sideways; git log --format=%s -1)
git worktree add -q wt; git -C wt log --format=%s -1
git gc -q; git fsck --no-progress --no-dangling 2>&1; git config user.name inside; git config user.name; echo x > .git/hooks/pre-commit`)
	want := `M a.txt
?? side/
  main
+ side
* topic
second
with a submodule
  mods/lib (heads/main)
inner
sideways
second
inside`
	got = strings.ReplaceAll(got, "master", "main")
	if got != want {
		t.Errorf("inside:\n%s\nwant:\n%s", got, want)
	}
	if after := state(); after != before {
		t.Errorf("the host's repository has changed:\n%s", cmp.Diff(strings.Split(before, "\n"), strings.Split(after, "\n")))
	}
}

// TestPrivateGitStays: the copy and its commits are there for the next process and the next
// guest, and GitDirs says where.
func TestPrivateGitStays(t *testing.T) {
	dir := t.TempDir()
	repository(t, dir)
	p, ws, _ := inPlace(t, dir, "")
	id := output(t, ws, gitUser+"echo b > b; git add b; git commit -qm inside; git rev-parse HEAD")
	put(t, filepath.Join(dir, "c"), "c")
	git(t, dir, "add", "c")
	git(t, dir, "commit", "-qm", "outside")
	list, err := ws.FS.GitDirs(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("got %+v, %v", list, err)
	}
	g := list[0]
	if g.Path != filepath.Join(dir, ".git") || g.Host != g.Path {
		t.Errorf("the copy is of %+v", g)
	}
	if _, err := os.Stat(filepath.Join(g.Dir, "objects", id[:2], id[2:])); err != nil {
		t.Errorf("the commit is not in the copy: %v", err)
	}
	if first := git(t, dir, "rev-parse", "HEAD~1"); err == nil {
		if _, err := os.Stat(filepath.Join(g.Objects, first[:2], first[2:])); err != nil {
			t.Errorf("the host's commit is not among the borrowed objects: %v", err)
		}
	}
	// A new guest, of another process.
	if err := ws.Life.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.endGuest(t.Context(), p.store.Path(idOf(t, ws))); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(p.store.Path(idOf(t, ws)), gitdir.Name, ".new-x", "git", "HEAD"), "left by a crash")
	again, err := p.Resolve(t.Context(), ws.Ref)
	if err != nil {
		t.Fatal(err)
	}
	if got := output(t, again, "git log --format=%s"); got != "inside\nfirst" {
		t.Errorf("the log is %q", got)
	}
	if _, err := os.Stat(filepath.Join(p.store.Path(idOf(t, ws)), gitdir.Name, ".new-x")); err == nil {
		t.Error("an incomplete copy is left")
	}
	if err := again.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := git(t, dir, "fsck", "--no-progress"); got != "" {
		t.Errorf("the host's repository: %s", got)
	}
}

// TestPrivateGitOfObjects: the hard links of the host's objects can't be written inside.
func TestPrivateGitOfObjects(t *testing.T) {
	dir := t.TempDir()
	repository(t, dir)
	git(t, dir, "repack", "-adq")
	before := digest(t, filepath.Join(dir, ".git"))
	_, ws, _ := inPlace(t, dir, "")
	got := output(t, ws, `for f in $(find `+gitdir.Inside+`/ -type f); do chmod 666 $f 2>/dev/null && echo chmod $f; (echo x >> $f) 2>/dev/null && echo wrote $f; done
mv `+gitdir.Inside+`/*/objects `+gitdir.Inside+`/x 2>/dev/null && echo moved; ls `+gitdir.Inside+`/*/objects/0/pack | grep -c pack$`)
	if got != "1" {
		t.Errorf("inside: %s", got)
	}
	if digest(t, filepath.Join(dir, ".git")) != before {
		t.Error("the host's objects have changed")
	}
}

// TestPrivateGitFiles: a worktree and a submodule whose repository lies elsewhere work by
// themselves; a .git file that names a repository it does not belong to shows nothing.
func TestPrivateGitFiles(t *testing.T) {
	dir := t.TempDir()
	main, tree, other := filepath.Join(dir, "main"), filepath.Join(dir, "tree"), filepath.Join(dir, "other")
	repository(t, filepath.Join(dir, "lib"))
	repository(t, other)
	put(t, filepath.Join(other, "secret"), "secret")
	git(t, other, "add", "secret")
	git(t, other, "commit", "-qm", "secret")
	repository(t, main)
	git(t, main, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", filepath.Join(dir, "lib"), "lib")
	git(t, main, "commit", "-qm", "with a submodule")
	git(t, main, "worktree", "add", "-q", "-b", "side", tree)
	before := digest(t, filepath.Join(main, ".git"))
	for at, want := range map[string]string{tree: "inside\nwith a submodule\nfirst\n", filepath.Join(main, "lib"): "inside\nfirst\n"} {
		_, ws, _ := inPlace(t, at, "")
		got := output(t, ws, gitUser+"echo i > i; git add i; git commit -qm inside; git log --format=%s; git status --porcelain; rm i; git rev-parse --show-toplevel")
		if got != want+at {
			t.Errorf("%s: inside:\n%s\nwant:\n%s", at, got, want+at)
		}
		list, err := ws.FS.GitDirs(t.Context())
		if err != nil || len(list) != 1 || (list[0].Worktree != "") != (at == tree) {
			t.Errorf("%s: the copies are %+v, %v", at, list, err)
		}
	}
	if digest(t, filepath.Join(main, ".git")) != before {
		t.Error("the host's repository has changed")
	}
	// What a workload can write before the next guest starts.
	fake := filepath.Join(dir, "fake")
	put(t, filepath.Join(fake, "a/.git"), "gitdir: "+other+"/.git\n")
	put(t, filepath.Join(fake, "b/.git"), "gitdir: ../w/worktrees/b\n")
	for name, content := range map[string]string{"HEAD": "ref: refs/heads/main\n", "commondir": other + "/.git\n", "gitdir": fake + "/b/.git\n"} {
		put(t, filepath.Join(fake, "w/worktrees/b", name), content)
	}
	put(t, filepath.Join(fake, "c/.git/HEAD"), "ref: refs/heads/main\n")
	put(t, filepath.Join(fake, "c/.git/objects/info/alternates"), other+"/.git/objects\n")
	if err := os.Symlink(other+"/.git/refs", filepath.Join(fake, "c/.git/refs")); err != nil {
		t.Fatal(err)
	}
	_, ws, _ := inPlace(t, fake, "")
	id := git(t, other, "rev-parse", "HEAD")
	res := script(t, ws, "for d in a b c; do git -C $d log; git -C $d cat-file -p "+id+"; done; find "+gitdir.Inside+" -type f | xargs grep -l secret; find "+gitdir.Inside+" | grep "+id[2:])
	if len(res.Stdout) > 0 {
		t.Errorf("another repository of the user is seen: %s", res.Stdout)
	}
}

// TestPrivateGitRefusesSymlinks: a .git that can't be hidden is refused.
func TestPrivateGitRefusesSymlinks(t *testing.T) {
	dir := t.TempDir()
	repository(t, filepath.Join(dir, "real"))
	put(t, filepath.Join(dir, "sub/x"), "x")
	if err := os.Symlink("../real/.git", filepath.Join(dir, "sub/.git")); err != nil {
		t.Fatal(err)
	}
	_, ws, _ := inPlace(t, dir, "")
	_, err := ws.Shell.Run(t.Context(), driver.Command{Script: "true"})
	if fault.Of(err) == "" || !strings.Contains(err.Error(), "sub/.git is neither a directory nor a file") {
		t.Errorf("got %v", err)
	}
}

// TestPrivateGitWithoutCredentials: what the host's configuration has of them stays there.
func TestPrivateGitWithoutCredentials(t *testing.T) {
	dir := t.TempDir()
	repository(t, dir)
	git(t, dir, "remote", "add", "origin", "https://me:tok1@example.com/x.git")
	git(t, dir, "config", "http.https://example.com/.extraheader", "AUTHORIZATION: basic tok2")
	git(t, dir, "config", "url.https://tok3@example.com/.insteadOf", "ex:")
	git(t, dir, "config", "remote.up.url", "ssh://git@example.com/x.git")
	git(t, dir, "config", "sendemail.smtpPass", "tok1")
	put(t, filepath.Join(dir, ".git/config.bak"), "[imap]\n\tpass = tok2\n[remote \"o\"]\n\turl = \"https://u:\\\"tok3@h/x\"\n")
	plantGitCredentials(t, dir)
	_, ws, _ := inPlace(t, dir, "")
	got := output(t, ws, `grep -r "tok[123]" .git `+gitdir.Inside+`; git remote get-url origin; git remote get-url up; git status --porcelain`)
	if got != "https://example.com/x.git\nssh://git@example.com/x.git" {
		t.Errorf("inside: %s", got)
	}
}

// plantGitCredentials writes tok1, tok2 and tok3 to files of the repository in dir that the user's git
// may have written them to.
func plantGitCredentials(t *testing.T, dir string) {
	t.Helper()
	git(t, dir, "config", "remote.ssh.url", "ssh://u:tok1@example.com/x.git")
	git(t, dir, "config", "credential.helper", "!f() { echo password=tok2; }; f")
	git(t, dir, "config", "x.apiKey", "tok3")
	put(t, filepath.Join(dir, ".git/git-credentials"), "https://u:tok1@h")
	log, err := os.OpenFile(filepath.Join(dir, ".git/logs/HEAD"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	id := strings.Repeat("0", 40)
	_, err = log.WriteString(id + " " + id + " a <a@b> 1 +0000\tclone: from https://u:tok1@h/x\n")
	if err := errors.Join(err, log.Close()); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, ".git/FETCH_HEAD"), id+"\t\tbranch 'x' of https://u:tok2@h/x\n")
	put(t, filepath.Join(dir, ".git/remotes/old"), "URL: https://u:tok1@h/x\n")
	put(t, filepath.Join(dir, ".git/branches/old"), "https://u:tok1@h/x#main\n")
	put(t, filepath.Join(dir, ".git/modules/m/HEAD"), "ref: refs/heads/x\n")
	put(t, filepath.Join(dir, ".git/modules/m/config"), "[remote \"o\"]\n\turl = https://u:tok1@h/x\n")
	put(t, filepath.Join(dir, ".git/modules/m/logs/HEAD"), id+" "+id+" a <a@b> 1 +0000\tpull https://u:tok1@h/x: Fast-forward\n")
}

// TestTemplateWithoutGitCredentials: so it is with a directory of the user as template, which is not
// captured.
func TestTemplateWithoutGitCredentials(t *testing.T) {
	dir := t.TempDir()
	repository(t, dir)
	git(t, dir, "remote", "add", "origin", "https://me:tok1@example.com/x.git")
	plantGitCredentials(t, dir)
	put(t, filepath.Join(dir, "bare/HEAD"), "x")
	put(t, filepath.Join(dir, "bare/objects/x"), "x")
	put(t, filepath.Join(dir, "bare/refs/x"), "x")
	put(t, filepath.Join(dir, "bare/config"), "[remote \"o\"]\n\turl = https://u:tok1@h/x\n")
	before := digest(t, dir)
	ws := open(t, newProvider(t, t.TempDir()), func(s *driver.Spec) { s.From.Template = dir })
	got := output(t, ws, `grep -r "tok[123]" . ; git remote get-url origin; git config x.y z; git config x.y; git status --porcelain -uno; stat -c %a .git .git/config`)
	if want := "https://example.com/x.git\nz\n" + modes(t, dir, ".git", ".git/config"); got != want {
		t.Errorf("inside: %s", got)
	}
	if digest(t, dir) != before {
		t.Error("the directory has changed")
	}
}

func TestTemplateUnprivileged(t *testing.T) { asNobody(t, "^TestTemplateWithoutGitCredentials$") }

// modes returns the modes of files, as stat prints them.
func modes(t *testing.T, dir string, names ...string) string {
	t.Helper()
	var list []string
	for _, name := range names {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%o", info.Mode().Perm()))
	}
	return strings.Join(list, "\n")
}

// gitAttackTests are the attacks on repositories and autorun files of a directory in place.
const gitAttackTests = "^TestGitAttack(HostRename|GitReplaced|NamesOfARepository|Mode|OtherNames|SymlinkReplaced|PlantedRepository|SameSizeAndTime|FailedScan|Leftovers|Flood|SymlinkInGit|SparseGit)$"

// lateAttackTests are those on repositories that the host makes while the guest runs.
const lateAttackTests = "^TestGitAttack(LateRepository|RepositoryDuringACommand|ReplacedDuringACommand|RepositoryThatCannotBeRead|UnseenRepository|LateConfiguration)$"

//croft:slow
func TestGitAttacksUnprivileged(t *testing.T) { asNobody(t, gitAttackTests) }

//croft:slow
func TestGitAttacksGVisor(t *testing.T) { atLevel(t, driver.IsolationGVisor, gitAttackTests) }

//croft:slow
func TestGitAttacksBubblewrap(t *testing.T) { atLevel(t, driver.IsolationBubblewrap, gitAttackTests) }

//croft:slow
func TestLateAttacksUnprivileged(t *testing.T) { asNobody(t, lateAttackTests) }

//croft:slow
func TestLateAttacksGVisor(t *testing.T) { atLevel(t, driver.IsolationGVisor, lateAttackTests) }

func TestLateAttacksBubblewrap(t *testing.T) { atLevel(t, driver.IsolationBubblewrap, lateAttackTests) }

// TestGitAttacksRefused: levels that can't hide a repository refuse the directory.
func TestGitAttacksRefused(t *testing.T) {
	for level, mode := range map[driver.Isolation]string{driver.IsolationProcess: GitPrivate, driver.IsolationGVisor: GitShared} {
		t.Run(string(level), func(t *testing.T) {
			testenv.ReportAttack(t, "git-in-place-"+mode, string(level), testenv.Prevented, "a directory with a repository is refused")
			dir := t.TempDir()
			repository(t, dir)
			_, ws := openAt(t, level, func(s *driver.Spec) { s.Dir, s.Config = dir, gitOption(mode) })
			if _, err := ws.Shell.Run(t.Context(), driver.Command{Script: "true"}); err == nil || !strings.Contains(err.Error(), "contains autorun files") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// reportGitAttack logs an attack at the level of the tests.
func reportGitAttack(t *testing.T, name string, v testenv.Verdict) {
	t.Helper()
	testenv.ReportAttack(t, name, string(levelHere()), v, "")
}

// TestGitAttackHostRename: programs of the host replace files by renames while the sandbox is
// live, which detaches mounts; the workload writes afterwards.
func TestGitAttackHostRename(t *testing.T) {
	bothGits(t, func(t *testing.T, mode string) {
		reportGitAttack(t, "git-host-rename-"+mode, testenv.Prevented)
		dir := t.TempDir()
		repository(t, dir)
		put(t, filepath.Join(dir, ".envrc"), "mine")
		put(t, filepath.Join(dir, "sub/a"), "a")
		evil, mark := trap(t, dir)
		_, ws, _ := inPlace(t, dir, mode)
		output(t, ws, "true")
		git(t, dir, "config", "x.y", "z") // writes config.lock and renames it
		put(t, filepath.Join(dir, ".envrc.new"), "mine too")
		if err := os.Rename(filepath.Join(dir, ".envrc.new"), filepath.Join(dir, ".envrc")); err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(filepath.Join(dir, ".git/config"))
		if err != nil {
			t.Fatal(err)
		}
		script(t, ws, "printf '[core]\\n\\tfsmonitor = "+evil+"\\n' >> .git/config; git config core.fsmonitor "+evil+"; echo evil > .envrc; cp evil .git/hooks/pre-commit")
		if err := write(ws, t, ".envrc", "evil"); err == nil {
			t.Error("module FS writes an autorun file")
		}
		if after, err := os.ReadFile(filepath.Join(dir, ".git/config")); err != nil || string(after) != string(before) {
			t.Errorf("the configuration is %q, %v", after, err)
		}
		if data, err := os.ReadFile(filepath.Join(dir, ".envrc")); err != nil || string(data) != "mine too" {
			t.Errorf("the autorun file is %q, %v", data, err)
		}
		runsNothing(t, mark, dir)
	})
}

// TestGitAttackGitReplaced: the host replaces .git itself. While another command runs, the
// copy is mounted again, or the next command is refused.
func TestGitAttackGitReplaced(t *testing.T) {
	reportGitAttack(t, "git-replaced", testenv.Prevented)
	dir := t.TempDir()
	repository(t, dir)
	evil, mark := trap(t, dir)
	_, ws, _ := inPlace(t, dir, "")
	s, err := ws.Shell.Start(t.Context(), driver.Command{Script: "sleep 100"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, ".git"), filepath.Join(t.TempDir(), "old")); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "init", "-q")
	attack := "git config core.fsmonitor " + evil + "; cp evil .git/hooks/pre-commit"
	_, err = ws.Shell.Run(t.Context(), driver.Command{Script: attack})
	if refused := fault.Of(err) == fault.WrongState && strings.Contains(err.Error(), ".git was replaced on the host"); refused == mountsLate() || !refused && err != nil {
		t.Errorf("a command beside another one: %v", err)
	}
	if err := s.Kill(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	s.Wait(t.Context())
	if got := output(t, ws, attack+"; git log --format=%s"); got != "first" {
		t.Errorf("inside, the log is %q", got)
	}
	runsNothing(t, mark, dir)
}

// TestGitAttackNamesOfARepository: entries that look like a repository do not end the scan.
func TestGitAttackNamesOfARepository(t *testing.T) {
	bothGits(t, func(t *testing.T, mode string) {
		reportGitAttack(t, "git-names-of-a-repository-"+mode, testenv.Prevented)
		dir := t.TempDir()
		repository(t, dir)
		repository(t, filepath.Join(dir, "sub"))
		for _, at := range []string{dir, filepath.Join(dir, "sub")} {
			put(t, filepath.Join(at, "HEAD"), "ref: refs/heads/main\n")
			put(t, filepath.Join(at, "objects/x"), "x")
			put(t, filepath.Join(at, "refs/x"), "x")
		}
		put(t, filepath.Join(dir, ".vscode/tasks.json"), "mine")
		evil, mark := trap(t, dir)
		_, ws, _ := inPlace(t, dir, mode)
		script(t, ws, "for d in . sub; do (cd $d; git config core.fsmonitor "+evil+"; printf '[core]\\n\\tfsmonitor = "+evil+"\\n' >> .git/config; cp "+evil+" .git/hooks/pre-commit); done; echo evil > .vscode/tasks.json")
		if data, err := os.ReadFile(filepath.Join(dir, ".vscode/tasks.json")); err != nil || string(data) != "mine" {
			t.Errorf("the tasks are %q, %v", data, err)
		}
		runsNothing(t, mark, dir, filepath.Join(dir, "sub"))
	})
}

// TestGitAttackMode: what a session makes unreadable is not open to the next one.
func TestGitAttackMode(t *testing.T) {
	bothGits(t, func(t *testing.T, mode string) {
		reportGitAttack(t, "git-mode-"+mode, testenv.Prevented)
		dir := t.TempDir()
		for _, name := range []string{"sub", "deep/er", "hidden/sub"} {
			repository(t, filepath.Join(dir, name))
		}
		evil, mark := trap(t, dir)
		p, ws, _ := inPlace(t, dir, mode)
		output(t, ws, "chmod 000 sub/.git; chmod 000 deep hidden || true")
		if err := ws.Life.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
		// And on the host, where the user is the same.
		for _, name := range []string{"deep/er/.git", "hidden", "sub/.git"} {
			if err := os.Chmod(filepath.Join(dir, name), 0); err != nil && !os.IsPermission(err) {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.Chmod(filepath.Join(dir, name), 0o755) })
		}
		told := new(events)
		p.cfg.Events = told
		ws = open(t, p, func(s *driver.Spec) { s.Dir, s.Config = dir, gitOption(mode) })
		res := script(t, ws, "chmod 755 deep hidden deep/er/.git sub/.git hidden/sub/.git; for d in sub deep/er hidden/sub; do (cd $d && printf '[core]\\n\\tfsmonitor = "+evil+"\\n' >> .git/config; mkdir -p .git/hooks; cp "+evil+" .git/hooks/pre-commit); done")
		if os.Geteuid() != 0 && (len(res.AutorunChanges) == 0 || len(told.paths()) == 0) {
			t.Errorf("what can't be read is not reported: %q, events %q", res.AutorunChanges, told.paths())
		}
		for _, name := range []string{"hidden", "deep", "sub/.git", "deep/er/.git", "hidden/sub/.git"} {
			if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		runsNothing(t, mark, filepath.Join(dir, "sub"), filepath.Join(dir, "deep/er"), filepath.Join(dir, "hidden/sub"))
	})
}

// TestGitAttackOtherNames: what the host's Git runs or includes by another name can't be
// written by that name.
func TestGitAttackOtherNames(t *testing.T) {
	for name, r := range map[string]struct{ make, plant string }{
		"hook a symlink":           {`mkdir s; printf '#!/bin/sh\n' > s/h; chmod +x s/h; mkdir -p .git/hooks; ln -s "$PWD/s/h" .git/hooks/pre-commit`, `cat $evil > s/h; rm -f s/h; cp $evil s/h`},
		"hooks a symlink":          {`rm -rf .git/hooks; mkdir -p s; ln -s ../s .git/hooks`, `cp $evil s/pre-commit`},
		"hook a hard link":         {`mkdir -p s .git/hooks; printf '#!/bin/sh\n' > s/h; chmod +x s/h; ln s/h .git/hooks/pre-commit`, `cat $evil > s/h`},
		"config a hard link":       {`ln .git/config c`, `printf '[core]\n\tfsmonitor = %s\n' $evil >> c`},
		"include by absolute path": {`: > inc; git config include.path "$PWD/inc"`, `printf '[core]\n\tfsmonitor = %s\n' $evil > inc; rm -f inc; printf '[core]\n\tfsmonitor = %s\n' $evil > inc`},
		"include by a symlink":     {`mkdir d; : > d/inc; ln -s d l; git config include.path ../l/inc`, `printf '[core]\n\tfsmonitor = %s\n' $evil > l/inc; rm -f d/inc; printf '[core]\n\tfsmonitor = %s\n' $evil > d/inc`},
		"include a hard link":      {`: > inc; ln inc c; git config include.path "../inc"`, `printf '[core]\n\tfsmonitor = %s\n' $evil > c`},
		"include by a symlink to the directory": {`: > inc; ln -s "$PWD" "$PWD.link"; git config include.path "$PWD.link/inc"`,
			`printf '[core]\n\tfsmonitor = %s\n' $evil > inc`},
		"hooksPath by a symlink": {`mkdir h; ln -s h l; git config core.hooksPath l`, `cp $evil l/pre-commit; cp $evil h/pre-commit`},
	} {
		t.Run(name, func(t *testing.T) {
			bothGits(t, func(t *testing.T, mode string) {
				if mode == GitShared && name == "hooks a symlink" {
					return // refused
				}
				reportGitAttack(t, "git-"+strings.ReplaceAll(name, " ", "-")+"-"+mode, testenv.Prevented)
				dir := filepath.Join(t.TempDir(), "p")
				repository(t, dir)
				shellOutside(t, dir, r.make)
				evil, mark := trap(t, dir)
				_, ws, _ := inPlace(t, dir, mode)
				script(t, ws, "evil="+evil+"\n"+r.plant)
				runsNothing(t, mark, dir)
			})
		})
	}
}

// TestGitAttackSymlinkReplaced: a symlink on the way to an included file can't be held; that
// it was replaced is reported.
func TestGitAttackSymlinkReplaced(t *testing.T) {
	reportGitAttack(t, "git-symlink-replaced", testenv.Reported)
	dir := t.TempDir()
	repository(t, dir)
	shellOutside(t, dir, `mkdir d; : > d/inc; ln -s d l; git config include.path ../l/inc`)
	_, ws, _ := inPlace(t, dir, "")
	res := script(t, ws, "rm l; mkdir l; echo evil > l/inc")
	if got, want := strings.Join(res.AutorunChanges, " "), filepath.Join(dir, "l"); got != want {
		t.Errorf("reported: %q, want %q", got, want)
	}
}

// TestGitAttackPlantedRepository: directories that Git takes for repositories are reported,
// also those that name their objects elsewhere.
func TestGitAttackPlantedRepository(t *testing.T) {
	reportGitAttack(t, "git-planted-repository", testenv.Reported)
	dir := t.TempDir()
	put(t, filepath.Join(dir, "a"), "a")
	_, ws, told := inPlace(t, dir, "")
	res := script(t, ws, "mkdir -p p x/objects x/refs; echo 'ref: refs/heads/main' > p/HEAD; echo ../x > p/commondir; printf '[core]\\n\\tfsmonitor = ./evil\\n' > x/config")
	want := filepath.Join(dir, "p")
	if got := strings.Join(res.AutorunChanges, " "); !strings.Contains(got+" ", want+" ") {
		t.Errorf("reported: %q, want %s", got, want)
	}
	if got := strings.Join(told.paths(), " "); !strings.Contains(got+" ", want+" ") {
		t.Errorf("events: %q, want %s", got, want)
	}
}

// TestGitAttackSameSizeAndTime: a change is detected by the content.
func TestGitAttackSameSizeAndTime(t *testing.T) {
	reportGitAttack(t, "autorun-same-size-and-time", testenv.Reported)
	dir := t.TempDir()
	put(t, filepath.Join(dir, "sub/.envrc"), "mine")
	put(t, filepath.Join(dir, "sub/.vscode/tasks.json"), "mine")
	_, ws, _ := inPlace(t, dir, "")
	res := script(t, ws, "cd sub; for f in .envrc .vscode/tasks.json; do touch -r $f t; printf evil > $f; touch -r t $f; done")
	want := filepath.Join(dir, "sub/.envrc") + " " + filepath.Join(dir, "sub/.vscode")
	if got := strings.Join(res.AutorunChanges, " "); got != want {
		t.Errorf("reported: %q, want %q", got, want)
	}
}

// TestPrivateGitThrowaway: also a workspace for one command, and a directory beside it.
func TestPrivateGitThrowaway(t *testing.T) {
	dir, beside := t.TempDir(), t.TempDir()
	repository(t, dir)
	repository(t, beside)
	if here(driver.IsolationProcess) {
		t.Skip("skipped: Traits: no directory in place with files that others run later")
	}
	before := digest(t, filepath.Join(dir, ".git")) + digest(t, filepath.Join(beside, ".git"))
	cfg, err := json.Marshal(Options{Throwaway: true, Binds: []Bind{{Dir: beside}}})
	if err != nil {
		t.Fatal(err)
	}
	ws := open(t, newProvider(t, t.TempDir()), func(s *driver.Spec) { s.Dir, s.Config = dir, cfg })
	if res := script(t, ws, "git status"); len(res.PrivateCommits) > 0 {
		t.Errorf("commits are reported that there are not: %q", res.PrivateCommits)
	}
	for range 2 {
		res := script(t, ws, gitUser+"for d in "+dir+" "+beside+"; do cd $d; git commit -q --allow-empty -m inside; done")
		slices.Sort(res.PrivateCommits)
		want := []string{filepath.Join(dir, ".git"), filepath.Join(beside, ".git")}
		slices.Sort(want)
		if !slices.Equal(res.PrivateCommits, want) {
			t.Errorf("commits are reported in %q, want %q", res.PrivateCommits, want)
		}
	}
	if list, err := ws.FS.GitDirs(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("the copies are %+v, %v", list, err)
	}
	if digest(t, filepath.Join(dir, ".git"))+digest(t, filepath.Join(beside, ".git")) != before {
		t.Error("the host's repositories have changed")
	}
}

// TestGitOptionIsChecked: other values are refused.
func TestGitOptionIsChecked(t *testing.T) {
	_, err := newProvider(t, t.TempDir()).Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind, Config: gitOption("none")})
	if fault.Of(err) != fault.InvalidArgument {
		t.Errorf("got %v", err)
	}
}

// BenchmarkCopyGit copies a repository of 10,000 packed objects.
func BenchmarkCopyGit(b *testing.B) {
	dir := b.TempDir()
	repository(b, dir)
	for i := range 5000 {
		put(b, filepath.Join(dir, fmt.Sprintf("d%d/f%d", i%100, i)), fmt.Sprint(i))
	}
	git(b, dir, "add", ".")
	git(b, dir, "commit", "-qm", "many")
	git(b, dir, "repack", "-adq")
	fd, err := entry.OpenDir(unix.AT_FDCWD, filepath.Join(dir, ".git"))
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Close(fd)
	copies := b.TempDir()
	for b.Loop() {
		if _, err := (&gitdir.Copies{Dir: copies}).Get(gitdir.Source{FD: fd, Host: dir, Path: dir}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestPrivateGitIsHistory: a snapshot of a directory in place contains no repository, and a
// rollback changes none: neither the host's nor the private copy.
func TestPrivateGitIsHistory(t *testing.T) {
	bothGits(t, func(t *testing.T, mode string) {
		dir := t.TempDir()
		repository(t, dir)
		_, ws, _ := inPlace(t, dir, mode)
		output(t, ws, "echo one > work")
		info, err := ws.Life.Snapshot.Snapshot(t.Context(), &driver.SnapshotOptions{Name: "one"})
		if err != nil {
			t.Fatal(err)
		}
		output(t, ws, gitUser+"echo two > work; git add work; git commit -qm inside; mkdir new; echo x > new/x; git init -q new/repo")
		put(t, filepath.Join(dir, "out"), "out")
		git(t, dir, "add", "out")
		git(t, dir, "commit", "-qm", "outside")
		before := digest(t, filepath.Join(dir, ".git"))
		log := output(t, ws, "git log --format=%s")
		if _, err := ws.Life.Snapshot.Rollback(t.Context(), info.ID, &driver.SnapshotAccess{}); err != nil {
			t.Fatal(err)
		}
		if got := output(t, ws, "cat work; ls; ls -A new; test -d new/repo/.git"); got != "one\na.txt\nnew\nwork\nrepo" {
			t.Errorf("after the rollback: %q", got)
		}
		if got := output(t, ws, "git log --format=%s"); got != log {
			t.Errorf("inside, the log is %q, want %q", got, log)
		}
		if digest(t, filepath.Join(dir, ".git")) != before {
			t.Error("the host's repository has changed")
		}
		files, err := ws.Life.Snapshot.Files(t.Context(), info.ID, &driver.SnapshotAccess{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := files.Stat(t.Context(), ".git", &driver.StatOptions{}); fault.Of(err) != fault.NotFound {
			t.Errorf("the snapshot contains .git: %v", err)
		}
	})
}

// TestGitAttackSparseGit: a workload plants a .git with sparse files, which take no disk. The
// copies of the next guest take none either.
func TestGitAttackSparseGit(t *testing.T) {
	reportGitAttack(t, "git-sparse-files", testenv.Prevented)
	dir := t.TempDir()
	shellOutside(t, dir, "for i in 1 2; do mkdir -p r$i/.git; truncate -s 300M r$i/.git/x; echo end >> r$i/.git/x; done")
	p, ws, _ := inPlace(t, dir, "")
	if got := output(t, ws, "tail -c4 r1/.git/x; stat -c %s r2/.git/x"); got != "end\n314572804" {
		t.Errorf("inside, the files are %q", got)
	}
	var blocks int64
	err := filepath.WalkDir(p.store.Path(idOf(t, ws), gitdir.Name), func(name string, _ os.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(name, &st)
		}
		blocks += st.Blocks
		return err
	})
	if used := blocks * 512; err != nil || used > 8<<20 {
		t.Errorf("the copies take %d bytes, %v", used, err)
	}
}
