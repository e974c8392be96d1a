package autorun_test

import (
	"path"
	"slices"
	"strings"
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

// TestFiles: each row counts at the top and further down, in any case, as a file and as a
// directory.
func TestFiles(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range autorun.Files {
		name := strings.ReplaceAll(f.Path, "*", "x")
		for _, at := range []string{name, "a/b/" + name, strings.ToUpper(name), name + "/x", name + "."} {
			if !autorun.Is(at) {
				t.Errorf("Is(%q) is false", at)
			}
		}
		if seen[f.Path] {
			t.Errorf("%s is there twice", f.Path)
		}
		if seen[f.Path] = true; autorun.ReadOnly(name) == f.Writable || autorun.ReadOnly("sub/"+name) && !strings.HasPrefix(f.Path, "mise") {
			t.Errorf("ReadOnly(%q) is %v", name, !f.Writable)
		}
		first, rest, _ := strings.Cut(f.Path, "/")
		if want := path.Clean(rest); !slices.Contains(autorun.Below(strings.ReplaceAll(first, "*", "x")), want) {
			t.Errorf("Below(%q) lacks %q", first, want)
		}
	}
}

// TestKnownNames: what tools run without being asked, by what they document.
func TestKnownNames(t *testing.T) {
	for _, at := range strings.Fields(`
		.vscode/tasks.json .vscode/settings.json .vscode/launch.json .vscode/extensions.json .idea/workspace.xml .idea/runConfigurations/x.xml .devcontainer/devcontainer.json .devcontainer.json
		.zed/settings.json .zed/tasks.json .fleet/run.json x.code-workspace x.sublime-project .vim/coc-settings.json .nvim.lua .nvimrc .exrc .vimrc .lvimrc .dir-locals.el .helix/languages.toml
		.helix/config.toml .luarc.json .envrc .autoenv.zsh .shadowenv.d/x.lisp .rvmrc .tool-versions .mise.toml mise.toml mise.local.toml .mise.local.toml mise.production.toml mise/config.toml
		.mise/config.toml .config/mise/config.toml .config/mise/conf.d/x.toml .Rprofile .ghci .iex.exs .pryrc .irbrc .erlang .octaverc .gdbinit .lldbinit .gitmodules .pre-commit-config.yaml
		.overcommit.yml .husky/pre-commit lefthook.yml .lefthook.yml lefthook.yaml lefthook.toml lefthook-local.yml .lefthook-local.toml .ripgreprc .yarnrc.yml .yarnrc .pnpmfile.cjs
		.claude/settings.json .claude/settings.local.json .claude/agents/x.md .claude/skills/x/SKILL.md .claude/commands/x.md .mcp.json .cursor/mcp.json .cursor/hooks.json .cursor/worktrees.json
		.cursor/environment.json .codex/config.toml .codex/hooks.json .gemini/settings.json .gemini/extensions/x/y.json opencode.json opencode.jsonc .opencode/plugin/x.js .opencode/tool/x.ts
		.kiro/settings/mcp.json .kiro/hooks/x.json .roo/mcp.json .qwen/settings.json .github/hooks/x.json .windsurf/hooks.json .clinerules/hooks/x .factory/settings.json .factory/mcp.json
		.amazonq/mcp.json .amazonq/cli-agents/x.json .kilocode/mcp.json .junie/mcp/mcp.json .trae/mcp.json crush.json .crush.json .aider.conf.yml .amp/settings.json
		.cargo/config.toml rust-toolchain.toml .mvn/extensions.xml .bazelrc .github/workflows/ci.yml .gitlab-ci.yml .circleci/config.yml .travis.yml azure-pipelines.yml Jenkinsfile .drone.yml
		.gitea/workflows/x.yml .forgejo/workflows/x.yml .buildkite/pipeline.yml .gitpod.yml .replit
		.hg/hgrc .hg/store/x sub/.hg/hgrc .jj/repo/config.toml .sl/config .pijul/config _darcs/prefs/defaults .bzr/branch/branch.conf .svn/wc.db .fslckout _FOSSIL_ .HG/hgrc`) {
		if !autorun.Is(at) || !autorun.Is("packages/a/"+at) {
			t.Errorf("Is(%q) is false", at)
		}
	}
	for _, at := range strings.Fields(`main.go README.md Makefile package.json Cargo.toml pyproject.toml .gitignore .gitattributes .github/CODEOWNERS .github/dependabot.yml .claude/CLAUDE.md
		CLAUDE.md .cursor/rules/x.mdc .config/app.toml src/mise.go config.toml settings.json go.mod .eslintrc.js .prettierrc tsconfig.json .editorconfig hg jj .hgignore .hgtags .npmrc .env`) {
		if autorun.Is(at) {
			t.Errorf("Is(%q) is true", at)
		}
	}
}

func TestRepositoryIn(t *testing.T) {
	for at, want := range map[string]string{".hg/hgrc": ".hg", "a/.hg/store/x": "a/.hg", "a/.JJ": "a/.JJ", ".hg./x": ".hg.", "a/b": "", ".git/config": "", ".hgignore": ""} {
		if got := autorun.RepositoryIn(at); got != want {
			t.Errorf("RepositoryIn(%q) is %q, want %q", at, got, want)
		}
	}
}

func TestIs(t *testing.T) {
	for path, want := range map[string]bool{
		".envrc": true, "a/.envrc": true, ".vscode/tasks.json": true, ".VSCode/tasks.json": true, "a/.vscode": true, ".vscode./tasks.json": true,
		".mcp.json": true, "a/.mcp.json": true, ".claude/settings.json": true, ".claude": false,
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
