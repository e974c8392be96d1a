package snapshot

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// applied applies the difference of two trees to a third.
func applied(t *testing.T, base, theirs, ours map[string]string, opts *ApplyOptions) (*Applied, map[string]string) {
	t.Helper()
	dir := plant(t, ours)
	res, err := Apply(t.Context(), HostDir(plant(t, base), nil), HostDir(plant(t, theirs), nil), dir, opts)
	must0(t, err)
	return res, harvest(t, dir)
}

// TestApplyLeavesGitAlone applies commits, hooks and configuration of a repository,
// also under names that other systems take for .git: none of it gets out.
func TestApplyLeavesGitAlone(t *testing.T) {
	base := map[string]string{"a": "1\n", ".git/HEAD": "ref: refs/heads/main\n", ".git/index": "0", ".git/refs/heads/main": "11\n"}
	theirs := map[string]string{
		"a": "2\n", ".git/HEAD": "ref: refs/heads/evil\n", ".git/index": "theirs", ".git/refs/heads/main": "22\n", ".git/hooks/pre-commit": "evil",
		".GIT/config": "evil", "sub/.git/config": "evil", "git~1/config": "evil", ".git /config": "evil", ".g\u200cit/config": "evil", "deep/er/.Git": "gitdir: /evil",
	}
	ours := map[string]string{"a": "1\n", ".git/HEAD": "ref: refs/heads/main\n", ".git/index": "ours", ".git/refs/heads/main": "33\n"}
	for name, opts := range map[string]*ApplyOptions{
		"plain": nil,
		"all":   {MergeOptions: MergeOptions{Markers: true, Autorun: true, Ignored: true}},
	} {
		t.Run(name, func(t *testing.T) {
			res, got := applied(t, base, theirs, ours, opts)
			want := map[string]string{"a": "2\n", ".git/HEAD": "ref: refs/heads/main\n", ".git/index": "ours", ".git/refs/heads/main": "33\n", "sub/": "", "deep/er/": ""}
			if diff := cmp.Diff(want, got); diff != "" || !res.Done || len(res.Conflicts) > 0 {
				t.Errorf("applied %+v (-want +got):\n%s", res, diff)
			}
		})
	}
	dir := plant(t, ours)
	_, err := Apply(t.Context(), HostDir(plant(t, base), nil), HostDir(plant(t, theirs), nil), dir, &ApplyOptions{MergeOptions: MergeOptions{Only: []string{".git/hooks"}}})
	if fault.Of(err) != fault.InvalidArgument {
		t.Errorf("a path in .git: %v, want %v", err, fault.InvalidArgument)
	}
}

// TestDiffShowsHistory compares two states of a repository as commits and refs.
func TestDiffShowsHistory(t *testing.T) {
	const zero, one, two = "0000000000000000000000000000000000000000", "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222"
	base := map[string]string{
		"lib/.git/packed-refs": "# pack-refs with: peeled\n" + one + " refs/heads/old\n", "lib/.git/refs/heads/main": one + "\n",
		"lib/.git/logs/HEAD": zero + " " + one + " a <a@b> 1 +0000\tcommit (initial): first\n",
	}
	now := map[string]string{
		"lib/.git/refs/heads/main": two + "\n", "lib/.git/refs/tags/v1": one + "\n", "lib/.git/index": "x",
		"lib/.git/logs/HEAD": base["lib/.git/logs/HEAD"] + one + " " + two + " a <a@b> 2 +0000\tcommit: second\n" + two + " " + one + " a <a@b> 2 +0000\tcheckout: moving\n",
	}
	d, err := Diff(t.Context(), HostDir(plant(t, base), nil), HostDir(plant(t, now), nil), &DiffOptions{NoGit: true})
	must0(t, err)
	if diff := cmp.Diff(&Comparison{Changes: []FileChange{}, Git: []GitChange{{Path: "lib/.git", Commits: 1, Refs: 3}}}, d); diff != "" {
		t.Errorf("compared (-want +got):\n%s", diff)
	}
}

