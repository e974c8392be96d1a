package snapshot

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/textdiff"
	"github.com/croft-run/croft/workspace/driver"
)

// plant writes files; a name that ends with a slash is a directory, and content
// that starts with "-> " a symlink.
func plant(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		must0(t, os.MkdirAll(filepath.Dir(path), 0o755))
		switch target, link := strings.CutPrefix(content, "-> "); {
		case strings.HasSuffix(name, "/"):
			must0(t, os.MkdirAll(path, 0o755))
		case link:
			must0(t, os.Symlink(target, path))
		default:
			must0(t, os.WriteFile(path, []byte(content), 0o644))
		}
	}
	return dir
}

func harvest(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must0(t, Walk(t.Context(), HostDir(dir, nil), func(name string, _ Directory, n *Node) (bool, error) {
		switch n.Type {
		case "dir":
			if entries, _ := os.ReadDir(filepath.Join(dir, name)); len(entries) == 0 {
				out[name+"/"] = ""
			}
		case "symlink":
			out[name] = "-> " + n.Target
		default:
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return false, err
			}
			out[name] = string(data)
		}
		return true, nil
	}))
	return out
}

func lines(n int, change ...string) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		line := fmt.Sprintf("line %d", i)
		for _, c := range change {
			if at, text, _ := strings.Cut(c, "="); at == fmt.Sprint(i) {
				line = text
			}
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

func TestDiffTellsEveryKind(t *testing.T) {
	a := plant(t, map[string]string{"same": "x", "gone": "gone\n", "text": lines(20), "bin": "a\x00b", "moved": "the same content", "mode": "m", "link": "-> a", "kind": "file", "dir/deep/file": "1\n"})
	b := plant(t, map[string]string{"same": "x", "new": "new", "text": lines(20, "3=three", "18=eighteen"), "bin": "a\x00c", "sub/moved": "the same content", "mode": "m", "link": "-> b", "kind/inner": "file\n", "dir/deep/file": "2\n"})
	must0(t, os.Chmod(filepath.Join(b, "mode"), 0o755))
	s := Open(Memory(), nil)
	ma, err := s.Take(t.Context(), HostDir(a, nil), nil)
	must0(t, err)
	for name, from := range map[string]Tree{"host": HostDir(a, nil), "snapshot": s.StoredTree(ma.Root), "module": Files(Module(HostDir(a, nil)))} {
		t.Run(name, func(t *testing.T) {
			d, err := Diff(t.Context(), from, HostDir(b, nil), &DiffOptions{Text: true})
			must0(t, err)
			var got []string
			for _, c := range d.Changes {
				got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s +%d -%d %v", c.Kind, c.Path, c.From, c.LinesAdded, c.LinesRemoved, c.Binary)))
			}
			want := []string{
				"modified bin  +0 -0 true", "modified dir/deep/file  +1 -1 false", "removed gone  +0 -1 false", "removed kind  +0 -1 false", "added kind  +0 -0 false",
				"added kind/inner  +1 -0 false", "modified link  +1 -1 false", "mode mode  +0 -0 false", "added new  +1 -0 false", "added sub  +0 -0 false",
				"renamed sub/moved moved +0 -0 false", "modified text  +2 -2 false",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got, want := d.Stats, (Stats{Added: 2, Removed: 2, Modified: 4, Renamed: 1, Mode: 1, LinesAdded: 6, LinesRemoved: 6}); got != want {
				t.Errorf("stats %+v, want %+v", got, want)
			}
		})
	}
}

// TestUnifiedIsAPatch gives what WriteUnified writes to git apply, on random texts.
func TestUnifiedIsAPatch(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		before, after := randomText(r), ""
		after = mutateText(r, before)
		a := plant(t, map[string]string{"f": before, "hostile \"ä\n": "1\n"})
		b := plant(t, map[string]string{"f": after, "hostile \"ä\n": "2"})
		d, err := Diff(t.Context(), HostDir(a, nil), HostDir(b, nil), &DiffOptions{Text: true, Context: r.IntN(4)})
		must0(t, err)
		var patch strings.Builder
		must0(t, d.WriteUnified(&patch))
		cmd := exec.Command("git", "apply", "--unidiff-zero", "-")
		cmd.Dir, cmd.Stdin = a, strings.NewReader(patch.String())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("round %d: git apply: %v: %s\n%s", i, err, out, patch.String())
		}
		if diff := cmp.Diff(harvest(t, b), harvest(t, a)); diff != "" {
			t.Fatalf("round %d: the patch makes another tree:\n%s\n%s", i, diff, patch.String())
		}
	}
}

