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

// Evidence lists the files and directories that a detection read.
type Evidence struct {
	Files []string // files whose content was read, sorted
	Dirs  []string // listed directories, sorted; the absence of a file is evidence, too

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

// Affects reports whether creating, writing or removing name may change the profile. It is
// for the events of a file watch: it checks the name only, and may return true needlessly.
// It can't detect a directory that was moved into the workspace as a whole; [Cache.Get]
// does.
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

// A stamp identifies a version of a file or directory.
type stamp struct {
	name    string
	dir     bool
	missing bool
	size    int64
	mtime   time.Time
	racy    bool // changed so recently that another change may have the same mtime
	sum     [sha256.Size]byte
}

// mtimeGranularity is the coarsest mtime resolution of a file system that is expected.
const mtimeGranularity = 2 * time.Second

// stat fills the stamp.
func (p *stamp) stat(fsys fs.FS, now time.Time) {
	info, err := fs.Stat(fsys, p.name)
	if err != nil {
		p.missing = true
		return
	}
	p.size, p.mtime = info.Size(), info.ModTime()
	if p.dir {
		p.size = 0 // file system specific; the mtime is enough
	}
	p.racy = p.mtime.IsZero() || now.Sub(p.mtime) < mtimeGranularity
}

// isUnchanged reports whether the file is unchanged. It costs one stat, unless the mtime is
// missing, too recent or different: then the content is compared, so that rewriting a file
// with the same text is no change. p is updated.
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
		entries, _ := fs.ReadDir(fsys, name) // unreadable is empty, as for the detectors
		return sumEntries(entries)
	}
	data, _ := readFile(fsys, name)
	return sha256.Sum256(data)
}

// sumEntries hashes names and types, not times: replacing a file by rename changes the
// mtime of its directory, but not its entries.
func sumEntries(entries []fs.DirEntry) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, e := range entries {
		h.Write([]byte(e.Name()))
		h.Write([]byte{0, byte(e.Type() >> 24), byte(e.Type() >> 16)})
	}
	h.Sum(sum[:0])
	return sum
}
