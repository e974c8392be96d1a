package search

import (
	"fmt"
	"path"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A Plan is the rules of one walk over a tree: where it starts, which directories
// it enters and which files it selects. Paths are relative to the workspace. It is
// safe for concurrent use.
type Plan struct {
	// Path is the path that the caller named; it must exist.
	Path string

	// Start is where the walk begins: Path, or below it if the glob begins with
	// plain names. It may be missing; then nothing matches.
	Start string

	// GitIgnore enables .gitignore files, from the root of the workspace downwards.
	GitIgnore bool

	// Stop, if set, is checked while rules are matched; once it returns true,
	// nothing more is selected or entered.
	Stop func() bool

	hidden  bool
	prefix  int   // length of the path prefix that globs do not see
	glob    *Glob // of Glob
	include []*Glob
	exclude []*Glob
	prune   []*Glob // directories that exclude removes as a whole
}

// PlanGlob makes the plan of a Glob.
func PlanGlob(pattern string, o *driver.GlobOptions) (*Plan, error) {
	if o.Limit < 0 || o.Limit > driver.MaxGlobLimit {
		return nil, fmt.Errorf("%w: the limit is %d; 0 to %d are allowed", fault.InvalidArgument, o.Limit, driver.MaxGlobLimit)
	}
	g, err := NewGlob(pattern)
	if err != nil {
		return nil, err
	}
	p, err := newPlan(o.Path, o.GitIgnore, o.Hidden)
	if err != nil {
		return nil, err
	}
	p.glob, p.Start = g, Join(p.Path, g.Base())
	return p, nil
}

// PlanGrep makes the plan of a Grep.
func PlanGrep(o *driver.GrepOptions) (*Plan, error) {
	p, err := newPlan(o.Path, o.GitIgnore, o.Hidden)
	if err != nil {
		return nil, err
	}
	if p.include, err = newFilters(o.Include); err != nil {
		return nil, err
	}
	if p.exclude, err = newFilters(o.Exclude); err != nil {
		return nil, err
	}
	for _, pattern := range o.Exclude {
		if dir, ok := strings.CutSuffix(pattern, "/**"); ok && dir != "**" {
			g, err := NewGlob(dir)
			if err != nil {
				return nil, err
			}
			p.prune = append(p.prune, g)
		}
	}
	return p, nil
}

func newPlan(dir string, gitIgnore, hidden bool) (*Plan, error) {
	if dir == "" {
		dir = "."
	}
	switch {
	case strings.IndexByte(dir, 0) >= 0:
		return nil, fmt.Errorf("%w: the path has a NUL byte", fault.InvalidArgument)
	case path.IsAbs(dir):
		return nil, fmt.Errorf("%w: the path %q is absolute", fault.SandboxViolation, dir)
	}
	p := &Plan{Path: path.Clean(dir), GitIgnore: gitIgnore, hidden: hidden}
	if p.Path == ".." || strings.HasPrefix(p.Path, "../") {
		return nil, fmt.Errorf("%w: the path %q leads outside the workspace", fault.SandboxViolation, dir)
	}
	p.Start = p.Path
	if p.Path != "." {
		p.prefix = len(p.Path) + 1
	}
	return p, nil
}

func newFilters(patterns []string) ([]*Glob, error) {
	var globs []*Glob
	for _, pattern := range patterns {
		g, err := NewFilter(pattern)
		if err != nil {
			return nil, err
		}
		globs = append(globs, g)
	}
	return globs, nil
}

// Join joins two clean paths.
func Join(dir, name string) string {
	switch {
	case dir == ".":
		return name
	case name == ".":
		return dir
	}
	return dir + "/" + name
}

// Enters reports whether the walk enters the directory at path, whose last element
// is name.
func (p *Plan) Enters(path, name string, ig *Ignore) bool {
	if !p.isVisible(path, name, ig, true) {
		return false
	}
	rel := path[p.prefix:]
	if p.glob != nil {
		return p.glob.Descends(rel)
	}
	return !anyMatch(p.exclude, rel) && !anyMatch(p.prune, rel)
}

// Takes reports whether the entry at path, whose last element is name, is selected.
func (p *Plan) Takes(path, name string, isDir bool, ig *Ignore) bool {
	if !p.isVisible(path, name, ig, isDir) {
		return false
	}
	rel := path[p.prefix:]
	if p.glob != nil {
		return p.glob.Match(rel)
	}
	return (len(p.include) == 0 || anyMatch(p.include, rel)) && !anyMatch(p.exclude, rel)
}

// Reads reports whether name is a .gitignore file, and these are enabled.
func (p *Plan) Reads(name string) bool { return p.GitIgnore && name == IgnoreFile }

// isVisible applies the rules for dots and .gitignore.
func (p *Plan) isVisible(path, name string, ig *Ignore, isDir bool) bool {
	if p.GitIgnore && name == ".git" {
		return false
	}
	if name[0] == '.' && !p.hidden && !p.showsDotName(name) {
		return false
	}
	return ig == nil || !ig.ignores(path, isDir, p.Stop)
}

func (p *Plan) showsDotName(name string) bool {
	if p.glob != nil {
		return p.glob.Shows(name)
	}
	for _, g := range p.include {
		if g.Shows(name) {
			return true
		}
	}
	return false
}

func anyMatch(globs []*Glob, path string) bool {
	for _, g := range globs {
		if g.Match(path) {
			return true
		}
	}
	return false
}

// Above collects the .gitignore rules of the directories above Start. read returns
// the .gitignore of a directory, or nil. ok is false if the rules exclude Start
// itself, which comes from the glob and not from the caller.
func (p *Plan) Above(read func(dir string) []byte) (ig *Ignore, ok bool) {
	if !p.GitIgnore || p.Start == "." {
		return nil, true
	}
	ig = ig.With(".", read("."))
	for i := 0; i < len(p.Start); i++ {
		if p.Start[i] != '/' {
			continue
		}
		dir := p.Start[:i]
		if named := p.Path != "." && len(dir) <= len(p.Path); !named && ig.ignores(dir, true, p.Stop) {
			return nil, false
		}
		ig = ig.With(dir, read(dir))
	}
	if p.Start != p.Path && ig.ignores(p.Start, true, p.Stop) {
		return nil, false
	}
	return ig, true
}
