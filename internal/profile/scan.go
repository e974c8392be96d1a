package profile

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/internal/paths"
)

// maxManifest bounds a file that is read. Real manifests are far smaller.
const maxManifest = 1 << 20

// A scan reads files for the detectors and records every access, so that the evidence is
// complete.
type scan struct {
	fsys     fs.FS
	start    time.Time
	dirs     map[string]*dirListing
	files    map[string]*fileContent
	names    map[string]bool // base names that were looked up, found or not
	patterns map[string]bool // the same for patterns

	found      []*Project
	members    map[Ecosystem]map[string]*Project // directory of a member -> the workspace it is in
	memberDirs []string                          // to visit regardless of the limits of the walk
}

type dirListing struct {
	entries []fs.DirEntry
	byName  map[string]fs.DirEntry
	err     error
	stamp   stamp
}

type fileContent struct {
	data  []byte
	err   error
	stamp stamp
}

func newScan(fsys fs.FS) *scan {
	return &scan{
		fsys: fsys, start: time.Now(), dirs: map[string]*dirListing{}, files: map[string]*fileContent{},
		names: map[string]bool{}, patterns: map[string]bool{}, members: map[Ecosystem]map[string]*Project{},
	}
}

// listDir reads a directory once. An unreadable directory is empty.
func (s *scan) listDir(dir string) *dirListing {
	if l, ok := s.dirs[dir]; ok {
		return l
	}
	l := &dirListing{byName: map[string]fs.DirEntry{}, stamp: stamp{name: dir, dir: true}}
	l.stamp.stat(s.fsys, s.start)
	l.entries, l.err = fs.ReadDir(s.fsys, dir)
	l.stamp.sum = sumEntries(l.entries)
	for _, e := range l.entries {
		l.byName[e.Name()] = e
	}
	s.dirs[dir] = l
	return l
}

// findEntry finds name, which may have several elements, below dir.
func (s *scan) findEntry(dir, name string) fs.DirEntry {
	s.names[path.Base(name)] = true
	for {
		head, rest, more := strings.Cut(name, "/")
		e := s.listDir(dir).byName[head]
		if e == nil || !more {
			return e
		}
		s.names[head] = true
		if !s.isDirEntry(dir, e) {
			return nil
		}
		dir, name = path.Join(dir, head), rest
	}
}

// isDirEntry reports whether an entry is a directory, following symlinks.
func (s *scan) isDirEntry(dir string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := fs.Stat(s.fsys, path.Join(dir, e.Name()))
	return err == nil && info.IsDir()
}

// hasFile reports whether dir has a file name.
func (s *scan) hasFile(dir, name string) bool {
	e := s.findEntry(dir, name)
	if e == nil {
		return false
	}
	if e.Type()&fs.ModeSymlink == 0 {
		return e.Type().IsRegular()
	}
	info, err := fs.Stat(s.fsys, path.Join(dir, name))
	return err == nil && info.Mode().IsRegular()
}

// hasDir reports whether dir has a directory name.
func (s *scan) hasDir(dir, name string) bool {
	e := s.findEntry(dir, name)
	return e != nil && s.isDirEntry(path.Join(dir, path.Dir(name)), e)
}

// firstFile returns the path of the first of names that is a file in dir, or "".
func (s *scan) firstFile(dir string, names ...string) string {
	found := ""
	for _, n := range names {
		if s.hasFile(dir, n) && found == "" {
			found = path.Join(dir, n)
		}
	}
	return found
}

// glob returns the paths of the matching files in dir, in order.
func (s *scan) glob(dir string, patterns ...string) []string {
	var out []string
	for _, p := range patterns {
		s.patterns[p] = true
	}
	for _, e := range s.listDir(dir).entries {
		if !e.IsDir() && slices.ContainsFunc(patterns, func(p string) bool { return matchName(p, e.Name()) }) {
			out = append(out, path.Join(dir, e.Name()))
		}
	}
	return out
}

// read returns the content of a file; it is read once.
func (s *scan) read(name string) ([]byte, error) {
	if c, ok := s.files[name]; ok {
		return c.data, c.err
	}
	c := &fileContent{stamp: stamp{name: name}}
	c.stamp.stat(s.fsys, s.start)
	c.data, c.err = readFile(s.fsys, name)
	c.stamp.sum = sha256.Sum256(c.data)
	s.files[name] = c
	s.names[path.Base(name)] = true
	return c.data, c.err
}

