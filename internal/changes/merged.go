package changes

import "slices"

// A Merged is the result of a merge of theirs into ours.
type Merged struct {
	Applied   []string   `json:"applied"`             // paths that change
	Same      []string   `json:"same,omitempty"`      // paths that are equal in ours and theirs
	Conflicts []Conflict `json:"conflicts,omitempty"` // paths that stay unchanged, or get markers

	// LeftOut are changes that were not merged: ignored files, and autorun files. Git
	// are the repositories that differ: .git is never merged.
	LeftOut []LeftOut   `json:"leftOut,omitempty"`
	Git     []GitChange `json:"git,omitempty"`
}

// A Conflict is a path that both sides changed incompatibly.
type Conflict struct {
	Path   string         `json:"path"`
	Kind   ConflictKind   `json:"kind"`
	Reason string         `json:"reason"`
	Marked bool           `json:"marked,omitempty"` // it gets conflict markers
	Text   []TextConflict `json:"text,omitempty"`
}

// ConflictKind is the kind of a conflict.
type ConflictKind string

// The kinds of conflicts. Only ConflictLines can get conflict markers.
const (
	ConflictLines   ConflictKind = "lines"   // both sides changed the same lines
	ConflictContent ConflictKind = "content" // both sides changed or added a file that can't be merged as text
	ConflictOurs    ConflictKind = "removed-in-ours"
	ConflictTheirs  ConflictKind = "removed-in-theirs"
	ConflictMode    ConflictKind = "mode" // both sides changed the mode
	ConflictType    ConflictKind = "type" // a directory that is not empty on one side, and a file on the other
)

// A TextConflict is a hunk that both sides changed differently. Lines are 1-based,
// in ours.
type TextConflict struct {
	Line   int      `json:"line"`
	Base   []string `json:"base"`
	Ours   []string `json:"ours"`
	Theirs []string `json:"theirs"`
}

// Applied says what became of a merge whose changes were to be applied.
type Applied struct {
	*Merged
	Done bool   `json:"done"`           // false if nothing was changed: conflicts, or a dry run
	Undo string `json:"undo,omitempty"` // id of the snapshot of the state before
}

// AddScope adds what an earlier comparison, whose changes were merged, left out. What the
// merge left out for the same reason is among it.
func (m *Merged) AddScope(d *Comparison) {
	m.Git = d.Git
	own := slices.DeleteFunc(slices.Clone(m.LeftOut), func(l LeftOut) bool {
		return slices.ContainsFunc(d.LeftOut, func(before LeftOut) bool { return before.Reason == l.Reason })
	})
	m.LeftOut = append(slices.Clip(d.LeftOut), own...)
}
