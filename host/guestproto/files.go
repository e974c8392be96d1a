package guestproto

import "github.com/croft-run/croft/workspace/driver"

// EditArgs are what Edit takes, with the texts as bytes: JSON keeps no others.
type EditArgs struct {
	Edits   []EditBytes
	Options driver.EditOptions
}

type EditBytes struct {
	Old, New []byte
	All      bool
}

func NewEditArgs(edits []driver.Edit, opts *driver.EditOptions) EditArgs {
	a := EditArgs{Options: *opts}
	for _, e := range edits {
		a.Edits = append(a.Edits, EditBytes{[]byte(e.Old), []byte(e.New), e.All})
	}
	return a
}

func (a *EditArgs) DriverEdits() []driver.Edit {
	var edits []driver.Edit
	for _, e := range a.Edits {
		edits = append(edits, driver.Edit{Old: string(e.Old), New: string(e.New), All: e.All})
	}
	return edits
}

// WriteAnswer is what a write answers: a handle while it is under way, the
// result at its end.
type WriteAnswer struct {
	Handle string
	Result *driver.WriteResult
}
