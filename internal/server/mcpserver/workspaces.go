package mcpserver

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/tool"
)

// ParseWorkspaces returns the directories of the flags --dir and --dirs, as
// absolute paths by name; only one of both may be given. Without both it is the current directory.
func ParseWorkspaces(one, many string) (map[string]string, error) {
	if many == "" {
		return singleWorkspace(one)
	}
	out := map[string]string{}
	i := 0
	for entry := range strings.SplitSeq(many, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		name, dir, err := parseEntry(i, entry)
		if err != nil {
			return nil, err
		}
		if _, dup := out[name]; dup {
			return nil, fmt.Errorf("workspace[%d]: duplicate name %q: %w", i, name, fault.InvalidArgument)
		}
		out[name] = dir
		i++
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("workspaces: no entries parsed from %q: %w", many, fault.InvalidArgument)
	}
	return out, nil
}

// singleWorkspace is one directory under its base name.
func singleWorkspace(dir string) (map[string]string, error) {
	if dir == "" {
		dir = "."
	}
	abs, err := resolveDir(dir)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(abs)
	if tool.CheckName(name) != nil || name == string(filepath.Separator) {
		name = "workspace"
	}
	return map[string]string{name: abs}, nil
}

// parseEntry reads NAME=DIR or DIR.
func parseEntry(i int, entry string) (name, dir string, err error) {
	name, dir, named := strings.Cut(entry, "=")
	if !named {
		name, dir = "", entry
	}
	name, dir = strings.TrimSpace(name), strings.TrimSpace(dir)
	if dir == "" {
		return "", "", fmt.Errorf("workspaces: empty path in entry %q: %w", entry, fault.InvalidArgument)
	}
	if dir, err = resolveDir(dir); err != nil {
		return "", "", err
	}
	if name == "" {
		if name = filepath.Base(dir); name == string(filepath.Separator) {
			return "", "", fmt.Errorf("workspace[%d]: cannot derive a non-empty name from root %q; pass an explicit name: %w", i, dir, fault.InvalidArgument)
		}
	}
	return name, dir, tool.CheckName(name)
}

// resolveDir returns the absolute path of an existing directory. It expands ~, which
// shells leave in NAME=~/DIR.
func resolveDir(dir string) (string, error) {
	if rest, ok := strings.CutPrefix(dir, "~"); ok && (rest == "" || rest[0] == filepath.Separator) {
		if home, err := os.UserHomeDir(); err == nil {
			dir = home + rest
		}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("mcpserver: directory %s: %w: %w", dir, fault.InvalidArgument, err)
	}
	info, err := os.Stat(abs)
	switch {
	case os.IsNotExist(err):
		return "", fault.Advise(tool.Errorf(fault.NotFound, "Workspace path does not exist: %s", abs), "give a directory that exists")
	case err != nil:
		return "", fmt.Errorf("mcpserver: directory %s: %w", abs, err)
	case !info.IsDir():
		return "", fault.Advise(tool.Errorf(fault.InvalidArgument, "Workspace path is not a directory: %s", abs), "give a directory, not a file")
	}
	return abs, nil
}

// StartLine is the line about its workspaces that a server prints at the start.
func StartLine(dirs map[string]string) string {
	names := slices.Sorted(maps.Keys(dirs))
	if len(names) == 1 {
		return fmt.Sprintf("croft mcp: workspace %s at %s", names[0], dirs[names[0]])
	}
	return fmt.Sprintf("croft mcp multi-workspace mode: %d workspaces configured (%s)", len(names), strings.Join(names, ", "))
}
