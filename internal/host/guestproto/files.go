package guestproto

import "github.com/croft-run/croft/workspace/driver"

// EditArgs are the arguments of FS.Edit, with texts as bytes: JSON strings must be UTF-8.
type EditArgs struct {
	Edits   []EditBytes
	Options driver.EditOptions
}

// EditBytes is a driver.Edit with its texts as bytes.
type EditBytes struct {
	Old, New []byte
	All      bool
}

// NewEditArgs converts the arguments of FS.Edit.
func NewEditArgs(edits []driver.Edit, opts *driver.EditOptions) EditArgs {
	a := EditArgs{Options: *opts}
	for _, e := range edits {
		a.Edits = append(a.Edits, EditBytes{[]byte(e.Old), []byte(e.New), e.All})
	}
	return a
}

// DriverEdits returns the edits as FS.Edit takes them.
func (a *EditArgs) DriverEdits() []driver.Edit {
	var edits []driver.Edit
	for _, e := range a.Edits {
		edits = append(edits, driver.Edit{Old: string(e.Old), New: string(e.New), All: e.All})
	}
	return edits
}

// A WriteAnswer answers one chunk of a write: with a handle while more chunks are to
// come, with the result after the last.
type WriteAnswer struct {
	Handle string
	Result *driver.WriteResult
}
