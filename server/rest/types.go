package rest

import (
	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/registry"
)

// The forms that package client has.
type (
	Workspace       = client.Workspace
	Description     = client.Description
	Holder          = client.Holder
	Change          = client.Change
	Level           = client.Level
	TemplateRequest = client.TemplateRequest
	Exported        = client.Exported
	Forked          = client.Forked
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
