package profile

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/paths"
)

// Options bound a detection. Nil and the zero value are the defaults.
type Options struct {
	MaxDepth    int // how far below the root to walk; 0 is 4, negative is the root only
	MaxDirs     int // how many directories to list in the walk; 0 is 1000
	MaxProjects int // how many projects to return; 0 is 500
}

func (o *Options) orDefaults() Options {
	out := Options{MaxDepth: 4, MaxDirs: 1000, MaxProjects: 500}
	if o == nil {
		return out
	}
	if o.MaxDepth != 0 {
		out.MaxDepth = max(o.MaxDepth, 0)
	}
	if o.MaxDirs > 0 {
		out.MaxDirs = o.MaxDirs
	}
	if o.MaxProjects > 0 {
		out.MaxProjects = o.MaxProjects
	}
	return out
}

// Detect finds the projects in fsys. It fails only if the root can't be listed, with the
// error of the file system. Other problems are warnings.
func Detect(fsys fs.FS, opts *Options) (Profile, error) {
	s, o := newScan(fsys), opts.orDefaults()
	if err := s.listDir(".").err; err != nil {
		return Profile{}, fmt.Errorf("profile: list workspace: %w", err)
	}
	truncated := s.walk(o)
	s.separateProjects()
	p := Profile{Projects: make([]Project, 0, len(s.found)), Truncated: truncated, Evidence: s.evidence()}
	for _, q := range s.found {
		p.Projects = append(p.Projects, *q)
	}
	for _, d := range p.Evidence.Dirs {
		if err := s.dirs[d].err; err != nil {
			p.Warnings = append(p.Warnings, Warning{File: d, Message: withoutPath(err).Error()})
		}
	}
	return p, nil
}

// detectors are in the order in which projects of one directory are listed. Manifests that
// rarely exist for tooling alone come first: a package.json next to a go.mod or a Gemfile
// usually serves the other project.
var detectors = []func(*scan, string) *Project{
	detectGo, detectRust, detectMaven, detectGradle, detectDotnet, detectElixir, detectRuby, detectPHP,
	detectPython, detectDeno, detectNode, detectCMake, detectMake,
}

// walk visits directories breadth first, so that a project is found before the projects
// inside it. It reports whether a limit ended it.
func (s *scan) walk(o Options) (truncated bool) {
	seen := map[string]bool{}
	queue := []string{"."}
	for len(queue) > 0 {
		dir := queue[0]
		queue = queue[1:]
		if seen[dir] {
			continue
		}
		if len(seen) >= o.MaxDirs {
			return true
		}
		seen[dir] = true
		s.visitDir(dir)
		if len(s.found) > o.MaxProjects {
			s.found = s.found[:o.MaxProjects]
			return true
		}
		queue = append(queue, s.memberDirs...)
		s.memberDirs = nil
		if dirDepth(dir) < o.MaxDepth {
			queue = append(queue, s.subdirs(dir)...)
		}
	}
	return false
}

func dirDepth(dir string) int {
	if dir == "." {
		return 0
	}
	return strings.Count(dir, "/") + 1
}

func (s *scan) visitDir(dir string) {
	var here []*Project
	for _, detect := range detectors {
		if p := detect(s, dir); p != nil {
			here = append(here, p)
			s.found = append(s.found, p)
		}
	}
	if dir == "." && len(here) == 0 {
		if p := loosePython(s, dir); p != nil {
			here, s.found = []*Project{p}, append(s.found, p)
		}
	}
	// A project with tests is more likely the main one.
	slices.SortStableFunc(here, func(a, b *Project) int {
		return cmp.Compare(boolRank(a.Test.IsZero()), boolRank(b.Test.IsZero()))
	})
	copy(s.found[len(s.found)-len(here):], here)
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (s *scan) subdirs(dir string) []string {
	var out []string
	for _, e := range s.listDir(dir).entries {
		if e.IsDir() && !isSkippedDir(e.Name()) {
			out = append(out, path.Join(dir, e.Name()))
		}
	}
	return out
}

// separateProjects sorts the projects and excludes from each command the directories that
// have a command of their own.
func (s *scan) separateProjects() {
	slices.SortStableFunc(s.found, func(a, b *Project) int {
		return cmp.Or(cmp.Compare(dirDepth(a.Dir), dirDepth(b.Dir)), cmp.Compare(a.Dir, b.Dir))
	})
	for _, outer := range s.found {
		for _, inner := range s.found {
			if inner.Ecosystem == outer.Ecosystem && inner.Dir != outer.Dir && paths.InsideName(outer.Dir, inner.Dir) {
				// Solution files are not parsed; a solution is assumed to have all projects below it.
				member := s.workspaceOf(inner.Ecosystem, inner.Dir) == outer || outer.Ecosystem == Dotnet
				excludeInner(outer, inner, member)
			}
		}
	}
}

// excludeInner excludes inner's directory from those commands of outer that inner has
// itself. The build tool of a workspace covers its members, so there only tools with a
// configuration of their own (format, lint) are separated.
func excludeInner(outer, inner *Project, member bool) {
	outs, ins := outer.commands(), inner.commands()
	for i := range outs {
		if outs[i].IsZero() || ins[i].IsZero() || outs[i].Dir != outer.Dir || ins[i].Dir != inner.Dir {
			continue
		}
		if member && outer.Ecosystem != Node && outer.Ecosystem != Python {
			continue
		}
		outs[i].Except = append(outs[i].Except, inner.Dir)
	}
}

// inheritCommands copies commands that a member lacks from its workspace. They run in the
// workspace's directory, where their configuration is.
func inheritCommands(member, root *Project) {
	outs, ins := root.commands(), member.commands()
	for i := range outs {
		if !ins[i].IsZero() || outs[i].IsZero() || outs[i] == &root.Build || outs[i] == &root.Test || outs[i] == &root.ScopedTest {
			continue
		}
		c := *outs[i]
		c.Except = nil
		if outs[i] != &root.Install {
			c.Under = member.Dir
		}
		*ins[i] = c
	}
	member.DepsDir = cmp.Or(member.DepsDir, root.DepsDir)
}

// neverHasProject reports whether a directory is never searched, whatever a manifest
// declares.
func neverHasProject(name string) bool {
	switch name {
	case "node_modules", ".git", ".hg", ".svn", "__pycache__", ".venv":
		return true
	}
	return false
}

// isSkippedDir reports whether the walk skips a directory: build output, dependencies and
// test fixtures.
func isSkippedDir(name string) bool {
	if neverHasProject(name) || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return true
	}
	switch name {
	case "vendor", "target", "dist", "build", "out", "obj", "venv", "env", "virtualenv", "site-packages", "deps",
		"coverage", "bower_components", "jspm_packages", "testdata", "__fixtures__", "fixtures", "Pods", "DerivedData",
		"third_party", "tmp", "temp", "log", "logs":
		return true
	}
	return strings.HasPrefix(name, "cmake-build-") || strings.HasPrefix(name, "bazel-") || strings.HasSuffix(name, ".egg-info")
}