// TestIgnored leaves out what .gitignore says, and caches; never a file that was
// there and not ignored before.
func TestIgnored(t *testing.T) {
	base := map[string]string{".gitignore": "*.log\n", "main.go": "1", "old.log": "1", "app/x": "1"}
	theirs := map[string]string{
		".gitignore": "*.log\nbuild/\nmain.go\n", "main.go": "2", "old.log": "2", "new.log": "1", "build/out": "1", "node_modules/p/index.js": "1", "app/x": "1",
		"app/.gitignore": "/tmp/\n", "app/tmp/y": "1", "__pycache__/m.pyc": "1", "app/keep/.gitignore": "!*.log\n", "app/keep/a.log": "1",
	}
	from, to := HostDir(plant(t, base), nil), HostDir(plant(t, theirs), nil)
	paths := func(opts *DiffOptions) (list []string, leftOut []LeftOut) {
		t.Helper()
		d, err := Diff(t.Context(), from, to, opts)
		must0(t, err)
		for _, c := range d.Changes {
			list = append(list, c.Path)
		}
		return list, d.LeftOut
	}
	got, left := paths(&DiffOptions{NoIgnored: true})
	want := []string{".gitignore", "app/.gitignore", "app/keep", "app/keep/.gitignore", "app/keep/a.log", "main.go"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("compared (-want +got):\n%s", diff)
	}
	wantLeft := []LeftOut{{Reason: LeftOutIgnored, Total: 6, Paths: []string{"__pycache__/m.pyc", "app/tmp/y", "build/out", "new.log", "node_modules/p/index.js", "old.log"}}}
	if diff := cmp.Diff(wantLeft, left); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	if got, left := paths(nil); len(got) < 12 || left != nil {
		t.Errorf("everything is %v, without %v", got, left)
	}
	if got, left := paths(&DiffOptions{NoIgnored: true, Only: []string{"node_modules/p", "old.log"}}); len(got) != 3 || left != nil {
		t.Errorf("what was named is %v, without %v", got, left)
	}
	res, files := applied(t, base, theirs, base, nil)
	if files["new.log"] != "" || files["old.log"] != "1" || files["main.go"] != "2" || res.LeftOut[0].Total != 6 {
		t.Errorf("applied %v: %v", res, files)
	}
	if _, files := applied(t, base, theirs, base, &ApplyOptions{MergeOptions: MergeOptions{Ignored: true}}); files["new.log"] != "1" || files["old.log"] != "2" {
		t.Errorf("applied with ignored ones: %v", files)
	}
}

// TestApplyAutorun leaves out autorun files, by whichever way they would get to
// their place, until they are allowed.
func TestApplyAutorun(t *testing.T) {
	for _, tt := range []struct {
		name               string
		base, theirs, ours map[string]string
		path               string
	}{
		{"new", nil, map[string]string{".envrc": "evil"}, nil, ".envrc"},
		{"changed", map[string]string{".vscode/tasks.json": "{}"}, map[string]string{".vscode/tasks.json": "evil"}, map[string]string{".vscode/tasks.json": "{}"}, ".vscode/tasks.json"},
		{"in another case", nil, map[string]string{".VSCode/tasks.json": "evil"}, nil, ".VSCode/tasks.json"},
		{"further down", nil, map[string]string{"a/b/.mcp.json": "evil"}, nil, "a/b/.mcp.json"},
		{"a symlink to it", nil, map[string]string{".claude": "-> cfg"}, nil, ".claude"},
		{"through a symlink of the host", map[string]string{"cfg/tasks.json": "{}"}, map[string]string{"cfg/tasks.json": "evil"}, map[string]string{"cfg/tasks.json": "{}", ".vscode": "-> cfg"}, "cfg/tasks.json"},
		{"a bare repository", nil, map[string]string{"r/HEAD": "ref: x", "r/objects/": "", "r/refs/": "", "r/config": "evil"}, nil, "r/config"},
		{"the rest of one", map[string]string{"r/objects/": "", "r/refs/": ""}, map[string]string{"r/objects/": "", "r/refs/": "", "r/HEAD": "ref: x", "r/hooks/p": "evil"}, map[string]string{"r/objects/": "", "r/refs/": ""}, "r/hooks/p"},
		{"a bare repository at the top", nil, map[string]string{"HEAD": "ref: x", "objects/k": "", "refs/k": "", "config": "evil"}, nil, "config"},
		{"one with a commondir", nil, map[string]string{"r/HEAD": "ref: x", "r/commondir": "../x", "r/config": "evil"}, nil, "r/config"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			with := map[string]string{"work": "done"}
			for name, text := range tt.theirs {
				with[name] = text
			}
			res, got := applied(t, tt.base, with, tt.ours, nil)
			if got[tt.path] != tt.ours[tt.path] || got["work"] != "done" {
				t.Errorf("it became %v", got)
			}
			if len(res.LeftOut) != 1 || res.LeftOut[0].Reason != LeftOutAutorun || !strings.Contains(strings.Join(res.LeftOut[0].Paths, "\n"), tt.path) {
				t.Errorf("left out %+v, want %s", res.LeftOut, tt.path)
			}
			res, got = applied(t, tt.base, with, tt.ours, &ApplyOptions{MergeOptions: MergeOptions{Autorun: true}})
			if got[tt.path] != tt.theirs[tt.path] || res.LeftOut != nil {
				t.Errorf("allowed, it became %v without %v", got, res.LeftOut)
			}
		})
	}
}

