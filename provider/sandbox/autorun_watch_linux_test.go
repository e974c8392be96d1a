package sandbox

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/provider/sandbox/internal/protect"
	"github.com/croft-run/croft/workspace/driver"
)

// scanAgain lets the next command scan, however long the last scan took.
func scanAgain(t *testing.T, ws *driver.Workspace) {
	t.Helper()
	s, err := ws.Shell.Start(t.Context(), driver.Command{Argv: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	h := s.Process.(autorunProcess).h
	h.autorun.Postpone(0)
}

// TestGitAttackFailedScan: a workload makes scans for autorun files fail, and plants files
// meanwhile and afterwards. The failure is reported each time with its reason, and the files
// as soon as they can be found.
func TestGitAttackFailedScan(t *testing.T) {
	for name, c := range map[string]struct{ script, reason string }{
		"deep":         {"mkdir -p flood/$(printf 'd/%.0s' $(seq 1 120))", "directories deep"},
		"deep-many":    {"for n in $(seq 1 12); do mkdir -p flood/$n/$(printf 'd/%.0s' $(seq 1 110)); done", "directories"},
		"repositories": {"for i in $(seq 1 2005); do echo flood/$i/.git; done | xargs mkdir -p", "more than 2000 repositories"},
	} {
		t.Run(name, func(t *testing.T) {
			reportGitAttack(t, "autorun-failed-scan-"+name, testenv.Reported)
			dir := t.TempDir()
			put(t, filepath.Join(dir, "a"), "a")
			_, ws, told := inPlace(t, dir, "")
			output(t, ws, "true")
			for _, script0 := range []string{c.script, "true", "true"} {
				scanAgain(t, ws)
				res := script(t, ws, script0)
				if got := strings.Join(res.AutorunWarnings, "\n"); !strings.Contains(got, c.reason) || !strings.Contains(got, dir) {
					t.Errorf("after %.20q the warnings are %.300q, want %q", script0, got, c.reason)
				}
			}
			scanAgain(t, ws)
			res := script(t, ws, "rm -rf flood; mkdir -p x/.git .vscode; echo evil > .envrc; echo 1 > .vscode/tasks.json")
			for _, name := range []string{".envrc", ".vscode", "x/.git"} {
				if want := filepath.Join(dir, name); !slices.Contains(res.AutorunChanges, want) || !slices.Contains(told.paths(), want) {
					t.Errorf("%s is not reported: %.300q", name, res.AutorunChanges)
				}
			}
			if len(res.AutorunWarnings) > 0 {
				t.Errorf("without the flood there are warnings: %q", res.AutorunWarnings)
			}
		})
	}
}

// TestGitAttackLeftovers: what was planted since the last scan is reported when another
// guest starts.
func TestGitAttackLeftovers(t *testing.T) {
	reportGitAttack(t, "autorun-before-the-next-guest", testenv.Reported)
	dir := t.TempDir()
	put(t, filepath.Join(dir, "a"), "a")
	_, ws, _ := inPlace(t, dir, "")
	s, err := ws.Shell.Start(t.Context(), driver.Command{Argv: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	h := s.Process.(autorunProcess).h
	h.autorun.Postpone(math.MaxInt64) // a scan has just taken long
	if res := script(t, ws, "echo evil > .envrc"); len(res.AutorunChanges) > 0 {
		t.Fatalf("the scan was not put off: %q", res.AutorunChanges)
	}
	if err := h.restartGuest(t.Context()); err != nil {
		t.Fatal(err)
	}
	res := script(t, ws, "true")
	if got, want := strings.Join(res.AutorunChanges, " "), filepath.Join(dir, ".envrc"); got != want {
		t.Errorf("reported: %q, want %q", got, want)
	}
}

// TestGitAttackBeforeACrash: what was planted before the guest was killed, or before Croft
// crashed, is reported by the next guest; what the host changes after a clean end is not.
func TestGitAttackBeforeACrash(t *testing.T) {
	bothGits(t, func(t *testing.T, mode string) {
		reportGitAttack(t, "autorun-before-a-crash-"+mode, testenv.Reported)
		dir := t.TempDir()
		repository(t, dir)
		p, ws, _ := inPlace(t, dir, mode)
		dirs, err := filepath.Glob(p.store.Path("*", wsdir.InUseName))
		if err != nil || len(dirs) != 1 {
			t.Fatalf("the workspaces are %v, %v", dirs, err)
		}
		id := filepath.Base(filepath.Dir(dirs[0]))
		output(t, ws, "true")
		kill := func() {
			t.Helper()
			if err := p.endGuest(t.Context(), p.store.Dir(id).Path); err != nil {
				t.Fatal(err)
			}
		}
		changes := func() []string {
			t.Helper()
			for {
				res, err := ws.Shell.Run(t.Context(), driver.Command{Argv: []string{"true"}})
				if err == nil {
					return res.AutorunChanges
				}
				if fault.Of(err) != fault.Evicted {
					t.Fatal(err)
				}
			}
		}
		// The guest is killed while a command runs.
		if _, err := ws.Shell.Start(t.Context(), driver.Command{Script: "echo evil > .envrc; touch planted; sleep 1000"}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the file was planted", func() bool { _, err := os.Stat(filepath.Join(dir, "planted")); return err == nil })
		kill()
		want := filepath.Join(dir, ".envrc")
		if got := changes(); !slices.Contains(got, want) {
			t.Errorf("after the guest was killed %q is reported, want %s", got, want)
		}
		// Croft crashes, and the guest with it.
		reopen := func() {
			t.Helper()
			if ws, err = p.Resolve(t.Context(), ws.Ref); err != nil {
				t.Fatal(err)
			}
		}
		end := func() {
			t.Helper()
			if err := ws.Life.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			kill()
		}
		end()
		put(t, filepath.Join(dir, ".vscode", "tasks.json"), "{}") // by the user
		reopen()
		if got := changes(); len(got) > 0 {
			t.Errorf("after a clean end %q is reported", got)
		}
		end()
		put(t, filepath.Join(dir, "sub", ".envrc"), "evil")
		if err := os.WriteFile(p.store.Path(id, wsdir.InUseName), []byte("1"), 0o600); err != nil { // as a crash leaves it
			t.Fatal(err)
		}
		reopen()
		if got, want := changes(), filepath.Join(dir, "sub", ".envrc"); !slices.Contains(got, want) {
			t.Errorf("after a crash %q is reported, want %s", got, want)
		}
	})
}

// TestGitAttackFlood: many autorun files don't hide those at the top, and the others are
// reported by the next scans.
func TestGitAttackFlood(t *testing.T) {
	reportGitAttack(t, "autorun-flood", testenv.Reported)
	dir := t.TempDir()
	put(t, filepath.Join(dir, "a"), "a")
	_, ws, _ := inPlace(t, dir, "")
	output(t, ws, "true")
	scanAgain(t, ws)
	res := script(t, ws, "for i in $(seq 1 111); do mkdir -p \\!/$i; : > \\!/$i/.envrc; done; mkdir .vscode sub; echo 1 > .vscode/tasks.json; : > sub/.envrc")
	for i, name := range []string{".vscode", "sub/.envrc"} {
		if want := filepath.Join(dir, name); len(res.AutorunChanges) != protect.MaxReported || res.AutorunChanges[i] != want {
			t.Errorf("%d files are listed, want %s as number %d: %.100q", len(res.AutorunChanges), want, i, res.AutorunChanges)
		}
	}
	if got := strings.Join(res.AutorunWarnings, " "); !strings.Contains(got, dir+": 13 more autorun files") {
		t.Errorf("the warnings are %q", got)
	}
	scanAgain(t, ws)
	if res := script(t, ws, "true"); len(res.AutorunChanges) != 13 || len(res.AutorunWarnings) > 0 {
		t.Errorf("the next scan reports %q, %q", res.AutorunChanges, res.AutorunWarnings)
	}
}

// TestGitAttackSymlinkInGit: symlinks in a repository redirect what the host's git writes.
// In a private copy they are the workload's own; in a shared .git they are reported as long
// as they exist, and what git would read there can't be made.
func TestGitAttackSymlinkInGit(t *testing.T) {
	bothGits(t, func(t *testing.T, mode string) {
		dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "profile")
		repository(t, dir)
		put(t, victim, "mine")
		_, ws, _ := inPlace(t, dir, mode)
		output(t, ws, "true")
		links := []string{".git/COMMIT_EDITMSG", ".git/logs/HEAD", ".git/refs/heads/x", ".git/rebase-merge/message"}
		text := "mkdir -p .git/rebase-merge; echo evil > .git/config.worktree; echo evil > .git/info/attributes; ln -s x .git/info/attributes; "
		for _, name := range links {
			text += "ln -sf " + victim + " " + name + "; "
		}
		if mode == GitPrivate {
			reportGitAttack(t, "git-symlink-in-git-"+mode, testenv.Prevented)
			script(t, ws, text)
			put(t, filepath.Join(dir, "new.txt"), "new")
			git(t, dir, "add", "new.txt")
			git(t, dir, "commit", "-qm", "second")
			if data, err := os.ReadFile(victim); err != nil || string(data) != "mine" {
				t.Errorf("the file has %q, %v", data, err)
			}
			return
		}
		reportGitAttack(t, "git-symlink-in-git-"+mode, testenv.Reported)
		for range 2 {
			scanAgain(t, ws)
			res := script(t, ws, text)
			for _, name := range links {
				if !slices.Contains(res.AutorunChanges, filepath.Join(dir, name)) {
					t.Errorf("%s is not reported: %q", name, res.AutorunChanges)
				}
			}
		}
		for _, name := range []string{".git/config.worktree", ".git/info/attributes"} {
			if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || len(data) > 0 {
				t.Errorf("%s has %q, %v", name, data, err)
			}
		}
		scanAgain(t, ws)
		if res := script(t, ws, "rm "+strings.Join(links, " ")); len(res.AutorunChanges) > 0 {
			t.Errorf("without the symlinks: %q", res.AutorunChanges)
		}
	})
}
