package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// A matter is one of the things that a call is about.
type matter struct {
	text  string // as it is written; a path is cleaned
	leads string // of a path with symlinks: the file that it is; "" is the same
}

// String is how people are told of it.
func (m matter) String() string {
	if m.leads == "" {
		return m.text
	}
	return fmt.Sprintf("%s (which is %s)", m.text, m.leads)
}

// names are what rules are asked about.
func (m matter) names() []string {
	if m.leads == "" {
		return []string{m.text}
	}
	return []string{m.text, m.leads}
}

// isPath reports whether an argument that says what a call is about is a path.
func isPath(key string) bool {
	switch key {
	case "file_path", "path", "output_path", "file", "from":
		return true
	}
	return false
}

// matters returns all that a call is about: what it moves also where to, the files
// of a list, and of a patch the files in it. Where paths lead is looked for only
// where somebody reads it.
func (c *Call) matters(ctx context.Context, what subject, args map[string]json.RawMessage, read bool) []matter {
	if !isPath(what.key) {
		return append([]matter{{text: what.text}}, c.pathMatters(ctx, furtherPaths(args), read)...)
	}
	return c.pathMatters(ctx, append([]string{what.text}, furtherPaths(args)...), read)
}

func (c *Call) pathMatters(ctx context.Context, names []string, read bool) []matter {
	var list []matter
	for _, name := range names {
		m := matter{text: spelled(name, c.Root())}
		if clean, err := c.Workspace.Clean(name); err == nil {
			m.text = clean
		}
		if read {
			if m.leads = leads(ctx, c.Workspace, m.text); m.leads == m.text {
				m.leads = ""
			}
		}
		list = append(list, m)
	}
	return list
}

// furtherPaths returns the paths in the arguments beside the one that the call is
// about first.
func furtherPaths(args map[string]json.RawMessage) []string {
	var list []string
	var to, patch string
	if json.Unmarshal(args["to"], &to) == nil && to != "" {
		list = append(list, to)
	}
	for _, key := range []string{"paths", "files"} {
		var names []string
		if json.Unmarshal(args[key], &names) == nil {
			list = append(list, names...)
		}
	}
	if json.Unmarshal(args["patch"], &patch) != nil {
		return list
	}
	ops, err := parsePatch(patch)
	if err != nil {
		return list // the call says why
	}
	for _, op := range ops {
		for _, name := range []string{op.path, op.to} {
			if name != "" {
				list = append(list, name)
			}
		}
	}
	return list
}

// maxLinks is how many symlinks are followed, as the kernel does.
const maxLinks = 40

// leads returns the path of the file that a clean path leads to, with no symlink in
// it. What can't be followed stays as it is written: the call ends there, too.
func leads(ctx context.Context, ws *workspace.Workspace, name string) string {
	at, rest := ".", strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		part := rest[0]
		next := path.Join(at, part)
		rest = rest[1:]
		if next == at || part == ".." {
			at = next
			continue
		}
		info, err := ws.Stat(ctx, next, &workspace.StatOptions{NoFollow: true})
		if err != nil || info.Type == driver.TypeSymlink && links == maxLinks {
			return path.Join(append([]string{next}, rest...)...)
		}
		if info.Type != driver.TypeSymlink {
			at = next
			continue
		}
		links++
		target := info.Target
		if path.IsAbs(target) {
			if target, err = ws.Clean(target); err != nil {
				return path.Join(append([]string{next}, rest...)...)
			}
			at = "."
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at
}
