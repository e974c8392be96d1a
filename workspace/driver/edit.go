package driver

import (
	"bytes"
	"fmt"

	"github.com/croft-run/croft/fault"
)

// An Edit replaces one text by another.
type Edit struct {
	Old string `json:"old"` // must occur exactly once, unless All
	New string `json:"new"`
	All bool   `json:"all,omitempty"` // replace every occurrence; at least one
}

// EditOptions are the options of FS.Edit.
type EditOptions struct {
	IfMatch string // Conflict unless the content before has this digest
	Sync    bool   // fsync before Edit returns
}

// EditResult says what an edit did.
type EditResult struct {
	Write    WriteResult `json:"write"`
	Replaced []int       `json:"replaced"` // number of occurrences, for each edit
}

// MaxEdit is the maximum size of an edited file in bytes, before and after: the whole
// file is held in memory.
const MaxEdit = 256 << 20

// CheckEdit refuses to edit a file of more than MaxEdit bytes.
func CheckEdit(size int64) error {
	if size > MaxEdit {
		return fmt.Errorf("edit: %w: the file has, or would have, %d bytes; at most %d can be edited", fault.ResourceExhausted, size, MaxEdit)
	}
	return nil
}

// ApplyEdits applies edits in order, each to the result of the previous one. It
// returns the new content and how many occurrences each edit replaced. It is all or
// nothing: an error says which edit failed and why, with NotFound where its text does
// not occur, Conflict where its text occurs more than once, and ResourceExhausted
// where the content would have more than MaxEdit bytes.
func ApplyEdits(content []byte, edits []Edit) ([]byte, []int, error) {
	if len(edits) == 0 {
		return nil, nil, fmt.Errorf("edit: %w: no edits given", fault.InvalidArgument)
	}
	counts := make([]int, len(edits))
	for i, e := range edits {
		if e.Old == "" {
			return nil, nil, fmt.Errorf("edit %d of %d: %w: the text to replace is empty", i+1, len(edits), fault.InvalidArgument)
		}
		if e.Old == e.New {
			return nil, nil, fmt.Errorf("edit %d of %d: %w: old and new text are the same", i+1, len(edits), fault.InvalidArgument)
		}
		old := []byte(e.Old)
		counts[i] = bytes.Count(content, old)
		switch {
		case counts[i] == 0:
			return nil, nil, fmt.Errorf("edit %d of %d: the text to replace does not occur: %w", i+1, len(edits), fault.NotFound)
		case counts[i] > 1 && !e.All:
			return nil, nil, fmt.Errorf("edit %d of %d: the text to replace occurs %d times: %w: add context to make it unique, or replace all",
				i+1, len(edits), counts[i], fault.Conflict)
		}
		if err := CheckEdit(Replaced(len(content), counts[i], len(old), len(e.New))); err != nil {
			return nil, nil, fmt.Errorf("edit %d of %d: %w", i+1, len(edits), err)
		}
		content = bytes.ReplaceAll(content, old, []byte(e.New))
	}
	return content, counts, nil
}

// Replaced returns the size of a text of size bytes after count occurrences of
// oldSize bytes are replaced by newSize bytes each.
func Replaced(size, count, oldSize, newSize int) int64 {
	return int64(size) + int64(count)*(int64(newSize)-int64(oldSize))
}
