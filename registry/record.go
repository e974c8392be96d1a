package registry

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
)

// A Record is the stored state of a workspace.
type Record struct {
	ID        string            `json:"id"`
	Name      string            `json:"name,omitempty"`
	Tenant    string            `json:"tenant,omitempty"` // of the principal that created it; "" is the server's own
	Owner     string            `json:"owner,omitempty"`  // Spec.Session.User
	Kind      string            `json:"kind"`
	State     State             `json:"state"`
	Spec      workspace.Spec    `json:"spec"`
	Ref       *workspace.Ref    `json:"ref,omitempty"` // nil until opened
	Labels    map[string]string `json:"labels,omitempty"`
	CreatedAt time.Time         `json:"createdAt"`
	UpdatedAt time.Time         `json:"updatedAt"`
	LastUsed  time.Time         `json:"lastUsed"`           // to within a third of a lease
	Error     *fault.Wire       `json:"error,omitempty"`    // why it is failed
	Attempts  int               `json:"attempts,omitempty"` // to open or resolve, since it was last ready

	Attributes

	// Pending is a requested policy that is not yet known to be in force.
	Pending *workspace.Policy `json:"pending,omitempty"`

	// Version grows with every change; Put compares it.
	Version int64 `json:"version"`

	// Node is the node that owns the workspace: the one whose host it is on or, if its
	// provider is portable, the one that serves it. "" is a server without a cluster.
	Node string `json:"node,omitempty"`

	// Worker is the registry that is opening the workspace or changing its policy.
	Worker string `json:"worker,omitempty"`
}

// Attributes are what a server stores with a workspace and may change at any time.
type Attributes struct {
	// EndAt ends the workspace at that time, whether it is used or not; zero is never.
	EndAt time.Time `json:"endAt,omitzero"`
	OnEnd OnEnd     `json:"onEnd,omitempty"`

	// Annotations are free text of the program. They are stored as they are: no secrets.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// OnEnd is what happens to a workspace at Attributes.EndAt.
type OnEnd string

// The values of OnEnd.
const (
	DestroyOnEnd OnEnd = ""      // destroy it
	PauseOnEnd   OnEnd = "pause" // pause it, and clear EndAt
)

// Capabilities returns the capabilities of the workspace, nil if they are not known before
// it is opened.
func (r Record) Capabilities() workspace.Capabilities {
	if len(r.Spec.Want.Names()) > 0 {
		return r.Spec.Want
	}
	if r.Ref == nil {
		return nil
	}
	return r.Ref.Capabilities
}

// failure returns the error of a failed workspace.
func (r Record) failure() error {
	if r.Error == nil {
		return fault.Failed
	}
	return r.Error.Err()
}

// isOutage reports whether the workspace is failed only because its provider was
// unreachable, so that another attempt may succeed.
func (r Record) isOutage() bool {
	return r.State == Failed && r.Ref != nil && r.Error != nil && r.Error.Cause == fault.CauseOutage
}

// A Filter selects records. A zero field matches every record, except that
// destroyed ones are selected only by state.
type Filter struct {
	Tenant string
	Owner  string
	Name   string
	Kind   string
	Node   string
	States []State
	Labels map[string]string // all must match
	From   string            // id of the snapshot that the workspace started from
	Ended  time.Time         // EndAt is not after this time
}

func (f Filter) matches(r Record) bool {
	switch {
	case f.Tenant != "" && f.Tenant != r.Tenant,
		f.Owner != "" && f.Owner != r.Owner,
		!f.Ended.IsZero() && !r.hasEnded(f.Ended),
		f.Name != "" && f.Name != r.Name,
		f.Kind != "" && f.Kind != r.Kind,
		f.Node != "" && f.Node != r.Node,
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

// Died reports whether the holder was a process of this host that no longer exists.
// Its holds last until its lease ends.
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

// describe names a holder for a message. For a crashed process it says when the
// lease ends.
func (h Holder) describe() string {
	text := fmt.Sprintf("process %d on %s", h.PID, h.Host)
	if h.Died() {
		text += fmt.Sprintf(", which has died: its lease ends at %s", h.Expires.Format(time.RFC3339))
	}
	return text
}

// A Description is a record with its live state.
type Description struct {
	Record
	Live    bool              `json:"live"`              // this process has a handle on it
	Traits  *workspace.Traits `json:"traits,omitempty"`  // of the live handle
	Holders []Holder          `json:"holders,omitempty"` // registries with a handle, in any process
	Moves   []State           `json:"moves"`             // the possible next states
}

// label returns the name of a workspace for errors, or its id if it has no name.
func (r Record) label() string {
	if r.Name != "" {
		return strconv.Quote(r.Name)
	}
	return r.ID
}

// clone returns a copy that can be changed without changing r.
func (r Record) clone() Record {
	r.Labels = maps.Clone(r.Labels)
	r.Annotations = maps.Clone(r.Annotations)
	return r
}
