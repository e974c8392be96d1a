package search

import (
	"fmt"
	"path"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A Plan is the rules of one walk over a tree: where it starts, which
// directories it enters and which files it takes. Paths are relative to the
// workspace. Any number of goroutines may use it.
type Plan struct {
	// Path is what the caller named: it must exist.
	Path string

	// Start is where the walk begins: Path, or further down where the glob
	// itself begins with plain names. It may be missing, and then nothing matches.
	Start string

	// GitIgnore tells to read .gitignore files, from the workspace downwards.
	GitIgnore bool

	// Stop is asked while rules are held against names; from when it says true,
	// nothing more is taken or entered. nil never does.
	Stop func() bool

	hidden  bool
	prefix  int   // bytes of a path before what globs see
	glob    *Glob // of Glob
	include []*Glob
	exclude []*Glob
	prune   []*Glob // directories of which exclude leaves nothing
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
		return nil, fmt.Errorf("%w: the path %q climbs out", fault.SandboxViolation, dir)
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

// Enters reports whether the walk goes into the directory at path, which is
// called name.
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

// Takes reports whether the thing at path, which is called name, is wanted.
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

// Reads reports whether .gitignore files matter and the directory entry called
// name is one.
func (p *Plan) Reads(name string) bool { return p.GitIgnore && name == IgnoreFile }

// isVisible judges dots and .gitignore.
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

// Above collects the rules that hold at Start from the directories above it.
// read returns the .gitignore of a directory, nil for none. ok is false where
// the rules leave out Start itself, which the glob and not the caller named.
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
