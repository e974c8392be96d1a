package tool

import (
	"context"
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

// matters returns all that a call is about: its subject, and every path that its
// arguments name. Where paths lead is looked for only where a rule reads it.
func (c *Call) matters(ctx context.Context, subjects []subject, read bool) []matter {
	var list []matter
	if what := about(subjects, ""); what.text != "" && what.kind != driver.ArgPath {
		list = append(list, matter{text: what.text})
	}
	for _, s := range subjects {
		for _, name := range s.paths() {
			list = append(list, c.pathMatter(ctx, name, read))
		}
		if s.kind == argUnknown {
			list = append(list, matter{text: s.text})
		}
	}
	if len(list) == 0 {
		return []matter{{}}
	}
	return list
}

func (c *Call) pathMatter(ctx context.Context, name string, read bool) matter {
	m := matter{text: spelled(name, c.Root())}
	if clean, err := c.Workspace.Clean(name); err == nil {
		m.text = clean
	}
	if read {
		if m.leads = leads(ctx, c.Workspace, m.text); m.leads == m.text {
			m.leads = ""
		}
	}
	return m
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