func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(40) {
		fmt.Fprintf(&b, "%d\n", r.IntN(8))
	}
	if r.IntN(3) == 0 {
		b.WriteString("no newline")
	}
	return b.String()
}

func mutateText(r *rand.Rand, text string) string {
	ls := textdiff.Split([]byte(text))
	for range 1 + r.IntN(5) {
		at := r.IntN(len(ls) + 1)
		switch r.IntN(2) {
		case 0:
			ls = slices.Insert(ls, at, fmt.Sprintf("%d\n", r.IntN(20)))
		default:
			ls = slices.Delete(ls, at, min(at+r.IntN(3), len(ls)))
		}
	}
	if n := len(ls); n > 1 { // only the last may lack its newline
		for i := range ls[:n-1] {
			ls[i] = strings.TrimSuffix(ls[i], "\n") + "\n"
		}
	}
	return strings.Join(ls, "")
}

func FuzzMergeText(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nc\nd")
	f.Add("", "x")
	f.Add(strings.Repeat("x\ny\n", 600), strings.Repeat("y\nz\n", 600))
	f.Fuzz(func(t *testing.T, from, to string) {
		if merged, conflicts := MergeText([]byte(from), []byte(from), []byte(to), nil); string(merged) != to || len(conflicts) > 0 {
			t.Errorf("merging %q into what did not change gives %q, %v", to, merged, conflicts)
		}
	})
}

// TestMergeAgreesWithGit compares with git merge-file, where both see no conflict.
func TestMergeAgreesWithGit(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	clean := 0
	for i := range 80 {
		base := lines(30)
		ours, theirs := mutateText(r, base), mutateText(r, base)
		got, conflicts := MergeText([]byte(base), []byte(ours), []byte(theirs), nil)
		dir := plant(t, map[string]string{"base": base, "ours": ours, "theirs": theirs})
		cmd := exec.Command("git", "merge-file", "-p", "ours", "base", "theirs")
		cmd.Dir = dir
		want, err := cmd.Output()
		if err != nil || len(conflicts) > 0 {
			if err == nil != (len(conflicts) == 0) {
				t.Logf("round %d: git says %v, we have %d conflicts", i, err, len(conflicts))
			}
			continue
		}
		clean++
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("round %d: -git +ours:\n%s", i, diff)
		}
	}
	if clean < 20 {
		t.Errorf("only %d of 80 merges were clean on both sides", clean)
	}
}

