package rest

import (
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace/driver"
)

// Workspace is a workspace as clients see it: its record without its ref.
type Workspace struct {
	ID           string              `json:"id"`
	Name         string              `json:"name,omitempty"`
	Owner        string              `json:"owner,omitempty"`
	Kind         string              `json:"kind"`
	State        string              `json:"state"`
	Labels       map[string]string   `json:"labels,omitempty"`
	Dir          string              `json:"dir,omitempty" doc:"directory of the server's host that is used in place"`
	Policy       driver.Policy       `json:"policy"`
	Capabilities driver.Capabilities `json:"capabilities,omitempty" doc:"modules that it has, once it was opened"`
	Revision     int64               `json:"revision,omitempty" doc:"grows with every change of policy"`
	Traits       *driver.Traits      `json:"traits,omitempty" doc:"what is enforced, and by what; in answers to open and acquire"`
	Functions    []string            `json:"functions,omitempty" doc:"optional file operations that it has; in answers to open and acquire"`

	Languages       []string `json:"languages,omitempty" doc:"of code, the default first; a last * says that there may be more; in answers to open and acquire"`
	ScriptLanguages []string `json:"scriptLanguages,omitempty" doc:"of scripts, likewise"`

	CreatedAt time.Time   `json:"createdAt"`
	UpdatedAt time.Time   `json:"updatedAt"`
	LastUsed  time.Time   `json:"lastUsed,omitzero"`
	Attempts  int         `json:"attempts,omitempty" doc:"failed tries to open it"`
	Error     *fault.Wire `json:"error,omitempty" doc:"why it is in the state failed"`
}

func view(r registry.Record) Workspace {
	w := Workspace{
		ID: r.ID, Name: r.Name, Owner: r.Owner, Kind: r.Kind, State: string(r.State), Labels: r.Labels,
		Dir: r.Spec.Dir, Policy: r.Spec.Policy,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, LastUsed: r.LastUsed, Attempts: r.Attempts, Error: r.Error,
	}
	if r.Ref != nil {
		w.Capabilities, w.Revision = r.Ref.Capabilities, r.Ref.Revision
	}
	return w
}

// Provider is a provider as clients see it.
type Provider struct {
	Kind   string         `json:"kind"`
	Traits *driver.Traits `json:"traits,omitempty" doc:"what this host gives"`
	Error  *fault.Wire    `json:"error,omitempty" doc:"why it can't work here"`
}

// Version says what answers.
type Version struct {
	Version string `json:"version"`
	API     string `json:"api"`
}

// Description is all that an operator can learn of a workspace.
type Description struct {
	Workspace
	Live    bool             `json:"live" doc:"the server has a handle on it"`
	Holders []Holder         `json:"holders,omitempty" doc:"programs that hold it"`
	Moves   []registry.State `json:"moves" doc:"states that may come next"`
	Pending *driver.Policy   `json:"pending,omitempty" doc:"a policy that is not yet known to be in force"`
}

// Holder is a program that holds a workspace.
type Holder struct {
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Died    bool      `json:"died,omitempty" doc:"there is no such process any more; what it holds is free once it expires"`
	Expires time.Time `json:"expires"`
}
