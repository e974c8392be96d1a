package snapshot

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/internal/textdiff"
)

// editFiles makes random edits of a tree: lines are replaced, inserted and removed, files
// added and removed. Some edits are the same on both sides. An added file is not edited:
// where one side adds an empty file git takes the other one, and Apply asks.
func editFiles(r *rand.Rand, side string, files map[string]string, edits int) map[string]string {
	out := maps.Clone(files)
	for n := range edits {
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(out)), func(name string) bool { return files[name] == "" })
		name := names[r.IntN(len(names))]
		text := fmt.Sprintf("%s %d\n", side, n)
		if r.IntN(8) == 0 {
			text = "of both\n"
		}
		ls := textdiff.Split([]byte(out[name]))
		at := r.IntN(len(ls) + 1)
		switch kind := r.IntN(20); {
		case kind == 0:
			delete(out, name)
			continue
		case kind == 1:
			name, ls = fmt.Sprintf("new/%d", r.IntN(6)), []string{text}
		case kind < 9 && at < len(ls):
			ls[at] = text
		case kind < 15:
			ls = slices.Insert(ls, at, text)
		default:
			ls = slices.Delete(ls, at, min(at+1+r.IntN(2), len(ls)))
		}
		out[name] = strings.Join(ls, "")
	}
	return out
}

// TestApplyAsGitMerge makes 200 random edits on both sides, over and over: what Apply
// brings is what git merge gives, all at once and hunk by hunk, and a path is a conflict
// exactly where git has one.
func TestApplyAsGitMerge(t *testing.T) {
	const rounds, edits = 14, 200
	total, conflicting, clean := 0, 0, 0
	for round := range uint64(rounds) {
		r := rand.New(rand.NewPCG(round, 22))
		base := map[string]string{}
		for i := range 16 {
			base[fmt.Sprintf("dir%d/file%d", i%4, i)] = lines(40 + 10*r.IntN(8))
		}
		ours, theirs := editFiles(r, "ours", base, edits/rounds+1), editFiles(r, "theirs", base, edits/rounds+1)
		want, unmerged := gitMerge(t, base, ours, theirs)
		baseTree, theirTree := HostDir(plant(t, base), nil), HostDir(plant(t, theirs), nil)

		dir := plant(t, ours)
		res, err := Apply(t.Context(), baseTree, theirTree, dir, nil)
		must0(t, err)
		var conflicts []string
		for _, c := range res.Conflicts {
			conflicts = append(conflicts, c.Path)
		}
		slices.Sort(conflicts)
		if diff := cmp.Diff(unmerged, conflicts); diff != "" {
			t.Errorf("round %d: conflicts (-git +apply):\n%s", round, diff)
		}
		if len(conflicts) > 0 {
			if diff := cmp.Diff(ours, harvest(t, dir)); diff != "" {
				t.Errorf("round %d: a conflict, and the directory changed:\n%s", round, diff)
			}
			for _, name := range unmerged { // what is left of each side is git's own form
				delete(want, name)
			}
		}
		total, conflicting = total+len(res.Applied)+len(conflicts), conflicting+len(conflicts)
		for name, apply := range map[string]func(t *testing.T, dir string, c *Comparison){
			"by path": func(t *testing.T, dir string, _ *Comparison) {
				if len(res.Applied) > 0 {
					done, err := Apply(t.Context(), baseTree, theirTree, dir, &ApplyOptions{MergeOptions: MergeOptions{Only: res.Applied}})
					must0(t, err)
					clean += len(done.Applied)
				}
			},
			"by hunk": func(t *testing.T, dir string, c *Comparison) {
				for _, i := range r.Perm(len(c.Changes)) {
					ch := c.Changes[i]
					if slices.Contains(unmerged, ch.Path) {
						continue
					}
					if len(ch.Hunks) == 0 || ch.Old == nil || ch.New == nil || ch.From != "" {
						_, err := Apply(t.Context(), baseTree, theirTree, dir, &ApplyOptions{MergeOptions: MergeOptions{Only: []string{ch.Path}}})
						must0(t, err)
						continue
					}
					for _, n := range r.Perm(len(ch.Hunks)) {
						res, err := Apply(t.Context(), baseTree, theirTree, dir, &ApplyOptions{MergeOptions: MergeOptions{Hunks: map[string][]int{ch.Path: {n + 1}}}})
						if must0(t, err); len(res.Conflicts) > 0 {
							t.Errorf("round %d: hunk %d of %s: %v", round, n+1, ch.Path, res.Conflicts)
						}
					}
				}
			},
		} {
			dir := plant(t, ours)
			c, err := Diff(t.Context(), baseTree, theirTree, &DiffOptions{Text: true})
			must0(t, err)
			apply(t, dir, c)
			got := harvest(t, dir)
			for _, path := range unmerged {
				if got[path] != ours[path] {
					t.Errorf("round %d, %s: %s has a conflict, and changed", round, name, path)
				}
				delete(got, path)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("round %d, %s (-git +apply):\n%s", round, name, diff)
			}
		}
	}
	t.Logf("%d changed paths, %d with conflicts, %d applied", total, conflicting, clean)
	if conflicting == 0 || clean < 50 {
		t.Errorf("of %d changed paths, %d have conflicts and %d were applied: that tests little", total, conflicting, clean)
	}
}

// gitMerge merges theirs into ours with git, and returns the files and the paths that have
// conflicts, sorted.
func gitMerge(t *testing.T, base, ours, theirs map[string]string) (files map[string]string, unmerged []string) {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) (string, error) {
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "merge.renames=false", "-c", "gc.auto=0"}, args...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "LC_ALL=C")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := git(args...)
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return out
	}
	commit := func(files map[string]string) {
		t.Helper()
		for name := range harvestFiles(t, dir) {
			must0(t, os.Remove(filepath.Join(dir, name)))
		}
		for name, text := range files {
			path := filepath.Join(dir, name)
			must0(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must0(t, os.WriteFile(path, []byte(text), 0o644))
		}
		must("add", "--all")
		must("commit", "--quiet", "--allow-empty", "--message", "x")
	}
	must("init", "--quiet")
	commit(base)
	must("branch", "theirs")
	commit(ours)
	must("checkout", "--quiet", "-b", "ours")
	must("checkout", "--quiet", "theirs")
	commit(theirs)
	must("checkout", "--quiet", "ours")
	_, merr := git("merge", "--quiet", "--no-commit", "theirs")
	for name := range strings.SplitSeq(must("diff", "--name-only", "--diff-filter=U", "-z"), "\x00") {
		if name != "" && !slices.Contains(unmerged, name) {
			unmerged = append(unmerged, name)
		}
	}
	slices.Sort(unmerged)
	if (merr != nil) != (len(unmerged) > 0) {
		t.Fatalf("git merge: %v, with conflicts in %q", merr, unmerged)
	}
	return harvestFiles(t, dir), unmerged
}

// harvestFiles reads the files of a work tree.
func harvestFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := harvest(t, dir)
	maps.DeleteFunc(all, func(name, _ string) bool { return strings.HasPrefix(name, ".git/") || strings.HasSuffix(name, "/") })
	return all
}