// TestConflictKinds names each conflict by its kind and sides; only those of lines
// get markers.
func TestConflictKinds(t *testing.T) {
	base := map[string]string{"lines": "a\n", "binary": "\x001", "gone-here": "1", "gone-there": "1", "d/x": "1", "link/a": "1", "fd/a": "1"}
	theirs := map[string]string{"lines": "b\n", "binary": "\x002", "gone-here": "2", "both": "theirs", "d": "file", "link/a": "1", "link/sub/new": "1", "fd/a": "1", "fd/new": "1"}
	ours := map[string]string{"lines": "c\n", "binary": "\x003", "gone-there": "3", "both": "ours", "d/x": "1", "d/y": "1", "link": "-> d", "fd": "file"}
	res, got := applied(t, base, theirs, ours, &ApplyOptions{MergeOptions: MergeOptions{Markers: true, Ours: "DIR", Theirs: "workspace demo"}})
	type row struct {
		Kind   ConflictKind
		Marked bool
		Reason string
	}
	rows := map[string]row{}
	for _, c := range res.Conflicts {
		rows[c.Path] = row{c.Kind, c.Marked, c.Reason}
	}
	want := map[string]row{
		"lines":        {ConflictLines, true, "the same lines were changed in DIR and in workspace demo"},
		"binary":       {ConflictContent, false, "changed in DIR and in workspace demo, and not a text that can be merged"},
		"both":         {ConflictContent, false, "added in DIR and in workspace demo with different content"},
		"gone-here":    {ConflictOurs, false, "removed in DIR, changed in workspace demo"},
		"gone-there":   {ConflictTheirs, false, "changed in DIR, removed in workspace demo"},
		"d":            {ConflictType, false, "a directory in DIR that is not empty"},
		"link/sub":     {ConflictType, false, "link is a symlink in DIR, and a directory in workspace demo"},
		"link/sub/new": {ConflictType, false, "link is a symlink in DIR, and a directory in workspace demo"},
		"fd/new":       {ConflictType, false, "fd is a file in DIR, and a directory in workspace demo"},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("conflicts (-want +got):\n%s", diff)
	}
	if want := "<<<<<<< DIR\nc\n=======\nb\n>>>>>>> workspace demo\n"; got["lines"] != want {
		t.Errorf("markers are %q, want %q", got["lines"], want)
	}
	if got["binary"] != ours["binary"] || got["both"] != "ours" || got["gone-there"] != "3" {
		t.Errorf("a conflict without markers was written: %v", got)
	}
}

// TestUndoOfAnother refuses an undo in another directory and of an unknown id, and
// writes nothing in a dry run.
func TestUndoOfAnother(t *testing.T) {
	s := Open(Dir(t.TempDir()), nil)
	base, theirs := HostDir(plant(t, map[string]string{"a": "1"}), nil), HostDir(plant(t, map[string]string{"a": "2"}), nil)
	dir, other := plant(t, map[string]string{"a": "1"}), plant(t, map[string]string{"a": "2"})
	res, err := Apply(t.Context(), base, theirs, dir, &ApplyOptions{Undo: s, Info: driver.SnapshotInfo{Workspace: "one"}})
	must0(t, err)
	if _, err := Undo(t.Context(), s, res.Undo, other, nil); fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), other) {
		t.Errorf("in another directory: %v, want %v", err, fault.InvalidArgument)
	}
	if _, err := Undo(t.Context(), s, res.Undo, dir, &UndoOptions{Workspace: "other"}); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("of another workspace: %v, want %v", err, fault.InvalidArgument)
	}
	if _, err := Undo(t.Context(), s, "nonesuch", dir, nil); fault.Of(err) != fault.NotFound || !strings.Contains(err.Error(), "no apply has this id") {
		t.Errorf("an unknown id: %v, want %v", err, fault.NotFound)
	}
	back, err := Undo(t.Context(), s, res.Undo, dir, &UndoOptions{DryRun: true})
	must0(t, err)
	if got := harvest(t, dir)["a"]; got != "2" || !cmp.Equal(back.Paths, []string{"a"}) {
		t.Errorf("a dry run left %q and says %v", got, back)
	}
	link := filepath.Join(t.TempDir(), "link")
	must0(t, os.Symlink(dir, link))
	if _, err := Undo(t.Context(), s, res.Undo, link, nil); err != nil || harvest(t, dir)["a"] != "1" {
		t.Errorf("through a symlink: %v, %v", err, harvest(t, dir))
	}
}

