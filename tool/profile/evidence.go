package profile

import (
	"crypto/sha256"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// Evidence is what a detection looked at.
type Evidence struct {
	Files []string // files whose content was read, sorted
	Dirs  []string // directories whose entries were listed, sorted: what is absent from them is evidence too

	names    map[string]bool
	patterns map[string]bool
	stamps   []stamp
}

func (s *scan) evidence() Evidence {
	e := Evidence{
		Files: slices.Sorted(maps.Keys(s.files)), Dirs: slices.Sorted(maps.Keys(s.dirs)),
		names: s.names, patterns: s.patterns,
	}
	for _, d := range e.Dirs {
		e.stamps = append(e.stamps, s.dirs[d].stamp)
	}
	for _, f := range e.Files {
		e.stamps = append(e.stamps, s.files[f].stamp)
	}
	return e
}

// Affects reports whether a change of name, a file or directory that was made,
// written or removed, may change the profile. It is meant for the events of a
// watch: it looks at nothing but the name, and errs on the side of true. A
// directory that was moved into the workspace as a whole is the one thing a name
// can't tell; [Cache.Get] notices it.
func (e Evidence) Affects(name string) bool {
	name = path.Clean(name)
	if slices.ContainsFunc(strings.Split(path.Dir(name), "/"), neverHasProject) && !slices.Contains(e.Dirs, path.Dir(name)) {
		return false
	}
	base := path.Base(name)
	if e.names[base] || slices.Contains(e.Files, name) {
		return true
	}
	for p := range e.patterns {
		if matchName(p, base) {
			return true
		}
	}
	return slices.Contains(e.Dirs, name)
}

// A stamp tells whether a file or directory is still what it was.
type stamp struct {
	name    string
	dir     bool
	missing bool
	size    int64
	mtime   time.Time
	racy    bool // changed so lately that another change may leave the same time
	sum     [sha256.Size]byte
}

// mtimeGranularity is the coarsest clock a file system is assumed to stamp files with.
const mtimeGranularity = 2 * time.Second

// stat takes what a stat says.
func (p *stamp) stat(fsys fs.FS, now time.Time) {
	info, err := fs.Stat(fsys, p.name)
	if err != nil {
		p.missing = true
		return
	}
	p.size, p.mtime = info.Size(), info.ModTime()
	if p.dir {
		p.size = 0 // differs between file systems and says nothing that the time does not
	}
	p.racy = p.mtime.IsZero() || now.Sub(p.mtime) < mtimeGranularity
}

// isUnchanged reports whether nothing has changed. It costs one stat, unless the time
// can't be trusted (there is none, or it is too fresh) or differs: then the
// content decides, so that rewriting a file with the same text changes nothing.
// What it learns is kept in p for the next time.
func (p *stamp) isUnchanged(fsys fs.FS, now time.Time) bool {
	q := stamp{name: p.name, dir: p.dir}
	q.stat(fsys, now)
	if q.missing || p.missing {
		return q.missing == p.missing
	}
	if q.size != p.size {
		return false
	}
	if q.mtime.Equal(p.mtime) && !p.racy {
		return true
	}
	if q.sum = sumOf(fsys, p.name, p.dir); q.sum != p.sum {
		return false
	}
	*p = q
	return true
}

func sumOf(fsys fs.FS, name string, dir bool) [sha256.Size]byte {
	if dir {
		entries, _ := fs.ReadDir(fsys, name) // unreadable is empty, as it was for the detectors
		return sumEntries(entries)
	}
	data, _ := readFile(fsys, name)
	return sha256.Sum256(data)
}

// sumEntries covers names and types, not times: writing a file by rename
// touches its directory without changing what is in it.
func sumEntries(entries []fs.DirEntry) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, e := range entries {
		h.Write([]byte(e.Name()))
		h.Write([]byte{0, byte(e.Type() >> 24), byte(e.Type() >> 16)})
	}
	h.Sum(sum[:0])
	return sum
}
