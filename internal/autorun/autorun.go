// Package autorun knows the names of autorun files: files of a project that a tool of
// the user runs, or takes commands from, without being asked. A workload that writes
// such a file would run code outside its workspace later.
package autorun

import (
	"slices"
	"strings"
)

// Names are the names of autorun files at any level of a project, besides those of git:
// editor tasks, and configuration of tools that run by themselves.
var Names = []string{
	".husky", ".vscode", ".idea", ".devcontainer", ".zed", ".fleet", ".envrc", ".mise.toml", "mise.toml", ".tool-versions", ".gitmodules",
	".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml", ".ripgreprc", "lefthook.yaml", ".lefthook.yaml", "lefthook.toml", ".lefthook.toml",
	"lefthook-local.yml", ".lefthook-local.yml", "lefthook-local.yaml", ".lefthook-local.yaml", "lefthook-local.toml", ".lefthook-local.toml",
	"mise.local.toml", ".mise.local.toml", ".overcommit.yml", ".yarnrc.yml",
}

// workspaceSuffix is the end of the name of an editor workspace, which contains tasks.
const workspaceSuffix = ".code-workspace"

// IsName reports whether a name is one of Names, or that of an editor workspace.
func IsName(name string) bool {
	return slices.Contains(Names, name) || strings.HasSuffix(name, workspaceSuffix)
}

// TopNames are paths of autorun files at the top of a project: hooks and servers that
// coding agents start. Further down, in their home directories, agents write the same
// names all the time.
var TopNames = []string{
	".claude/settings.json", ".claude/settings.local.json", ".mcp.json", ".cursor/mcp.json", ".cursor/hooks.json", ".codex/config.toml",
	".gemini/settings.json", "opencode.json", "opencode.jsonc", ".opencode/plugin", ".opencode/plugins",
	".opencode/tool", ".opencode/tools", ".codex/hooks.json", ".kiro/settings/mcp.json", ".roo/mcp.json", ".qwen/settings.json",
	".mise/config.toml", ".config/mise/config.toml",
}

// PackageDirs are directories of installed packages, which may contain editor settings of
// their authors. Names do not count there.
var PackageDirs = []string{"node_modules", "vendor", ".venv", "site-packages"}

// IsGit reports whether a name is .git, or a name that git or a file system takes for
// .git on some host: any case, git~1 and trailing dots, spaces and streams (NTFS), and
// characters that HFS+ ignores.
func IsGit(name string) bool {
	// Most names are none of these, and this is called for each file of a walk.
	if len(name) < 4 || name[0] != '.' && name[0] != 'g' && name[0] != 'G' && name[0] < 0x80 {
		return false
	}
	name = portableName(name)
	return strings.EqualFold(name, ".git") || strings.EqualFold(name, "git~1")
}

// portableName removes from a name what NTFS and HFS+ ignore.
func portableName(name string) string {
	name, _, _ = strings.Cut(name, ":")
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return r
	}, name)
	return strings.TrimRight(name, " .")
}

// InGit reports whether a slash-separated path is a .git, or lies in one.
func InGit(path string) bool {
	for name := range strings.SplitSeq(path, "/") {
		if IsGit(name) {
			return true
		}
	}
	return false
}

// Is reports whether a slash-separated path is an autorun file, or lies in one. It is
// strict, for files that leave a workspace: any case, TopNames at any level, and
// PackageDirs make no difference.
func Is(path string) bool {
	names := portableNames(path)
	for i, name := range names {
		if strings.HasSuffix(strings.ToLower(name), workspaceSuffix) || slices.ContainsFunc(Names, func(n string) bool { return strings.EqualFold(n, name) }) {
			return true
		}
		for _, top := range TopNames {
			if want := strings.Split(top, "/"); len(names)-i >= len(want) && equalNames(want, names[i:i+len(want)]) {
				return true
			}
		}
	}
	return false
}

// IsParent reports whether a slash-separated path is a directory of a path of TopNames,
// so that a symlink there would lead to an autorun file.
func IsParent(path string) bool {
	names := portableNames(path)
	return slices.ContainsFunc(TopNames, func(top string) bool {
		want := strings.Split(top, "/")
		for n := 1; n < len(want) && n <= len(names); n++ {
			if equalNames(want[:n], names[len(names)-n:]) {
				return true
			}
		}
		return false
	})
}

func portableNames(path string) []string {
	names := strings.Split(path, "/")
	for i := range names {
		names[i] = portableName(names[i])
	}
	return names
}

func equalNames(a, b []string) bool {
	return slices.EqualFunc(a, b, strings.EqualFold)
}