func TestApply(t *testing.T) {
	base := map[string]string{"text": lines(40), "gone": "x\n", "dir/a": "a\n", "dir/b": "b\n", "keep": "k\n", "bin": "\x00"}
	theirs := map[string]string{"text": lines(40, "3=theirs 3", "20=theirs 20", "38=theirs 38"), "dir/b": "b\n", "new/deep/file": "new\n", "new/link": "-> file", "keep": "k\n", "bin": "\x001"}
	type row struct {
		ours      map[string]string
		opts      MergeOptions
		want      map[string]string
		conflicts []string
	}
	changed := map[string]string{"text": lines(40, "10=ours 10"), "gone": "x\n", "dir/a": "a\n", "dir/b": "b\n", "keep": "mine\n", "bin": "\x00", "mine": "m"}
	for name, r := range map[string]row{
		"clean":  {ours: base, want: theirs},
		"merged": {ours: changed, want: map[string]string{"text": lines(40, "3=theirs 3", "10=ours 10", "20=theirs 20", "38=theirs 38"), "dir/b": "b\n", "new/deep/file": "new\n", "new/link": "-> file", "keep": "mine\n", "bin": "\x001", "mine": "m"}},
		"one path": {ours: base, opts: MergeOptions{Only: []string{"new"}},
			want: map[string]string{"text": lines(40), "gone": "x\n", "dir/a": "a\n", "dir/b": "b\n", "keep": "k\n", "bin": "\x00", "new/deep/file": "new\n", "new/link": "-> file"}},
		"one hunk": {ours: changed, opts: MergeOptions{Hunks: map[string][]int{"text": {2}}},
			want: map[string]string{"text": lines(40, "10=ours 10", "20=theirs 20"), "gone": "x\n", "dir/a": "a\n", "dir/b": "b\n", "keep": "mine\n", "bin": "\x00", "mine": "m"}},
		"conflict": {ours: map[string]string{"text": lines(40, "3=ours 3"), "dir/a": "changed\n", "bin": "\x002"}, conflicts: []string{"bin", "dir/a", "text"}},
		"markers": {ours: map[string]string{"text": lines(40, "3=ours 3")}, opts: MergeOptions{Only: []string{"text"}, Markers: true}, conflicts: []string{"text"},
			want: map[string]string{"text": lines(40, "3=<<<<<<< ours\nours 3\n=======\ntheirs 3\n>>>>>>> theirs", "20=theirs 20", "38=theirs 38")}},
	} {
		t.Run(name, func(t *testing.T) {
			s := Open(Memory(), nil)
			dir := plant(t, r.ours)
			before := harvest(t, dir)
			res, err := Apply(t.Context(), HostDir(plant(t, base), nil), HostDir(plant(t, theirs), nil), dir, &ApplyOptions{MergeOptions: r.opts, Undo: s})
			must0(t, err)
			var conflicts []string
			for _, c := range res.Conflicts {
				conflicts = append(conflicts, c.Path)
			}
			slices.Sort(conflicts)
			if diff := cmp.Diff(r.conflicts, conflicts); diff != "" {
				t.Errorf("conflicts -want +got:\n%s", diff)
			}
			want := r.want
			if want == nil {
				want = before
			}
			if diff := cmp.Diff(want, harvest(t, dir)); diff != "" {
				t.Fatalf("-want +got:\n%s", diff)
			}
			if !res.Done {
				return
			}
			if _, err := Undo(t.Context(), s, res.Undo, dir, nil); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, harvest(t, dir)); diff != "" {
				t.Errorf("after undo -before +after:\n%s", diff)
			}
		})
	}
	t.Run("undo sees changes", func(t *testing.T) {
		s, dir := Open(Memory(), nil), plant(t, base)
		res, err := Apply(t.Context(), HostDir(plant(t, base), nil), HostDir(plant(t, theirs), nil), dir, &ApplyOptions{Undo: s})
		must0(t, err)
		must0(t, os.WriteFile(filepath.Join(dir, "new/deep/file"), []byte("edited"), 0o644))
		if _, err := Undo(t.Context(), s, res.Undo, dir, nil); fault.Of(err) != fault.Conflict || !strings.Contains(err.Error(), "changed since: new/deep/file; undo") {
			t.Errorf("undo of what was changed since: %v, want Conflict of new/deep/file", err)
		}
	})
	t.Run("undo of what is reverted already", func(t *testing.T) {
		s, dir := Open(Memory(), nil), plant(t, base)
		before := harvest(t, dir)
		res, err := Apply(t.Context(), HostDir(plant(t, base), nil), HostDir(plant(t, theirs), nil), dir, &ApplyOptions{Undo: s})
		must0(t, err)
		must0(t, os.RemoveAll(filepath.Join(dir, "new"))) // a part of it
		for _, left := range []bool{true, false} {
			back, err := Undo(t.Context(), s, res.Undo, dir, nil)
			if err != nil || len(back.Paths) > 0 != left {
				t.Errorf("undo: %+v, %v", back, err)
			}
			if diff := cmp.Diff(before, harvest(t, dir)); diff != "" {
				t.Errorf("after undo -before +after:\n%s", diff)
			}
		}
	})
	t.Run("nothing there", func(t *testing.T) {
		_, err := Apply(t.Context(), HostDir(plant(t, base), nil), HostDir(plant(t, theirs), nil), plant(t, base), &ApplyOptions{MergeOptions: MergeOptions{Only: []string{"keep"}}})
		if fault.Of(err) != fault.NotFound {
			t.Errorf("%v, want NotFound", err)
		}
	})
}

func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=n", "-c", "user.email=e"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return string(out)
}

