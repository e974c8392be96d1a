package snapshots_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"

	"github.com/croft-run/croft/provider/local"
)

// TestRestoreIsWhole restores a directory that is hard to restore: with names that
// programs quote, a repository within the repository, a worktree, empty
// directories and ignored files. What comes back is what was there, what did not
// change is not touched, and no program of the repository runs.
func TestRestoreIsWhole(t *testing.T) {
	dir := t.TempDir()
	sh := func(script string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", script, err, out)
		}
		return string(out)
	}
	sh(`git init -q . && git config user.name x && git config user.email x@x
		echo one > a.txt; echo ignored > secret.ignored; echo '*.ignored' > .gitignore; mkdir -p empty/deep sub
		git init -q nested && echo inner > nested/file
		git add a.txt .gitignore && git commit -qm x && git worktree add -q tree 2>/dev/null
		echo '* filter=evil' > .gitattributes && git config filter.evil.clean 'touch ran; cat' && git config core.fsmonitor 'touch ran; false'
		touch -d 2001-02-03 sub/old; chmod 750 a.txt`)
	p, err := local.New(&local.Config{Root: t.TempDir(), Snapshots: snapshot.Open(snapshot.Dir(t.TempDir()), nil)})
	if err != nil {
		t.Fatal(err)
	}
	a := newAgent(t, p, tool.Config{})
	a.add("w", openFork(t, p, workspace.Spec{Dir: dir}))
	const list = `find . -path ./.git -prune -o -printf '%p %m %s\n' | LC_ALL=C sort; find . -type f -not -path './.git/*' -not -path './nested/.git/*' -exec cat {} +; stat -c %y sub/old`
	before := sh(list)
	a.ok("snapshot_create", args{"name": "before"})

	sh(`echo two > a.txt`)
	contains(t, "restore of a content", a.ok("snapshot_restore", args{"name": "before"}), "restored snapshot before (1 file(s) changed):\na.txt")
	sh(`echo two > a.txt; printf x > 'n\303\244me'; printf x > 'quo"te'; printf x > 'new
line'; rm -r empty nested/file secret.ignored; echo more > nested/more; mkdir another; echo x > tree/x`)
	contains(t, "diff", a.ok("snapshot_diff", args{"name": "before"}), "a.txt")
	a.ok("snapshot_restore", args{"name": "before"})
	if after := sh(list); after != before {
		t.Errorf("after the restore there is\n%s\nwant\n%s", after, before)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("a program of the repository ran")
	}
	for _, name := range []string{"a..b", "a.lock", "-x", ".."} {
		if got, ok := a.try("snapshot_create", args{"name": name}); !ok && !strings.HasPrefix(got, "invalid snapshot name") {
			t.Errorf("a snapshot named %q: %s", name, got)
		}
	}
}
