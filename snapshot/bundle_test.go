package snapshot

import (
	"bytes"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
)

// runInRepo runs git and returns its trimmed output.
func runInRepo(t *testing.T, dir string, args ...string) string {
	t.Helper()
	return strings.TrimSpace(git(t, dir, args...))
}

// TestImportBundle takes commits of a clone into the repository: objects and
// references, but no configuration, no hook, and nothing that is broken.
func TestImportBundle(t *testing.T) {
	host, inside := t.TempDir(), filepath.Join(t.TempDir(), "clone")
	runInRepo(t, host, "init", "-q", "-b", "main")
	must0(t, os.WriteFile(filepath.Join(host, "a"), []byte("1\n"), 0o644))
	runInRepo(t, host, "add", "a")
	runInRepo(t, host, "commit", "-qm", "first")
	runInRepo(t, host, "clone", "-q", host, inside)
	must0(t, os.WriteFile(filepath.Join(inside, "a"), []byte("2\n"), 0o644))
	must0(t, os.WriteFile(filepath.Join(inside, ".envrc"), []byte("evil\n"), 0o644))
	runInRepo(t, inside, "add", "-A")
	runInRepo(t, inside, "commit", "-qm", "second")
	runInRepo(t, inside, "tag", "v1")
	tip := runInRepo(t, inside, "rev-parse", "HEAD")
	must0(t, os.WriteFile(filepath.Join(inside, ".git/hooks/post-checkout"), []byte("#!/bin/sh\ntouch "+host+"/evil\n"), 0o755))
	runInRepo(t, inside, "config", "core.fsmonitor", "touch "+host+"/evil")

	r, err := OpenRepository(t.Context(), host)
	must0(t, err)
	known, err := r.Tips(t.Context(), 10)
	must0(t, err)
	bundle := func(args ...string) []byte {
		t.Helper()
		file := filepath.Join(t.TempDir(), "bundle")
		runInRepo(t, inside, append([]string{"-c", "core.fsmonitor=false", "bundle", "create", "-q", file}, args...)...)
		data, err := os.ReadFile(file)
		must0(t, err)
		return data
	}
	good := bundle("--branches", "--tags", "HEAD", "^"+known[0])
	before := harvest(t, filepath.Join(host, ".git"))["config"]
	res, err := r.ImportBundle(t.Context(), bytes.NewReader(good), &BundleOptions{Prefix: "refs/croft/demo/"})
	must0(t, err)
	names := map[string]string{}
	for _, ref := range res.Refs {
		names[ref.Name] = ref.Commit
	}
	want := map[string]string{"refs/croft/demo/heads/main": tip, "refs/croft/demo/tags/v1": tip, "refs/croft/demo/HEAD": tip}
	if diff := cmp.Diff(want, names); diff != "" || res.Refs[0].Commits != 1 {
		t.Errorf("%v (-want +got):\n%s", res, diff)
	}
	if diff := cmp.Diff([]string{".envrc"}, res.Autorun); diff != "" {
		t.Errorf("autorun files (-want +got):\n%s", diff)
	}
	if got := runInRepo(t, host, "log", "--format=%s", "refs/croft/demo/HEAD"); got != "second\nfirst" {
		t.Errorf("the log is %q", got)
	}
	if harvest(t, filepath.Join(host, ".git"))["config"] != before || runInRepo(t, host, "status", "--porcelain") != "" {
		t.Errorf("the configuration or the work tree has changed")
	}
	if _, err := os.Stat(filepath.Join(host, "evil")); err == nil {
		t.Errorf("a program of the source ran")
	}

	res, err = r.ImportBundle(t.Context(), bytes.NewReader(good), &BundleOptions{Branch: "agent"})
	if err != nil || len(res.Refs) != 1 || res.Refs[0].Name != "refs/heads/agent" {
		t.Errorf("as a branch: %v, %v", res, err)
	}
	for name, tt := range map[string]struct {
		data []byte
		opts BundleOptions
		want fault.Code
	}{
		"a branch that is checked out": {good, BundleOptions{Branch: "main"}, fault.WrongState},
		"a branch with a bad name":     {good, BundleOptions{Branch: "a..b"}, fault.InvalidArgument},
		"a branch HEAD":                {good, BundleOptions{Branch: "HEAD"}, fault.InvalidArgument},
		"a branch @":                   {good, BundleOptions{Branch: "@"}, fault.InvalidArgument},
		"a branch like an option":      {good, BundleOptions{Branch: "-x"}, fault.InvalidArgument},
		"no bundle":                    {[]byte("evil\n"), BundleOptions{Prefix: "refs/croft/x/"}, fault.InvalidArgument},
		"a damaged pack":               {append(bytes.Clone(good[:len(good)-30]), make([]byte, 30)...), BundleOptions{Prefix: "refs/croft/x/"}, fault.InvalidArgument},
		"too large":                    {good, BundleOptions{Prefix: "refs/croft/x/", MaxBytes: 10}, fault.InvalidArgument},
		"a reference to nothing": {
			bytes.Replace(good, []byte(tip+" refs/heads/main"), []byte(strings.Repeat("1", 40)+" refs/heads/main"), 1), BundleOptions{Prefix: "refs/croft/x/"}, fault.InvalidArgument,
		},
		"a reference that leads out": {
			bytes.Replace(good, []byte(" refs/heads/main\n"), []byte(" refs/heads/../../x\n"), 1), BundleOptions{Prefix: "refs/croft/x/"}, fault.InvalidArgument,
		},
		"a missing base": {
			bytes.Replace(good, []byte("-"+known[0]), []byte("-"+strings.Repeat("1", 40)), 1), BundleOptions{Prefix: "refs/croft/x/"}, fault.Conflict,
		},
	} {
		if _, err := r.ImportBundle(t.Context(), bytes.NewReader(tt.data), &tt.opts); fault.Of(err) != tt.want {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(host, ".git/objects/*/tmp_*")); len(left) > 0 {
		t.Errorf("refused bundles left %v", left)
	}
	if left, _ := filepath.Glob(filepath.Join(host, ".git/objects/tmp_*")); len(left) > 0 {
		t.Errorf("refused bundles left %v", left)
	}
	if got := runInRepo(t, host, "for-each-ref", "--format=%(refname)", "refs/croft/x"); got != "" {
		t.Errorf("refused bundles left %s", got)
	}
	// A tree with .git in it is refused by the verification of objects.
	evil := runInRepo(t, inside, "-c", "core.fsmonitor=false", "hash-object", "-w", "a")
	cmd := exec.CommandContext(t.Context(), "git", "-c", "core.fsmonitor=false", "-c", "core.protectNTFS=false", "hash-object", "-t", "tree", "-w", "--literally", "--stdin")
	cmd.Dir = inside
	raw, err := hex.DecodeString(evil)
	must0(t, err)
	cmd.Stdin = bytes.NewReader(append([]byte("100644 .git\x00"), raw...))
	out, err := cmd.Output()
	must0(t, err)
	commit := runInRepo(t, inside, "-c", "core.fsmonitor=false", "commit-tree", "-p", tip, "-m", "evil", strings.TrimSpace(string(out)))
	runInRepo(t, inside, "-c", "core.fsmonitor=false", "update-ref", "refs/heads/evil", commit)
	if _, err := r.ImportBundle(t.Context(), bytes.NewReader(bundle("evil", "^"+known[0])), &BundleOptions{Prefix: "refs/croft/x/"}); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("a tree with .git: %v, want %v", err, fault.InvalidArgument)
	}
}