// TestApplyBranch commits into a repository whose configuration and hooks would
// betray themselves by files that they make.
func TestApplyBranch(t *testing.T) {
	base := map[string]string{"a": lines(10), "dir/b": "b\n", "file": "f\n"}
	repo := plant(t, base)
	git(t, repo, "init", "-q", "-b", "main")
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-qm", "first")
	trap := filepath.Join(t.TempDir(), "sprung")
	for _, hook := range []string{"reference-transaction", "post-commit", "pre-commit", "post-index-change", "commit-msg"} {
		must0(t, os.WriteFile(filepath.Join(repo, ".git/hooks", hook), []byte("#!/bin/sh\ntouch "+trap+"\n"), 0o755))
	}
	git(t, repo, "config", "filter.evil.clean", "touch "+trap)
	git(t, repo, "config", "core.fsmonitor", "touch "+trap)
	must0(t, os.WriteFile(filepath.Join(repo, ".git/info/attributes"), []byte("* filter=evil\n"), 0o644))
	must0(t, os.WriteFile(filepath.Join(repo, "a"), []byte("dirty work tree\n"), 0o644))
	before := harvest(t, repo)
	theirs := plant(t, map[string]string{"a": lines(10, "5=five"), "new": "-> a", "file/inner": "x\n", ".git/config": "[evil]"})
	r, err := OpenRepository(t.Context(), repo)
	must0(t, err)
	res, err := r.ApplyBranch(t.Context(), HostDir(plant(t, base), nil), HostDir(theirs, nil), "agent/work", &BranchOptions{Message: "from the agent"})
	must0(t, err)
	if !res.Done || len(res.Conflicts) > 0 {
		t.Fatalf("%+v", res)
	}
	if _, err := os.Stat(trap); err == nil {
		t.Error("a hook or filter of the repository ran")
	}
	after := harvest(t, repo)
	for name := range after { // objects and the new branch are what may be new
		if strings.HasPrefix(name, ".git/objects") || strings.HasPrefix(name, ".git/refs") || strings.HasPrefix(name, ".git/logs") {
			delete(after, name)
		}
	}
	for name := range before {
		if strings.HasPrefix(name, ".git/objects") || strings.HasPrefix(name, ".git/refs") || strings.HasPrefix(name, ".git/logs") {
			delete(before, name)
		}
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the work tree or the index changed:\n%s", diff)
	}
	must0(t, os.RemoveAll(filepath.Join(repo, ".git/hooks")))
	if got, want := git(t, repo, "ls-tree", "-r", "--name-only", "agent/work"), "a\nfile/inner\nnew\n"; got != want {
		t.Errorf("the branch has %q, want %q", got, want)
	}
	if got := git(t, repo, "show", "agent/work:a"); got != lines(10, "5=five") {
		t.Errorf("a on the branch is %q", got)
	}
	if got, want := git(t, repo, "log", "--format=%s %an", "-1", "agent/work"), "from the agent Croft\n"; got != want {
		t.Errorf("the commit is %q, want %q", got, want)
	}
	if _, err := r.ApplyBranch(t.Context(), Empty, HostDir(theirs, nil), "main", &BranchOptions{Message: "m"}); fault.Of(err) != fault.WrongState {
		t.Errorf("a branch that is checked out: %v, want WrongState", err)
	}
	for _, name := range []string{"HEAD", "@", "-x", "--force", "a..b", "@{-1}", "a b", "x.lock", ""} {
		if _, err := r.ApplyBranch(t.Context(), Empty, HostDir(theirs, nil), name, &BranchOptions{Message: "m"}); fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "git takes no branch") {
			t.Errorf("branch %q: %v", name, err)
		}
	}
	if _, err := r.ApplyBranch(t.Context(), Empty, HostDir(theirs, nil), "../x", &BranchOptions{Message: "m"}); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("a name that is none: %v, want InvalidArgument", err)
	}
	tree, err := r.Tree(t.Context(), res.Commit)
	must0(t, err)
	rc, _, err := OpenFile(t.Context(), tree, "file/inner")
	must0(t, err)
	defer rc.Close()
	if data, _ := io.ReadAll(rc); string(data) != "x\n" {
		t.Errorf("file/inner of the commit is %q", data)
	}
}

