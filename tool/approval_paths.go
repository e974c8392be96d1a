package tool

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// A ruleTarget is a text of a call that rules are matched against: its command, a path, a
// name.
type ruleTarget struct {
	text     string // as written; a path is cleaned
	resolved string // the path with symlinks resolved; "" if it equals text
}

// String returns the target for questions and events.
func (m ruleTarget) String() string {
	if m.resolved == "" {
		return m.text
	}
	return fmt.Sprintf("%s (which is %s)", m.text, m.resolved)
}

// spellings returns the texts that rules are matched against.
func (m ruleTarget) spellings() []string {
	if m.resolved == "" {
		return []string{m.text}
	}
	return []string{m.text, m.resolved}
}

// ruleTargets returns the subject of a call and every path in its arguments. Symlinks are
// resolved only if resolve is set, which costs a stat for each path element.
func (c *Call) ruleTargets(ctx context.Context, subjects []subject, resolve bool) []ruleTarget {
	var list []ruleTarget
	if what := primarySubject(subjects, ""); what.text != "" && what.kind != driver.ArgPath {
		list = append(list, ruleTarget{text: what.text})
	}
	for _, s := range subjects {
		for _, name := range s.paths() {
			list = append(list, c.pathTarget(ctx, name, resolve))
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

func (c *Call) pathTarget(ctx context.Context, name string, resolve bool) ruleTarget {
	m := ruleTarget{text: relativeToRoot(name, c.Root())}
	if clean, err := c.Workspace.Clean(name); err == nil {
		m.text = clean
	}
	if resolve {
		if m.resolved = resolveSymlinks(ctx, c.Workspace, m.text); m.resolved == m.text {
			m.resolved = ""
		}
	}
	return m
}

// maxLinks is the number of symlinks that are followed, as in Linux.
const maxLinks = 40

// resolveSymlinks resolves the symlinks of a clean path. A path that can't be resolved is
// returned as written: the call fails on it, too.
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
