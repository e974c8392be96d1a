// Package changes has what differs between two trees of files, and what a merge did with it,
// as data: package snapshot finds and merges changes, and package client gets them from a
// server.
package changes

import (
	"encoding/json"
	"io/fs"
	"path"
	"unicode/utf8"

	"github.com/croft-run/croft/internal/autorun"
	"github.com/croft-run/croft/internal/textdiff"
	"github.com/croft-run/croft/workspace/driver"
)

// A GitChange is a git repository that differs. Its files are history, not content:
// they are not compared as files.
type GitChange struct {
	Path    string `json:"path"`    // of the directory .git
	Commits int    `json:"commits"` // made since, by the reflog of HEAD
	Refs    int    `json:"refs"`    // added, moved or removed
}

// A LeftOut is the changes that a comparison or a merge left out for one reason.
type LeftOut struct {
	Reason string   `json:"reason"` // see LeftOutIgnored and the others
	Total  int      `json:"total"`
	Paths  []string `json:"paths"` // the first MaxLeftOutListed of them
}

// Reasons for LeftOut.
const (
	LeftOutIgnored = "ignored" // .gitignore, or the list of caches
	LeftOutAutorun = "autorun" // an autorun file
	LeftOutSpecial = "special" // a FIFO, socket or device
)

// MaxLeftOutListed is the maximum of paths in a LeftOut.
const MaxLeftOutListed = 100

// ChangeKind is the kind of a change.
type ChangeKind string

// The kinds of changes.
const (
	Added    ChangeKind = "added"
	Removed  ChangeKind = "removed"
	Modified ChangeKind = "modified"
	Renamed  ChangeKind = "renamed"
	ModeOnly ChangeKind = "mode"
	Retyped  ChangeKind = "type" // a file became a directory, or the like
)

// A Comparison lists what differs between two trees, sorted by path.
type Comparison struct {
	Changes []FileChange `json:"changes"`
	Stats   Stats        `json:"stats"`
	Git     []GitChange  `json:"git,omitempty"`     // repositories, which are not compared as files
	LeftOut []LeftOut    `json:"leftOut,omitempty"` // what was not compared
}

// Stats are the totals of a comparison, over Comparison.Files.
type Stats struct {
	Added        int `json:"added"`
	Removed      int `json:"removed"`
	Modified     int `json:"modified"`
	Renamed      int `json:"renamed"`
	Mode         int `json:"mode"`
	LinesAdded   int `json:"linesAdded"`
	LinesRemoved int `json:"linesRemoved"`
}

// Files is the number of changes.
func (s Stats) Files() int { return s.Added + s.Removed + s.Modified + s.Renamed + s.Mode }

// A FileChange is a path that differs.
type FileChange struct {
	Path   string     `json:"path"`
	From   string     `json:"from,omitempty"` // the old path of a renamed file
	Kind   ChangeKind `json:"kind"`
	Old    *Side      `json:"old,omitempty"`
	New    *Side      `json:"new,omitempty"`
	Binary bool       `json:"binary,omitempty"`
	TooBig bool       `json:"tooBig,omitempty"` // to be compared as text

	LinesAdded   int             `json:"linesAdded,omitempty"`
	LinesRemoved int             `json:"linesRemoved,omitempty"`
	Hunks        []textdiff.Hunk `json:"hunks,omitempty"`

	// Patch is the output of git diff --binary for a file without hunks: its index
	// line, and the content of both sides.
	Patch string `json:"patch,omitempty"`
}

// MarshalJSON adds pathB64 and fromB64 for paths that are not UTF-8, which JSON
// can't represent: path and from then have a readable form.
func (c FileChange) MarshalJSON() ([]byte, error) {
	type plain FileChange
	out := struct {
		plain
		PathB64 []byte `json:"pathB64,omitempty"`
		FromB64 []byte `json:"fromB64,omitempty"`
	}{plain: plain(c)}
	if !utf8.ValidString(c.Path) {
		out.PathB64 = []byte(c.Path)
	}
	if !utf8.ValidString(c.From) {
		out.FromB64 = []byte(c.From)
	}
	return json.Marshal(out)
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (c *FileChange) UnmarshalJSON(data []byte) error {
	type plain FileChange
	in := struct {
		*plain
		PathB64 []byte `json:"pathB64"`
		FromB64 []byte `json:"fromB64"`
	}{plain: (*plain)(c)}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	if in.PathB64 != nil {
		c.Path = string(in.PathB64)
	}
	if in.FromB64 != nil {
		c.From = string(in.FromB64)
	}
	return nil
}

// A Side describes a path in one of the trees.
type Side struct {
	Type   driver.FileType `json:"type"`
	Mode   fs.FileMode     `json:"mode"`
	Size   int64           `json:"size"`
	Digest string          `json:"digest,omitempty"`
	Target string          `json:"target,omitempty"`
}

// Sides returns what the changed paths are now, nil where nothing is.
func (c *Comparison) Sides() map[string]*Side {
	sides := map[string]*Side{}
	for i := range c.Changes {
		ch := &c.Changes[i]
		if ch.From != "" {
			sides[ch.From] = nil
		}
		sides[ch.Path] = ch.New
	}
	return sides
}

// IsDir reports whether the change is of a directory, before or after.
func (c *FileChange) IsDir() bool {
	return c.Old != nil && c.Old.Type == driver.TypeDir || c.New != nil && c.New.Type == driver.TypeDir
}

// Files returns the changes without the directories that were added or removed with
// entries: the entries imply them. It is what people count.
func (c *Comparison) Files() []*FileChange {
	implied := map[string]bool{}
	for i := range c.Changes {
		for _, name := range []string{c.Changes[i].Path, c.Changes[i].From} {
			for dir := path.Dir(name); dir != "." && !implied[dir]; dir = path.Dir(dir) {
				implied[dir] = true
			}
		}
	}
	list := []*FileChange{}
	for i := range c.Changes {
		ch := &c.Changes[i]
		if !implied[ch.Path] || !ch.IsDir() || ch.Kind != Added && ch.Kind != Removed {
			list = append(list, ch)
		}
	}
	return list
}

// IsAutorun reports whether the change is of an autorun file, by its name. A merge, which
// knows the rest of the tree, may leave out more, such as targets of symlinks.
func (c *FileChange) IsAutorun() bool {
	return autorun.Is(c.Path) || c.New != nil && c.New.Type == driver.TypeSymlink && autorun.IsParent(c.Path)
}
