package console

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/workspace"
)

// TestGitIdentity: commits inside have the name and the address of the host's user, those of a
// repository before those of the home, and what --env sets before both. Nothing else of the
// configuration is passed on.
func TestGitIdentity(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("skipped: host: there is no git")
	}
	home, dir := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	for _, name := range []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_COUNT", "GIT_DIR"} {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}
	config := "[user]\n\tname = Ann of the Home\n\temail = ann@home.test\n\tsigningkey = planted\n[credential]\n\thelper = store\n"
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	look := func(spec workspace.Spec) map[string]string {
		new(Console).AddGitIdentity(t.Context(), dir, &spec)
		return spec.Policy.Env
	}
	want := map[string]string{
		"GIT_AUTHOR_NAME": "Ann of the Home", "GIT_COMMITTER_NAME": "Ann of the Home", "GIT_AUTHOR_EMAIL": "ann@home.test", "GIT_COMMITTER_EMAIL": "ann@home.test",
	}
	if diff := cmp.Diff(want, look(workspace.Spec{})); diff != "" {
		t.Errorf("of the home (-want +got):\n%s", diff)
	}
	for _, args := range [][]string{{"init", "-q"}, {"config", "user.name", "Ann of the Repository"}} {
		if _, err := UserGit(t.Context(), dir, nil, args...); err != nil {
			t.Fatal(err)
		}
	}
	want["GIT_AUTHOR_NAME"], want["GIT_COMMITTER_NAME"] = "Agent", "Ann of the Repository"
	spec := workspace.Spec{}
	spec.Policy.Env = map[string]string{"GIT_AUTHOR_NAME": "Agent"}
	if diff := cmp.Diff(want, look(spec)); diff != "" {
		t.Errorf("of the repository (-want +got):\n%s", diff)
	}
}