// TestAttackImportAutorun hides an autorun file among many others and in a repository of
// its own, and brings one into a repository without commits: it is named first, and the
// others are counted.
func TestAttackImportAutorun(t *testing.T) {
	inside := t.TempDir()
	runInRepo(t, inside, "init", "-q", "-b", "main")
	for name := range 102 {
		must0(t, os.MkdirAll(filepath.Join(inside, "!", strconv.Itoa(name)), 0o755))
		must0(t, os.WriteFile(filepath.Join(inside, "!", strconv.Itoa(name), ".envrc"), nil, 0o644))
	}
	for _, name := range []string{".vscode/tasks.json", "r/HEAD", "r/objects/k", "r/refs/k", "r/config", "hooks/pre-commit", "work"} {
		must0(t, os.MkdirAll(filepath.Dir(filepath.Join(inside, name)), 0o755))
		must0(t, os.WriteFile(filepath.Join(inside, name), []byte("x"), 0o644))
	}
	must0(t, os.Symlink("work", filepath.Join(inside, ".claude")))
	runInRepo(t, inside, "add", "-A")
	runInRepo(t, inside, "commit", "-qm", "evil")
	file := filepath.Join(t.TempDir(), "bundle")
	runInRepo(t, inside, "bundle", "create", "-q", file, "main")
	for name, commits := range map[string]bool{"no commits": false, "a commit": true} {
		t.Run(name, func(t *testing.T) {
			host := t.TempDir()
			runInRepo(t, host, "init", "-q", "-b", "other")
			runInRepo(t, host, "config", "core.hooksPath", "hooks")
			if commits {
				runInRepo(t, host, "commit", "-q", "--allow-empty", "-m", "first")
			}
			r, err := OpenRepository(t.Context(), host)
			must0(t, err)
			bundle, err := os.Open(file)
			must0(t, err)
			defer bundle.Close()
			res, err := r.ImportBundle(t.Context(), bundle, &BundleOptions{Prefix: "refs/croft/demo/"})
			must0(t, err)
			want := []string{".claude", ".vscode/tasks.json", "hooks/pre-commit", "r/HEAD", "r/config", "!/0/.envrc"}
			if got := res.Autorun; len(got) != MaxLeftOutListed || !cmp.Equal(got[:len(want)], want) || res.AutorunTotal != 109 {
				t.Errorf("%d autorun files, first %q, want 109 with %q", res.AutorunTotal, got, want)
			}
			testenv.ReportAttack(t, "autorun file among many in commits, repository with "+name, "apply --commits", testenv.Reported, "")
		})
	}
}