// inPlaceAdapter is the adapter of a directory in place. Rollback is called before
// each rollback, and may fail.
func inPlaceAdapter(t *testing.T, dir string, rollback func(*RollbackTarget) error) *Adapter {
	return &Adapter{
		Store: Open(Dir(t.TempDir()), nil), Workspace: "w", Dir: "/src",
		Now: func(context.Context) (View, error) { return View{Tree: HostDir(dir, nil)}, nil },
		Rollback: func(ctx context.Context, to *RollbackTarget) error {
			if rollback != nil {
				if err := rollback(to); err != nil {
					return err
				}
			}
			_, err := Restore(ctx, to.Tree, dir, &RestoreOptions{Only: to.Paths, NoGit: true})
			return err
		},
	}
}

// TestSnapshotHasNoGitCredentials: a fork of a directory in place, and a copy without
// credential files, have the configuration of each repository without its credentials,
// also when the stat cache knows the file.
func TestSnapshotHasNoGitCredentials(t *testing.T) {
	const config, want = "[remote \"o\"]\n\turl = https://u:token@host/x\n", "[remote \"o\"]\n\turl = https://host/x\n"
	names := []string{".git/config", "sub/.git/modules/m/config", ".git/worktrees/w/config.worktree"}
	const log, wantLog = "0 1 a <a@b> 1 +0\tclone: from https://u:token@host/x\n", "0 1 a <a@b> 1 +0\tclone: from https://host/x\n"
	files := map[string]string{"config": config, ".git/logs/HEAD": log, "logs/HEAD": log}
	for _, name := range names {
		files[name] = config
	}
	dir := plant(t, files)
	a := inPlaceAdapter(t, dir, nil)
	a.Now = func(context.Context) (View, error) { return View{Tree: HostDir(dir, nil), Cache: "c"}, nil }
	for range 3 {
		info, err := a.Snapshot(t.Context(), &driver.SnapshotOptions{})
		must0(t, err)
		tree, _, err := a.Store.Tree(t.Context(), info.ID)
		must0(t, err)
		fork := t.TempDir()
		_, err = Restore(t.Context(), tree, fork, nil)
		must0(t, err)
		got := harvest(t, fork)
		for _, name := range names {
			if got[name] != want {
				t.Errorf("%s in a fork is %q, want %q", name, got[name], want)
			}
		}
		if got[".git/logs/HEAD"] != wantLog {
			t.Errorf("a reflog in a fork is %q, want %q", got[".git/logs/HEAD"], wantLog)
		}
		if got["config"] != config || got["logs/HEAD"] != log {
			t.Errorf("a file named config became %q, and a file named logs/HEAD %q", got["config"], got["logs/HEAD"])
		}
	}
	m, err := a.Store.Take(t.Context(), HostDir(dir, nil), &TakeOptions{NoCredentials: true})
	must0(t, err)
	if wantLeft := []string{"credentials in .git/config", "credentials in .git/logs/HEAD", "credentials in .git/worktrees/w/config.worktree", "credentials in sub/.git/modules/m/config"}; !cmp.Equal(m.LeftOut, wantLeft) {
		t.Errorf("left out: %v, want %v", m.LeftOut, wantLeft)
	}
}

