package snapshot

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
)

// commitIn makes a repository of files with one commit.
func commitIn(t testing.TB, files map[string]string, init ...string) string {
	t.Helper()
	repo := plant(t, files)
	git(t, repo, append([]string{"init", "-q", "-b", "main"}, init...)...)
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-qm", "first")
	return repo
}

// TestRepositoryThatVerifiesSignatures: the configuration of a repository names a
// program that git runs for commits that are signed, wherever it shows them.
func TestRepositoryThatVerifiesSignatures(t *testing.T) {
	repo := commitIn(t, map[string]string{"a": "1\n"})
	raw := strings.Replace(git(t, repo, "cat-file", "commit", "HEAD"), "\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n", 1)
	cmd := exec.Command("git", "hash-object", "-t", "commit", "-w", "--stdin")
	cmd.Dir, cmd.Stdin = repo, strings.NewReader(raw)
	out, err := cmd.Output()
	must0(t, err)
	signed := strings.TrimSpace(string(out))
	git(t, repo, "update-ref", "HEAD", signed)
	dir := t.TempDir()
	trap, program := filepath.Join(dir, "sprung"), filepath.Join(dir, "gpg")
	must0(t, os.WriteFile(program, []byte("#!/bin/sh\ntouch "+trap+"\nexit 1\n"), 0o755))
	git(t, repo, "config", "log.showSignature", "true")
	git(t, repo, "config", "gpg.program", program)
	git(t, repo, "show", "-s", "HEAD")
	if err := os.Remove(trap); err != nil {
		t.Fatal("git itself does not run it: the test shows nothing")
	}
	r, err := OpenRepository(t.Context(), repo)
	must0(t, err)
	tree, err := r.Tree(t.Context(), signed)
	must0(t, err)
	if _, err := r.ApplyBranch(t.Context(), tree, HostDir(plant(t, map[string]string{"a": "2\n"}), nil), "agent", &BranchOptions{Message: "m"}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(trap); err == nil {
		t.Error("the program that the repository names ran on the host")
	}
	_, n, err := Lookup(t.Context(), tree, "a")
	must0(t, err)
	if got, want := strconv.FormatInt(n.ModTime.Unix(), 10), strings.TrimSpace(git(t, repo, "-c", "log.showSignature=false", "log", "-1", "--format=%ct")); got != want {
		t.Errorf("the time of a file is %s, want %s", got, want)
	}
}

// TestBranchesOfOddRepositories: branches that another work tree has, names of 64
// digits, and directories that are not the top.
func TestBranchesOfOddRepositories(t *testing.T) {
	files := map[string]string{"a": "1\n", "gone": "1\n", "sub/b": "1\n"}
	base, theirs := HostDir(plant(t, files), nil), HostDir(plant(t, map[string]string{"a": "2\n", "sub/b": "1\n"}), nil)
	apply := func(t *testing.T, dir, branch string) (*Branched, error) {
		r, err := OpenRepository(t.Context(), dir)
		if err != nil {
			return nil, err
		}
		return r.ApplyBranch(t.Context(), base, theirs, branch, &BranchOptions{Message: "m"})
	}
	t.Run("another work tree", func(t *testing.T) {
		repo, other := commitIn(t, files), filepath.Join(t.TempDir(), "other")
		git(t, repo, "worktree", "add", "-q", "-b", "feature", other)
		before := git(t, repo, "rev-parse", "feature")
		if _, err := apply(t, repo, "feature"); fault.Of(err) != fault.WrongState || !strings.Contains(err.Error(), other) {
			t.Errorf("a branch that is checked out in %s: %v, want %v", other, err, fault.WrongState)
		}
		if after := git(t, repo, "rev-parse", "feature"); after != before {
			t.Error("the branch has moved")
		}
		if _, err := apply(t, other, "agent"); err != nil {
			t.Errorf("a new branch from there: %v", err)
		}
	})
	t.Run("sha256", func(t *testing.T) {
		repo := commitIn(t, files, "--object-format=sha256")
		if _, err := apply(t, repo, "agent"); err != nil {
			t.Fatal(err)
		}
		if got, want := git(t, repo, "ls-tree", "-r", "--name-only", "agent"), "a\nsub/b\n"; got != want {
			t.Errorf("the branch has %q, want %q", got, want)
		}
	})
	t.Run("bare", func(t *testing.T) {
		repo := filepath.Join(t.TempDir(), "bare.git")
		git(t, t.TempDir(), "clone", "-q", "--bare", commitIn(t, files), repo)
		if _, err := apply(t, repo, "agent"); err != nil {
			t.Error(err)
		}
	})
	t.Run("not the top", func(t *testing.T) {
		repo := commitIn(t, files)
		if _, err := apply(t, filepath.Join(repo, "sub"), "agent"); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%v, want %v", err, fault.InvalidArgument)
		}
	})
}

// TestBranchIsCommittedByWhomTheRepositoryNames, if it names one, and by Croft else.
func TestBranchIsCommittedByWhomTheRepositoryNames(t *testing.T) {
	repo := commitIn(t, map[string]string{"a": "1\n"})
	r, err := OpenRepository(t.Context(), repo)
	must0(t, err)
	head, err := r.Commit(t.Context(), "HEAD")
	must0(t, err)
	tree, err := r.Tree(t.Context(), head)
	must0(t, err)
	theirs := HostDir(plant(t, map[string]string{"a": "2\n"}), nil)
	for i, want := range []string{"Croft <croft@localhost>", "Ada <ada@example.com>", "Bob <bob@example.com>"} {
		opts := &BranchOptions{Message: "m"}
		switch i {
		case 1:
			git(t, repo, "config", "user.name", "Ada")
			git(t, repo, "config", "user.email", "ada@example.com")
		case 2:
			opts.Author = want
		}
		branch := "agent" + strconv.Itoa(i)
		if _, err := r.ApplyBranch(t.Context(), tree, theirs, branch, opts); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(git(t, repo, "log", "-1", "--format=%an <%ae>", branch)); got != want {
			t.Errorf("branch %s is by %s, want %s", branch, got, want)
		}
	}
}
