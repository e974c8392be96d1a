// Package host is for those who start processes.
package host

// Nobody calls it twice.
func place() {
	var still int // a local name
	_ = still
}

// A freezer stops processes, and somebody else starts them.
type freezer struct {
	held  bool // in another package only
	still bool

	// Whoever froze the group.
	owner string
}

func (f *freezer) place() {}

func (f *freezer) Quiet(still int) {}

func (f *freezer) thawAll() {}

type pipe struct{}

type state struct{}
