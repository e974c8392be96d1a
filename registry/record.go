package registry

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
)

// A Record is what the registry remembers of a workspace.
type Record struct {
	ID        string            `json:"id"`
	Name      string            `json:"name,omitempty"`
	Owner     string            `json:"owner,omitempty"` // Spec.Session.User
	Kind      string            `json:"kind"`
	State     State             `json:"state"`
	Spec      workspace.Spec    `json:"spec"`
	Ref       *workspace.Ref    `json:"ref,omitempty"` // nil until it was opened
	Labels    map[string]string `json:"labels,omitempty"`
	CreatedAt time.Time         `json:"createdAt"`
	UpdatedAt time.Time         `json:"updatedAt"`
	LastUsed  time.Time         `json:"lastUsed"`           // to within a third of a lease
	Error     *fault.Wire       `json:"error,omitempty"`    // why it is failed
	Attempts  int               `json:"attempts,omitempty"` // to open or resolve, since it was last ready

	// Pending is a policy that was asked for and is not yet known to be in force.
	Pending *workspace.Policy `json:"pending,omitempty"`

	// Version grows with every change; a change is refused if another one came
	// first.
	Version int64 `json:"version"`

	// Worker is the registry that opens the workspace or changes its policy now.
	Worker string `json:"worker,omitempty"`
}

// failure returns the error that a failed workspace answers with.
func (r Record) failure() error {
	if r.Error == nil {
		return fault.Failed
	}
	return r.Error.Err()
}

// isOutage reports whether the workspace is failed although nothing is known against
// it: its provider could not be reached, and may be there again.
func (r Record) isOutage() bool {
	return r.State == Failed && r.Ref != nil && r.Error != nil && r.Error.Cause == fault.CauseOutage
}

// A Filter chooses records. A zero field matches every record, except that
// destroyed ones are found only by asking for that state.
type Filter struct {
	Owner  string
	Name   string
	Kind   string
	States []State
	Labels map[string]string // all of them, with these values
	From   string            // id of the snapshot that they started from
}

func (f Filter) matches(r Record) bool {
	switch {
	case f.Owner != "" && f.Owner != r.Owner,
		f.Name != "" && f.Name != r.Name,
		f.Kind != "" && f.Kind != r.Kind,
		f.From != "" && f.From != r.Spec.From.Snapshot,
		len(f.States) == 0 && r.State == Destroyed,
		len(f.States) > 0 && !slices.Contains(f.States, r.State):
		return false
	}
	for key, value := range f.Labels {
		if got, ok := r.Labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// A Holder is a registry that holds a workspace, in this process or another.
type Holder struct {
	ID      string    `json:"id"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Expires time.Time `json:"expires"`
}

// Died reports whether the holder was a process of this host and is there no more.
// It holds what it held until its lease ends.
func (h Holder) Died() bool {
	host, err := os.Hostname()
	if err != nil || host != h.Host {
		return false
	}
	p, err := os.FindProcess(h.PID)
	if err == nil {
		err = p.Signal(syscall.Signal(0))
	}
	return errors.Is(err, os.ErrProcessDone)
}

// describe names a holder for a message. One that crashed seems alive until its lease
// ends, which is no riddle if it is said.
func (h Holder) describe() string {
	who := fmt.Sprintf("process %d on %s", h.PID, h.Host)
	if h.Died() {
		who += fmt.Sprintf(", which has died: it is free at %s", h.Expires.Format(time.RFC3339))
	}
	return who
}

// A Description is all that an operator can learn of a workspace.
type Description struct {
	Record
	Live    bool              `json:"live"`              // this process has a handle on it
	Traits  *workspace.Traits `json:"traits,omitempty"`  // of the live handle
	Holders []Holder          `json:"holders,omitempty"` // who has one, anywhere
	Moves   []State           `json:"moves"`             // the states that may come next
}

// clone returns a copy that can be changed without changing r.
func (r Record) clone() Record {
	r.Labels = maps.Clone(r.Labels)
	return r
}
