package snapshot

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/testenv"
)

// appliedGit is the level of the rows of these attacks: they aim at programs of the user
// that run in the destination.
const appliedGit = "apply"

// TestAttackApplyGitRuns changes files that the git of the destination runs or includes,
// or that autorun files lead to: they are left out and named.
func TestAttackApplyGitRuns(t *testing.T) {
	for _, tt := range []struct {
		name    string
		prepare string // shell script in the destination, $ROOT
		path    string // that the workload changes
		below   string // directory of the destination that is applied to
	}{
		{"core.hooksPath", "git config core.hooksPath hooks", "hooks/pre-commit", ""},
		{"core.hooksPath in another case", "git config core.hooksPath hooks", "Hooks/pre-commit", ""},
		{"core.hooksPath of the user", `export HOME="$ROOT/.git"; git config --global core.hooksPath hooks`, "hooks/pre-commit", ""},
		{"hook that is a symlink", "mkdir -p .git/hooks; ln -s ../../scripts/pc.sh .git/hooks/post-commit", "scripts/pc.sh", ""},
		{"hook that is a symlink of a symlink", `mkdir -p .git/hooks; ln -s ../../mid .git/hooks/post-commit; ln -s "$ROOT/scripts/pc.sh" mid`, "scripts/pc.sh", ""},
		{"include.path", "git config include.path ../.gitcfg", ".gitcfg", ""},
		{"includeIf", "git config includeIf.onbranch:x.path ../.gitcfg", ".gitcfg", ""},
		{"include of an include", `printf '[include]\npath = more\n' > .git/first; git config include.path first; printf '[include]\npath = ../cfg\n' > .git/more`, "cfg", ""},
		{"filter", "git config filter.x.clean 'sh ./tools/clean.sh %f'", "tools/clean.sh", ""},
		{"alias", "git config alias.x '!tools/x.sh'", "tools/x.sh", ""},
		{"hooks of a containing repository", "git config core.hooksPath sub/hooks", "hooks/pre-commit", "sub"},
		{"hooks of a repository below", "git init -q lib; git -C lib config core.hooksPath hooks", "lib/hooks/pre-commit", ""},
		{"autorun file with an absolute target", `mkdir s; ln -s "$ROOT/s/env" .envrc`, "s/env", ""},
		{"autorun file behind two symlinks", "ln -s mid .mcp.json; ln -s s/t.json mid", "s/t.json", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			home := t.TempDir()
			t.Setenv("HOME", home)
			t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
			root := filepath.Join(home, "project")
			must0(t, os.MkdirAll(filepath.Join(root, tt.below), 0o755))
			cmd := exec.CommandContext(t.Context(), "sh", "-ec", "git init -q .\n"+tt.prepare)
			cmd.Dir, cmd.Env = root, append(os.Environ(), "ROOT="+root)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if _, err := os.Stat(filepath.Join(root, ".git/.gitconfig")); err == nil {
				t.Setenv("HOME", filepath.Join(root, ".git"))
			}
			dir := filepath.Join(root, tt.below)
			theirs := HostDir(plant(t, map[string]string{tt.path: "evil", "work": "done"}), nil)
			res, err := Apply(t.Context(), Empty, theirs, dir, nil)
			must0(t, err)
			if _, err := os.Stat(filepath.Join(dir, tt.path)); err == nil {
				t.Errorf("%s was written", tt.path)
			}
			if got, err := os.ReadFile(filepath.Join(dir, "work")); string(got) != "done" {
				t.Errorf("the other file is %q, %v", got, err)
			}
			if len(res.LeftOut) != 1 || strings.Join(res.LeftOut[0].Paths, " ") != tt.path {
				t.Errorf("left out %+v, want %s", res.LeftOut, tt.path)
			}
			testenv.ReportAttack(t, "file that the user's git or tools run: "+tt.name, appliedGit, testenv.Prevented, "left out and named")
		})
	}
}

// TestAttackApplyTopRepository makes the destination, a subdirectory of a repository, a
// bare repository with a command: git of the user does not run it.
func TestAttackApplyTopRepository(t *testing.T) {
	root := t.TempDir()
	runInRepo(t, root, "init", "-q")
	dir := filepath.Join(root, "sub")
	must0(t, os.Mkdir(dir, 0o755))
	theirs := plant(t, map[string]string{
		"HEAD": "ref: refs/heads/main\n", "objects/k": "", "refs/k": "", "work": "done",
		"config": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = \"touch " + root + "/evil; false\"\n",
	})
	res, err := Apply(t.Context(), Empty, HostDir(theirs, nil), dir, nil)
	must0(t, err)
	runInRepo(t, dir, "status")
	if _, err := os.Stat(filepath.Join(root, "evil")); err == nil {
		t.Errorf("git ran a command of the workload")
	}
	if len(res.LeftOut) != 1 || res.LeftOut[0].Total != 4 || harvest(t, dir)["work"] != "done" {
		t.Errorf("left out %+v, want the repository alone", res.LeftOut)
	}
	testenv.ReportAttack(t, "bare repository at the top of the destination", appliedGit, testenv.Prevented, "left out and named")
}
