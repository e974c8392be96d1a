package tool

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// A ruleTarget is one of the things that a call is about.
type ruleTarget struct {
	text     string // as it is written; a path is cleaned
	resolved string // of a path with symlinks: the file that it is; "" is the same
}

// String is how people are told of it.
func (m ruleTarget) String() string {
	if m.resolved == "" {
		return m.text
	}
	return fmt.Sprintf("%s (which is %s)", m.text, m.resolved)
}

// spellings are what rules are asked about.
func (m ruleTarget) spellings() []string {
	if m.resolved == "" {
		return []string{m.text}
	}
	return []string{m.text, m.resolved}
}

// ruleTargets returns all that a call is about: its subject, and every path that its
// arguments name. Where paths lead is looked for only where a rule reads it.
func (c *Call) ruleTargets(ctx context.Context, subjects []subject, read bool) []ruleTarget {
	var list []ruleTarget
	if what := primarySubject(subjects, ""); what.text != "" && what.kind != driver.ArgPath {
		list = append(list, ruleTarget{text: what.text})
	}
	for _, s := range subjects {
		for _, name := range s.paths() {
			list = append(list, c.pathTarget(ctx, name, read))
		}
		if s.kind == argUnknown {
			list = append(list, ruleTarget{text: s.text})
		}
	}
	if len(list) == 0 {
		return []ruleTarget{{}}
	}
	return list
}

func (c *Call) pathTarget(ctx context.Context, name string, read bool) ruleTarget {
	m := ruleTarget{text: relativeToRoot(name, c.Root())}
	if clean, err := c.Workspace.Clean(name); err == nil {
		m.text = clean
	}
	if read {
		if m.resolved = resolveSymlinks(ctx, c.Workspace, m.text); m.resolved == m.text {
			m.resolved = ""
		}
	}
	return m
}

// maxLinks is how many symlinks are followed, as the kernel does.
const maxLinks = 40

// resolveSymlinks returns the path of the file that a clean path leads to, with no symlink in
// it. What can't be followed stays as it is written: the call ends there, too.
func resolveSymlinks(ctx context.Context, ws *workspace.Workspace, name string) string {
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
