package git_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/tool/git"
	"github.com/croft-run/croft/workspace"
)

func newEnv(t *testing.T) (*tool.Env, string) {
	t.Helper()
	p, err := local.New(&local.Config{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.NewMux(p).Open(t.Context(), workspace.Spec{Kind: "local", ID: workspace.NewID()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Destroy(context.WithoutCancel(t.Context())) })
	set := new(tool.Set)
	if err := set.Add("w", ws); err != nil {
		t.Fatal(err)
	}
	env, err := tool.NewEnv(tool.Config{Tools: tool.Coding(), Workspaces: set, Sources: []tool.Source{git.Source}})
	if err != nil {
		t.Fatal(err)
	}
	return env, ws.Traits().Root
}

func call(t *testing.T, env *tool.Env, name string, args map[string]any) (string, error) {
	t.Helper()
	data, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	res, err := env.Run(t.Context(), tool.Request{Tool: name, Args: data})
	return res.Text, err
}

func TestGit(t *testing.T) {
	env, _ := newEnv(t)
	ok := func(name string, args map[string]any) string {
		t.Helper()
		text, err := call(t, env, name, args)
		if err != nil {
			t.Fatalf("%s(%v): %v", name, args, err)
		}
		return text
	}
	if _, err := call(t, env, "git_status", nil); fault.Of(err) != fault.WrongState || !strings.Contains(err.Error(), "git status: ") {
		t.Errorf("without a repository: %v", err)
	}
	ok("Bash", map[string]any{"command": "git init -q -b main && git config user.name n && git config user.email n@example.com && printf 'a\\n' > '-n' && printf 'b\\n' > b"})
	if got := ok("git_status", nil); got != "## No commits yet on main\n?? -n\n?? b\n" {
		t.Errorf("status %q", got)
	}
	ok("git_commit", map[string]any{"message": "--amend is no option", "paths": []string{"-n"}})
	ok("git_commit", map[string]any{"message": "second", "all": true})
	ok("Bash", map[string]any{"command": "echo c >> b"})
	if got := ok("git_diff", map[string]any{"paths": []string{"b"}}); !strings.Contains(got, "+c\n") {
		t.Errorf("diff %q", got)
	}
	if got := ok("git_diff", map[string]any{"from": "HEAD~1", "to": "HEAD"}); !strings.Contains(got, "+b\n") || strings.Contains(got, "+c\n") {
		t.Errorf("diff %q", got)
	}
	if got := ok("git_log", map[string]any{"limit": 1}); !strings.Contains(got, "second") || strings.Contains(got, "amend") {
		t.Errorf("log %q", got)
	}
	ok("git_commit", map[string]any{"message": "third", "all": true})
	ok("git_branch", map[string]any{"name": "topic", "create": true, "from": "HEAD~1"})
	if got := ok("git_branch", nil); !strings.Contains(got, "* topic") {
		t.Errorf("branches %q", got)
	}
}

func TestNothingIsTakenForAnOption(t *testing.T) {
	env, root := newEnv(t)
	if _, err := call(t, env, "Bash", map[string]any{"command": "git init -q -b main && git config user.name n && git config user.email n@x && touch a && git add a && git commit -qm a"}); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	for _, tt := range []struct {
		tool string
		args map[string]any
	}{
		{"git_diff", map[string]any{"from": "--output=" + out}},
		{"git_diff", map[string]any{"to": "--output=" + out}},
		{"git_diff", map[string]any{"from": "HEAD", "to": "-O" + out}},
		{"git_log", map[string]any{"revision": "--output=" + out}},
		{"git_branch", map[string]any{"name": "--output=" + out}},
		{"git_branch", map[string]any{"name": "x", "create": true, "from": "--output=" + out}},
		{"git_diff", map[string]any{"paths": []string{"--output=" + out}}},
		{"git_log", map[string]any{"paths": []string{"--output=" + out}}},
	} {
		_, err := call(t, env, tt.tool, tt.args)
		if _, paths := tt.args["paths"]; !paths && fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%s(%v) = %v, want it refused", tt.tool, tt.args, err)
		}
		if _, err := os.Stat(out); err == nil {
			t.Fatalf("%s(%v) wrote a file", tt.tool, tt.args)
		}
	}
	if _, err := os.Stat(filepath.Join(root, ".git", "refs", "heads", "x")); err == nil {
		t.Error("a branch was made")
	}
}

// TestCommitWithoutIdentity commits where nobody has told git who does: inside a
// workspace the user's own configuration is not seen.
func TestCommitWithoutIdentity(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	env, _ := newEnv(t)
	for _, c := range []struct{ setup, want string }{
		{"git init -q -b main && echo a > a", "Croft <croft@localhost>"},
		{"git config user.name Ada && git config user.email ada@example.com && echo b > a", "Ada <ada@example.com>"},
	} {
		if out, err := call(t, env, "Bash", map[string]any{"command": c.setup}); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if _, err := call(t, env, "git_commit", map[string]any{"message": "m", "all": true}); err != nil {
			t.Fatal(err)
		}
		if got, err := call(t, env, "Bash", map[string]any{"command": "git log -1 --format='%an <%ae>'"}); err != nil || got != c.want+"\n" {
			t.Errorf("the author is %q, %v; want %q", got, err, c.want)
		}
	}
}

func TestLogNamesItsLimit(t *testing.T) {
	env, _ := newEnv(t)
	for _, limit := range []int{-1, 0, 501} {
		if _, err := call(t, env, "git_log", map[string]any{"limit": limit}); fault.Of(err) != fault.InvalidArgument || tool.ErrorText(err) != "limit must be between 1 and 500" {
			t.Errorf("a limit of %d is refused with %v", limit, err)
		}
	}
}
