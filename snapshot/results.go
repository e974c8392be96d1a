package snapshot

import (
	"github.com/croft-run/croft/internal/answer"
	"github.com/croft-run/croft/internal/changes"
	"github.com/croft-run/croft/internal/textdiff"
)

// What Diff and Merge find, as package client has it too.
//
//nolint:revive // one comment for all
type (
	Comparison   = changes.Comparison
	Stats        = changes.Stats
	FileChange   = changes.FileChange
	ChangeKind   = changes.ChangeKind
	Side         = changes.Side
	Hunk         = textdiff.Hunk
	Hunks        = changes.Hunks
	GitChange    = changes.GitChange
	LeftOut      = changes.LeftOut
	Merged       = changes.Merged
	Conflict     = changes.Conflict
	ConflictKind = changes.ConflictKind
	TextConflict = changes.TextConflict
	Applied      = changes.Applied
)

// What GC and Check return.
//
//nolint:revive // one comment for all
type (
	GCResult = answer.GCResult
	Report   = answer.Report
	Flaw     = answer.Flaw
)

// The kinds of changes.
const (
	Added    = changes.Added
	Removed  = changes.Removed
	Modified = changes.Modified
	Renamed  = changes.Renamed
	ModeOnly = changes.ModeOnly
	Retyped  = changes.Retyped // a file became a directory, or the like
)

// The kinds of conflicts. Only ConflictLines can get conflict markers.
const (
	ConflictLines   = changes.ConflictLines
	ConflictContent = changes.ConflictContent
	ConflictOurs    = changes.ConflictOurs
	ConflictTheirs  = changes.ConflictTheirs
	ConflictMode    = changes.ConflictMode
	ConflictType    = changes.ConflictType
)

// Reasons for LeftOut, and the maximum of its paths.
const (
	LeftOutIgnored   = changes.LeftOutIgnored // .gitignore, or the list of caches
	LeftOutAutorun   = changes.LeftOutAutorun // an autorun file
	LeftOutSpecial   = changes.LeftOutSpecial // a FIFO, socket or device
	MaxLeftOutListed = changes.MaxLeftOutListed
)

// ParseHunks reads hunks in the form PATH:N.
func ParseHunks(list []string) (Hunks, error) { return changes.ParseHunks(list) }
