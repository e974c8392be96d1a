package rest

import (
	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/registry"
)

// The JSON types below are the client's own.
type (
	// Workspace is a workspace of the server.
	Workspace = client.Workspace
	// Description has all details of a workspace, for operators.
	Description = client.Description
	// Holder is a process with a lease on a workspace.
	Holder = client.Holder
	// Change says which labels and policy to set; nil stays.
	Change = client.Change
	// Level says whether a level of isolation works on this host.
	Level = client.Level
	// TemplateRequest says what a template is made of.
	TemplateRequest = client.TemplateRequest
	// Exported is a snapshot that was copied to a bucket.
	Exported = client.Exported
	// Forked is what a fork made.
	Forked = client.Forked
)

// workspaceView is a workspace as clients see it: its record without its ref.
func workspaceView(r registry.Record) Workspace {
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
type Provider client.ProviderInfo

// Version says what answers.
type Version struct {
	Version string `json:"version"`
	API     string `json:"api"`
}
