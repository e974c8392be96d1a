// Package autorun knows the names of autorun files: files of a project that a tool of
// the user runs, or takes commands from, without being asked. A workload that writes
// such a file would run code outside its workspace later.
package autorun

import (
	"path"
	"slices"
	"strings"
	"sync"
)

// A File is a row of the table of autorun files.
type File struct {
	// Path is a slash-separated path from any directory of a project. "*" in it stands for
	// any characters of a name.
	Path string

	// Writable says that the file stays writable in a directory in place, where a change is
	// reported: an agent is often asked to change it. The others are read-only at the top.
	Writable bool
}

// Files is the table, besides .git: what editors, shells, interpreters and debuggers run
// when they start in a directory or open it, hooks, servers and permissions of coding
// agents, programs that version control, package managers and language servers run, and CI,
// which runs at the next push.
var Files = slices.Concat(
	rows(false,
		".husky", ".vscode", ".idea", ".devcontainer", ".devcontainer.json", ".zed", ".fleet", ".nova", ".theia", "*.code-workspace", "*.sublime-project",
		".vim/coc-settings.json", ".vimrc", ".nvimrc", ".nvim.lua", ".exrc", ".lvimrc", ".vimspector.json", ".dir-locals.el", ".dir-locals-2.el", ".helix/*.toml", ".luarc.json", ".kakrc",
		".envrc", ".envrc.local", ".autoenv.zsh", ".autoenv", ".autoenv_leave.zsh", ".shadowenv.d", ".rvmrc", ".tool-versions", ".sdkmanrc",
		".mise.toml", "mise.toml", ".mise.*.toml", "mise.*.toml", ".mise/config.toml", ".mise/config.*.toml", "mise/config.toml", "mise/config.*.toml",
		".mise/conf.d/*.toml", "mise/conf.d/*.toml", ".config/mise/config.toml", ".config/mise/config.*.toml", ".config/mise/conf.d/*.toml", ".config/mise.toml", ".config/mise.*.toml",
		".Rprofile", ".ghci", ".haskeline", ".iex.exs", ".pryrc", ".irbrc", ".erlang", ".octaverc", ".gdbinit", ".lldbinit", ".psqlrc", ".sqliterc",
		".gitmodules", ".hgsub", ".pre-commit-config.yaml", ".pre-commit-config.yml", ".overcommit.yml",
		"lefthook.yml", ".lefthook.yml", "lefthook.yaml", ".lefthook.yaml", "lefthook.toml", ".lefthook.toml", "lefthook.json", ".lefthook.json",
		"lefthook-local.yml", ".lefthook-local.yml", "lefthook-local.yaml", ".lefthook-local.yaml", "lefthook-local.toml", ".lefthook-local.toml",
		".ripgreprc", ".yarnrc.yml", ".yarnrc", ".pnpmfile.cjs", ".gitpod.yml", ".replit",

		".claude/settings.json", ".claude/settings.local.json", ".claude/hooks", ".mcp.json", ".cursor/mcp.json", ".cursor/hooks.json", ".cursor/hooks",
		".cursor/worktrees.json", ".cursor/environment.json", ".codex/config.toml", ".codex/hooks.json", ".gemini/settings.json", ".gemini/extensions", ".gemini/hooks",
		"opencode.json", "opencode.jsonc", ".opencode/plugin", ".opencode/plugins", ".opencode/tool", ".opencode/tools", ".kiro/settings/mcp.json", ".kiro/hooks",
		".roo/mcp.json", ".qwen/settings.json", ".github/hooks", ".github/mcp.json", ".windsurf/hooks.json", ".windsurf/mcp.json", ".windsurf/mcp_config.json", ".clinerules/hooks", ".cline/mcp.json",
		".factory/settings.json", ".factory/settings.local.json", ".factory/mcp.json", ".factory/hooks", ".amazonq/mcp.json", ".amazonq/cli-agents", ".amazonq/default.json",
		".kilocode/mcp.json", ".junie/mcp/mcp.json", ".trae/mcp.json", "crush.json", ".crush.json", ".aider.conf.yml", ".amp/settings.json", ".augment/settings.json",
		".continue/mcpServers", ".continue/config.yaml", ".goose/config.yaml", ".vibe/config.toml",

		".hg/hgrc", ".hg/hgrc-not-shared", ".hg/sharedpath", ".jj/repo/config.toml", ".jj/workspace-config.toml", ".jj/repo/store/git_target", ".jj/repo/store/git/config",
		".sl/config", ".sl/sharedpath", ".pijul/config", "_darcs/prefs/defaults", ".bzr/branch/branch.conf",
	),
	rows(true,
		".claude/agents", ".claude/commands", ".claude/skills",
		".cargo/config.toml", ".cargo/config", "rust-toolchain.toml", "rust-toolchain", ".mvn/extensions.xml", ".mvn/jvm.config", ".bazelrc", ".clangd", ".yarn/plugins", ".yarn/releases",
		".github/workflows", ".github/actions", ".gitlab-ci.yml", ".circleci", ".travis.yml", "azure-pipelines.yml", "bitbucket-pipelines.yml", "Jenkinsfile", ".drone.yml",
		".woodpecker.yml", ".woodpecker.yaml", ".woodpecker", ".buildkite", ".gitea/workflows", ".forgejo/workflows", ".cirrus.yml", ".appveyor.yml", "appveyor.yml",
		".fslckout", "_FOSSIL_",
	),
)

