package autorun_test

import (
	"testing"

	"github.com/croft-run/croft/internal/autorun"
)

func TestIsGit(t *testing.T) {
	for name, want := range map[string]bool{
		".git": true, ".GIT": true, ".Git": true, "git~1": true, "GIT~1": true, ".git ": true, ".git.": true, ".git . ": true,
		".git::$INDEX_ALLOCATION": true, ".g\u200cit": true, "\ufeff.git": true, ".gi\u206ft": true,
		"": false, "git": false, ".gitignore": false, ".github": false, "git~2": false, "a.git": false, ".gitx": false, "x.git ": false,
	} {
		if got := autorun.IsGit(name); got != want {
			t.Errorf("IsGit(%q) is %v, want %v", name, got, want)
		}
	}
	for path, want := range map[string]bool{".git": true, "a/.git/config": true, "a/.GIT": true, "a/b": false, "a/.gitignore": false} {
		if got := autorun.InGit(path); got != want {
			t.Errorf("InGit(%q) is %v, want %v", path, got, want)
		}
	}
}

func TestIs(t *testing.T) {
	for path, want := range map[string]bool{
		".envrc": true, "a/.envrc": true, ".vscode/tasks.json": true, ".VSCode/tasks.json": true, "a/.vscode": true, ".vscode./tasks.json": true,
		".mcp.json": true, "a/.mcp.json": true, ".claude/settings.json": true, ".claude/agents/x.md": false, ".claude": false,
		".opencode/plugin/x.js": true, ".opencode/tool/x.ts": true, "a/.kiro/settings/mcp.json": true, ".kiro/specs/x.md": false,
		"lefthook.yaml": true, ".mise/config.toml": true, ".config/mise/config.toml": true, ".config/x": false, "a/b.Code-Workspace": true, "src/main.go": false, "vscode": false, ".gitignore": false,
	} {
		if got := autorun.Is(path); got != want {
			t.Errorf("Is(%q) is %v, want %v", path, got, want)
		}
	}
	for path, want := range map[string]bool{".claude": true, "a/.Claude": true, ".opencode": true, ".kiro/settings": true, "settings": false, ".mcp.json": false, "src": false} {
		if got := autorun.IsParent(path); got != want {
			t.Errorf("IsParent(%q) is %v, want %v", path, got, want)
		}
	}
}

func TestIsName(t *testing.T) {
	for name, want := range map[string]bool{".envrc": true, "p.code-workspace": true, "main.go": false} {
		if got := autorun.IsName(name); got != want {
			t.Errorf("IsName(%q) is %v, want %v", name, got, want)
		}
	}
}