// TestRollbackLeavesGitAlone goes back in a directory in place after the user
// committed there: the commits stay. The snapshot holds .git, for forks.
func TestRollbackLeavesGitAlone(t *testing.T) {
	dir := plant(t, map[string]string{"a": "1", ".git/index": "1", ".git/refs/heads/main": "1", "lib/.git/HEAD": "1", "lib/x": "1"})
	a := inPlaceAdapter(t, dir, nil)
	first, err := a.Snapshot(t.Context(), &driver.SnapshotOptions{})
	must0(t, err)
	for name, text := range map[string]string{".git/index": "2", ".git/refs/heads/main": "2", ".git/refs/heads/new": "2", ".git/objects/ab": "2", "lib/.git/HEAD": "2"} {
		must0(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must0(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	now, err := a.Snapshot(t.Context(), &driver.SnapshotOptions{})
	must0(t, err)
	if now.Digest != first.Digest {
		t.Errorf("commits changed the digest of the files")
	}
	must0(t, os.WriteFile(filepath.Join(dir, "a"), []byte("2"), 0o644))
	must0(t, os.WriteFile(filepath.Join(dir, "lib/x"), []byte("2"), 0o644))
	_, err = a.Module().Rollback(t.Context(), first.ID, &driver.SnapshotAccess{})
	must0(t, err)
	want := map[string]string{"a": "1", "lib/x": "1", ".git/index": "2", ".git/refs/heads/main": "2", ".git/refs/heads/new": "2", ".git/objects/ab": "2", "lib/.git/HEAD": "2"}
	if diff := cmp.Diff(want, harvest(t, dir)); diff != "" {
		t.Errorf("after the rollback (-want +got):\n%s", diff)
	}
	files, err := a.Module().Files(t.Context(), first.ID, &driver.SnapshotAccess{})
	must0(t, err)
	if _, err := files.Stat(t.Context(), ".git", &driver.StatOptions{}); fault.Of(err) != fault.NotFound {
		t.Errorf(".git of the compared files: %v, want %v", err, fault.NotFound)
	}
	tree, _, err := a.Store.Whole(t.Context(), first.ID)
	must0(t, err)
	if text, err := readFile(t.Context(), tree, ".git/index", 100); err != nil || string(text) != "1" {
		t.Errorf("the snapshot has the index %q, %v", text, err)
	}
}

// TestAcceptTakesBack accepts files of which one can't be written: what was written
// before it is taken back.
func TestAcceptTakesBack(t *testing.T) {
	dir := plant(t, map[string]string{"a": "1"})
	failed := false
	a := inPlaceAdapter(t, dir, func(*RollbackTarget) error {
		if failed {
			return nil
		}
		failed = true
		must0(t, os.MkdirAll(filepath.Join(dir, ".aaa"), 0o755))
		must0(t, os.WriteFile(filepath.Join(dir, ".aaa/new"), []byte("1"), 0o644))
		return fault.PermissionDenied
	})
	next := Module(HostDir(plant(t, map[string]string{"a": "2", ".aaa/new": "1"}), nil))
	_, err := a.Module().Accept(t.Context(), next, []string{".aaa", ".aaa/new", "a"}, &driver.SnapshotOptions{})
	if fault.Of(err) != fault.PermissionDenied {
		t.Errorf("accept: %v, want %v", err, fault.PermissionDenied)
	}
	if diff := cmp.Diff(map[string]string{"a": "1"}, harvest(t, dir)); diff != "" {
		t.Errorf("left behind (-want +got):\n%s", diff)
	}
}

// TestCredentialsOfRepositories: credential stores in .git, and the configuration of a
// bare repository of any name, are not in a snapshot of a directory in place, which names
// the credential files that it contains.
func TestCredentialsOfRepositories(t *testing.T) {
	const config = "[remote \"o\"]\n\turl = https://u:token@host/x\n"
	dir := plant(t, map[string]string{
		".git/git-credentials": "https://u:token@host", "mirror/HEAD": "ref: x\n", "mirror/objects/x": "", "mirror/refs/x": "", "mirror/config": config,
		"other/config": config, ".env": "A=b",
	})
	a := inPlaceAdapter(t, dir, nil)
	info, err := a.Snapshot(t.Context(), &driver.SnapshotOptions{})
	must0(t, err)
	if want := []string{".env"}; !cmp.Equal(info.Credentials, want) {
		t.Errorf("it names %q, want %q", info.Credentials, want)
	}
	m, err := a.Store.Get(t.Context(), info.ID)
	must0(t, err)
	if want := []string{".git/git-credentials", "credentials in mirror/config"}; !cmp.Equal(m.LeftOut, want) {
		t.Errorf("left out: %q, want %q", m.LeftOut, want)
	}
}

func TestAddScope(t *testing.T) {
	ignored, fewer := LeftOut{Reason: LeftOutIgnored, Total: 3, Paths: []string{"a", "b", "c"}}, LeftOut{Reason: LeftOutIgnored, Total: 1, Paths: []string{"a"}}
	autorun := LeftOut{Reason: LeftOutAutorun, Total: 1, Paths: []string{".envrc"}}
	m := &Merged{LeftOut: []LeftOut{fewer, autorun}}
	m.AddScope(&Comparison{LeftOut: []LeftOut{ignored}})
	if diff := cmp.Diff([]LeftOut{ignored, autorun}, m.LeftOut); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
}
