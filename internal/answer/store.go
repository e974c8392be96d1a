// Package answer has data that a server sends to package client, and that other packages
// make: one definition for both, with few imports. See package changes for differences.
package answer

// A Report is the result of Check.
type Report struct {
	Snapshots int    `json:"snapshots"`
	Packs     int    `json:"packs"`
	Objects   int    `json:"objects"`  // verified objects
	Unneeded  int    `json:"unneeded"` // objects that no snapshot references
	Problems  []Flaw `json:"problems"`
}

// OK reports whether there are no problems.
func (r *Report) OK() bool { return len(r.Problems) == 0 }

// A Flaw is a missing or damaged part of a store.
type Flaw struct {
	What     string `json:"what"`               // the object, pack or snapshot
	Snapshot string `json:"snapshot,omitempty"` // a snapshot that can't be restored because of it
	Error    string `json:"error"`
}

// GCResult is the result of GC.
type GCResult struct {
	Snapshots int   `json:"snapshots"` // in the store
	Objects   int   `json:"objects"`   // referenced by snapshots and leases
	Packs     int   `json:"packs"`     // remaining
	Removed   int   `json:"removed"`   // removed packs
	Condemned int   `json:"condemned"` // packs marked for removal by a later run
	Rewritten int   `json:"rewritten"` // packs whose live objects were moved to new packs
	Freed     int64 `json:"freed"`     // bytes
}