// readText returns the content of a file for searching; an unreadable file is empty, with a
// warning.
func (s *scan) readText(p *Project, name string) string {
	if name == "" {
		return ""
	}
	data, err := s.read(name)
	if err != nil {
		p.warn(name, "%v", err)
	}
	return string(data)
}

func readFile(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer func() { _ = f.Close() }() // opened for reading only
	data, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, withoutPath(err)
	}
	if len(data) > maxManifest {
		return nil, fmt.Errorf("larger than %d bytes", maxManifest)
	}
	return data, nil
}

// withoutPath removes the path from a file system error; the warning has it already.
func withoutPath(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// nearestProject returns the innermost project of an ecosystem above dir.
func (s *scan) nearestProject(eco Ecosystem, dir string) *Project {
	var best *Project
	for _, p := range s.found {
		if p.Ecosystem == eco && p.Dir != dir && paths.InsideName(p.Dir, dir) && (best == nil || paths.InsideName(best.Dir, p.Dir)) {
			best = p
		}
	}
	return best
}

// workspaceOf returns the project that declares dir as its member.
func (s *scan) workspaceOf(eco Ecosystem, dir string) *Project { return s.members[eco][dir] }

// declareMembers adds the directories that match patterns as members of p. A pattern with a
// leading "!" removes members.
func (s *scan) declareMembers(p *Project, manifest string, patterns []string) {
	var dirs []string
	for _, pattern := range patterns {
		rest, negative := strings.CutPrefix(pattern, "!")
		matched := s.expandDirs(p.Dir, rest)
		if negative {
			dirs = slices.DeleteFunc(dirs, func(d string) bool { return slices.Contains(matched, d) })
			continue
		}
		dirs = append(dirs, matched...)
	}
	slices.Sort(dirs)
	for _, d := range slices.Compact(dirs) {
		if d == p.Dir || !s.hasFile(d, manifest) {
			continue
		}
		if s.members[p.Ecosystem] == nil {
			s.members[p.Ecosystem] = map[string]*Project{}
		}
		s.members[p.Ecosystem][d] = p
		p.Members = append(p.Members, d)
		s.memberDirs = append(s.memberDirs, d)
	}
}

// maxMembers bounds the directories of one pattern.
const maxMembers = 1000

// expandDirs returns the directories below base that match a workspace pattern: "*" within
// an element, "**" for any number of elements.
func (s *scan) expandDirs(base, pattern string) []string {
	pattern = path.Clean(strings.TrimSuffix(pattern, "/"))
	if pattern == "." || path.IsAbs(pattern) || strings.HasPrefix(pattern, "..") {
		return nil
	}
	dirs := []string{base}
	for _, part := range strings.Split(pattern, "/") {
		var next []string
		for _, d := range dirs {
			next = append(next, s.matchElement(d, part)...)
		}
		if dirs = next; len(dirs) > maxMembers {
			dirs = dirs[:maxMembers]
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func (s *scan) matchElement(dir, part string) []string {
	if part == "**" {
		return s.dirsBelow(dir, 5)
	}
	if !strings.ContainsAny(part, "*?[{") {
		if s.hasDir(dir, part) {
			return []string{path.Join(dir, part)}
		}
		return nil
	}
	var out []string
	for _, alternative := range expandBraces(part) {
		for _, e := range s.listDir(dir).entries {
			if e.IsDir() && !neverHasProject(e.Name()) && matchName(alternative, e.Name()) {
				out = append(out, path.Join(dir, e.Name()))
			}
		}
	}
	return out
}

func (s *scan) dirsBelow(dir string, depth int) []string {
	out := []string{dir}
	if depth == 0 {
		return out
	}
	for _, e := range s.listDir(dir).entries {
		if e.IsDir() && !isSkippedDir(e.Name()) && len(out) < maxMembers {
			out = append(out, s.dirsBelow(path.Join(dir, e.Name()), depth-1)...)
		}
	}
	return out
}

// expandBraces expands one "{a,b}" of a pattern.
func expandBraces(p string) []string {
	head, rest, ok := strings.Cut(p, "{")
	body, tail, closed := strings.Cut(rest, "}")
	if !ok || !closed {
		return []string{p}
	}
	var out []string
	for _, alternative := range strings.Split(body, ",") {
		out = append(out, head+alternative+tail)
	}
	return out
}