func rows(writable bool, paths ...string) []File {
	var list []File
	for _, p := range paths {
		list = append(list, File{p, writable})
	}
	return list
}

// Repositories are the names of directories and files, besides .git, in which version
// control keeps a working copy's repository, with hooks and configuration: Mercurial, Jujutsu,
// Sapling, Pijul, darcs, Breezy, Subversion and Fossil.
var Repositories = []string{".hg", ".jj", ".sl", ".pijul", "_darcs", ".bzr", ".svn", ".fslckout", "_FOSSIL_"}

// index has the table by the first name of each path, in lower case.
var index = sync.OnceValue(func() (t struct {
	exact map[string][][]string // further names, by first name
	globs [][]string            // those whose first name has a "*": they have no further one
	below map[string][]string   // further names as one path, as they are in the table
}) {
	t.exact, t.below = map[string][][]string{}, map[string][]string{}
	for _, f := range Files {
		names := strings.Split(strings.ToLower(f.Path), "/")
		if strings.Contains(names[0], "*") {
			t.globs = append(t.globs, names)
			continue
		}
		_, rest, _ := strings.Cut(f.Path, "/")
		t.exact[names[0]] = append(t.exact[names[0]], names[1:])
		t.below[names[0]] = append(t.below[names[0]], path.Clean(rest))
	}
	return t
})

// Below returns the paths, from a directory entry, of the autorun files that its name begins:
// "." for the entry itself, "settings.json" for .claude. The last name of a path may have a "*".
func Below(name string) []string {
	name = strings.ToLower(name)
	list := index().below[name]
	if slices.ContainsFunc(index().globs, func(row []string) bool { return matchName(row[0], name) }) {
		list = append(slices.Clip(list), ".")
	}
	return list
}

// ReadOnly reports whether an autorun file at a path from the top of a directory in place
// is read-only.
func ReadOnly(at string) bool {
	names := strings.Split(strings.ToLower(at), "/")
	return slices.ContainsFunc(Files, func(f File) bool {
		return !f.Writable && matchNames(strings.Split(strings.ToLower(f.Path), "/"), names)
	})
}

// Links lists the paths of the table without "*", at which a symlink may lead to an
// autorun file.
func Links() []string {
	var list []string
	for _, f := range Files {
		if !strings.Contains(f.Path, "*") {
			list = append(list, f.Path)
		}
	}
	return list
}

// matchNames compares names with a row's, in lower case.
func matchNames(row, names []string) bool { return slices.EqualFunc(row, names, matchName) }

func matchName(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
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

// RepositoryIn returns the path of the first entry of a slash-separated path that is one of
// Repositories, in any case; "" if there is none.
func RepositoryIn(at string) string {
	names := strings.Split(at, "/")
	for i, name := range portableNames(at) {
		if isRepository(name) {
			return path.Join(names[:i+1]...)
		}
	}
	return ""
}

// isRepository expects a name in lower case.
func isRepository(name string) bool {
	return slices.ContainsFunc(Repositories, func(r string) bool { return strings.EqualFold(r, name) })
}

// IsRepository reports whether an entry is one of Repositories.
func IsRepository(name string) bool { return isRepository(portableName(name)) }

// Is reports whether a slash-separated path is an autorun file or one of Repositories, or
// lies in one. It is strict, for files that leave a workspace: any case, and PackageDirs make
// no difference.
func Is(at string) bool { return RepositoryIn(at) != "" || IsFile(at) }

// IsFile is Is without Repositories.
func IsFile(at string) bool {
	names := portableNames(at)
	for i, name := range names {
		for _, rest := range index().exact[name] {
			if below := names[i+1:]; len(below) >= len(rest) && matchNames(rest, below[:len(rest)]) {
				return true
			}
		}
		if slices.ContainsFunc(index().globs, func(row []string) bool { return matchName(row[0], name) }) {
			return true
		}
	}
	return false
}

// IsParent reports whether a slash-separated path is a directory of a path of the table, so
// that a symlink there would lead to an autorun file.
func IsParent(at string) bool {
	names := portableNames(at)
	for i, name := range names {
		for _, rest := range index().exact[name] {
			if n := len(names) - i - 1; n < len(rest) && matchNames(rest[:n], names[i+1:]) {
				return true
			}
		}
	}
	return false
}

// portableNames returns the names of a path in lower case, without what file systems ignore.
func portableNames(at string) []string {
	names := strings.Split(strings.ToLower(at), "/")
	for i := range names {
		names[i] = portableName(names[i])
	}
	return names
}