// TestChangesSurviveJSON: names are bytes, and JSON is text.
func TestChangesSurviveJSON(t *testing.T) {
	want := Comparison{Changes: []FileChange{{Path: "\xff\n", From: "a\xfe", Kind: Renamed, Old: &Side{Type: driver.TypeFile}}, {Path: "plain", Kind: Added}}}
	data, err := json.Marshal(want)
	must0(t, err)
	var got Comparison
	must0(t, json.Unmarshal(data, &got))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestPathsAsPeopleWriteThem: a path names the same with and without what a shell
// adds to it, and one that leaves the tree is refused instead of being nowhere.
func TestPathsAsPeopleWriteThem(t *testing.T) {
	base, theirs := plant(t, map[string]string{"src/a": "1\n", "b": "1\n"}), plant(t, map[string]string{"src/a": "2\n", "b": "2\n"})
	for _, p := range []string{"src", "src/", "./src", "src/.", "src//a"} {
		d, err := Diff(t.Context(), HostDir(base, nil), HostDir(theirs, nil), &DiffOptions{Only: []string{p}})
		must0(t, err)
		if len(d.Changes) != 1 || d.Changes[0].Path != "src/a" {
			t.Errorf("at %q there are %d changes, want that of src/a", p, len(d.Changes))
		}
		res, err := Apply(t.Context(), HostDir(base, nil), HostDir(theirs, nil), base, &ApplyOptions{DryRun: true, MergeOptions: MergeOptions{Only: []string{p}}})
		if err != nil || len(res.Applied) != 1 {
			t.Errorf("an apply of %q: %+v, %v", p, res, err)
		}
	}
	res, err := Apply(t.Context(), HostDir(base, nil), HostDir(theirs, nil), base, &ApplyOptions{DryRun: true, MergeOptions: MergeOptions{Hunks: map[string][]int{"./src/a": {1}}}})
	if err != nil || len(res.Applied) != 1 {
		t.Errorf("an apply of a hunk: %+v, %v", res, err)
	}
	for _, p := range []string{"", "..", "../x", "/src", "src/../../x"} {
		if _, err := Diff(t.Context(), HostDir(base, nil), HostDir(theirs, nil), &DiffOptions{Only: []string{p}}); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("a diff at %q: %v, want %v", p, err, fault.InvalidArgument)
		}
		if _, err := Merge(t.Context(), HostDir(base, nil), HostDir(base, nil), HostDir(theirs, nil), &MergeOptions{Hunks: map[string][]int{p: {1}}}); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("hunks at %q: %v, want %v", p, err, fault.InvalidArgument)
		}
	}
}

// TestManyChangesInOneDirectory: who looks for each of many files in a large
// directory must not list it every time; the lists are counted, not timed. A
// comparison whose caller has gone ends.
func TestManyChangesInOneDirectory(t *testing.T) {
	const files = 300
	old, now := map[string]string{}, map[string]string{}
	for i := range files {
		name := "d/" + strconv.Itoa(i)
		old[name], now[name] = "1\n", "2\n"
	}
	s := Open(Memory(), nil)
	a, b, target := take(t, s, plant(t, old), nil), take(t, s, plant(t, now), nil), plant(t, old)
	lists := &counting{Tree: s.StoredTree(a.Root)}
	d, err := Diff(t.Context(), lists, s.StoredTree(b.Root), &DiffOptions{Text: true})
	must0(t, err)
	if len(d.Changes) != files || d.Stats.LinesAdded != files || d.Stats.LinesRemoved != files {
		t.Errorf("%d changes, %+v", len(d.Changes), d.Stats)
	}
	if n := lists.n.Load(); n > 10 {
		t.Errorf("directories were listed %d times to compare %d files", n, files)
	}
	lists.n.Store(0)
	if _, err := Apply(t.Context(), lists, s.StoredTree(b.Root), target, &ApplyOptions{Undo: s}); err != nil {
		t.Fatal(err)
	}
	if n := lists.n.Load(); n > 10 {
		t.Errorf("directories were listed %d times to apply %d files", n, files)
	}
	if diff := cmp.Diff(now, harvest(t, target)); diff != "" {
		t.Error(diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Lookup(ctx, s.StoredTree(a.Root), "d/1"); fault.Of(err) != fault.Canceled {
		t.Errorf("a look with a canceled context: %v, want %v", err, fault.Canceled)
	}
}

// counting counts how often directories of a tree are listed.
type counting struct {
	Tree
	n atomic.Int64
}

func (c *counting) Root(ctx context.Context) (Directory, error) {
	dir, err := c.Tree.Root(ctx)
	return &countingDir{dir, c}, err
}

type countingDir struct {
	Directory
	c *counting
}

func (d *countingDir) Nodes(ctx context.Context) ([]Node, error) {
	d.c.n.Add(1)
	return d.Directory.Nodes(ctx)
}

func (d *countingDir) Dir(ctx context.Context, n *Node) (Directory, error) {
	sub, err := d.Directory.Dir(ctx, n)
	return &countingDir{sub, d.c}, err
}

func (d *countingDir) find(ctx context.Context, name string) (*Node, error) {
	if _, ok := d.Directory.(finder); !ok {
		d.c.n.Add(1)
	}
	return findNode(ctx, d.Directory, name)
}