// TestImportFollowsRefs imports again after the source dropped a commit and made a branch
// of known commits: the references follow.
func TestImportFollowsRefs(t *testing.T) {
	host := t.TempDir()
	runInRepo(t, host, "init", "-q", "-b", "main")
	runInRepo(t, host, "commit", "-q", "--allow-empty", "-m", "first")
	first := runInRepo(t, host, "rev-parse", "HEAD")
	second := runInRepo(t, host, "commit-tree", "-p", first, "-m", "second", "HEAD^{tree}")
	r, err := OpenRepository(t.Context(), host)
	must0(t, err)
	opts := BundleOptions{Prefix: "refs/croft/demo/", Refs: []ImportedRef{{Name: "HEAD", Commit: second}, {Name: "refs/heads/main", Commit: second}, {Name: "refs/heads/gone", Commit: second}}}
	_, err = r.ImportBundle(t.Context(), nil, &opts)
	must0(t, err)
	opts.Refs = []ImportedRef{{Name: "HEAD", Commit: first}, {Name: "refs/heads/main", Commit: second}, {Name: "refs/heads/gone/other", Commit: first}}
	res, err := r.ImportBundle(t.Context(), nil, &opts)
	must0(t, err)
	if want := []string{"refs/croft/demo/heads/gone"}; !cmp.Equal(res.Removed, want) || len(res.Refs) != 2 {
		t.Errorf("removed %v, want %v; wrote %v", res.Removed, want, res.Refs)
	}
	want := "refs/croft/demo/HEAD " + first + "\nrefs/croft/demo/heads/gone/other " + first + "\nrefs/croft/demo/heads/main " + second
	if got := runInRepo(t, host, "for-each-ref", "--format=%(refname) %(objectname)", "refs/croft"); got != want {
		t.Errorf("references are\n%s\nwant\n%s", got, want)
	}
	opts.Refs = []ImportedRef{{Name: "HEAD", Commit: "--all"}}
	if _, err := r.ImportBundle(t.Context(), nil, &opts); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("no commit: %v, want %v", err, fault.InvalidArgument)
	}
}
