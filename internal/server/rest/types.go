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
	// Change has the labels and the policy to set; a nil field is not changed.
	Change = client.Change
	// Level says whether a level of isolation works on this host.
	Level = client.Level
	// TemplateRequest says what a template is made of.
	TemplateRequest = client.TemplateRequest
	// Exported is a snapshot that was copied to a bucket.
	Exported = client.Exported
	// Forked is the result of a fork.
	Forked = client.Forked
)

// workspaceView returns the record of a workspace in the form for clients, without its ref.
func (c *Config) workspaceView(r registry.Record) Workspace {
	w := Workspace{
		ID: r.ID, Name: r.Name, Owner: r.Owner, Kind: r.Kind, State: string(r.State), Node: r.Node, Labels: r.Labels,
		Tenant: r.Tenant, Template: r.Spec.From.Template, Snapshot: r.Spec.From.Snapshot, Dir: r.Spec.Dir, Policy: r.Spec.Policy,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, LastUsed: r.LastUsed, EndAt: r.EndAt, OnEnd: string(r.OnEnd), Attempts: r.Attempts, Error: r.Error,
	}
	_, w.Sandbox = r.Annotations[c.SandboxAnnotation]
	if r.Ref != nil {
		w.Capabilities, w.Revision = r.Capabilities(), r.Ref.Revision
	}
	return w
}

// Provider is a provider in the form for clients.
type Provider client.ProviderInfo

// Version has the versions of the program and of the API.
type Version struct {
	Version string `json:"version"`
	API     string `json:"api"`
}
