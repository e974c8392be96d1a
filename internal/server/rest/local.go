package rest

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/httpguard"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// A Local calls routes of a server within the process, without HTTP, on behalf of the operator. Its methods are those
// of client.Client, and their errors are those that a client gets.
type Local struct{ Server *Server }

// callLocal calls the function of a route.
func callLocal[I, O any](ctx context.Context, l Local, f func(context.Context, *I) (*O, error), in *I) (*O, error) {
	ctx = auth.With(ctx, auth.Principal{Key: httpguard.LocalKey, Scope: auth.Admin})
	out, err := f(ctx, in)
	if err != nil {
		return nil, l.Server.newProblem(ctx, requestInfo{"local", ""}, err).Wire.Err()
	}
	return out, nil
}

// answerLocal is callLocal for a route that answers JSON.
func answerLocal[I, O any](ctx context.Context, l Local, f func(context.Context, *I) (*body[O], error), in *I) (out O, err error) {
	answer, err := callLocal(ctx, l, f, in)
	if err == nil {
		out = answer.Body
	}
	return out, err
}

// asSent decodes the body of a request as a server does: what is empty is absent, and nothing is the caller's.
func asSent(body, in any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("request: %w: %w", fault.InvalidArgument, err)
	}
	return driver.DecodeStrict(data, in)
}

// CreateWith opens a workspace.
func (l Local) CreateWith(ctx context.Context, spec driver.Spec, policy string) (Workspace, error) {
	in := &openInput{Policy: policy}
	if err := asSent(spec, &in.Body); err != nil {
		return Workspace{}, err
	}
	return answerLocal(ctx, l, workspaceRoutes{l.Server}.openWorkspace, in)
}

// List lists workspaces.
func (l Local) List(ctx context.Context, f client.Filter) ([]Workspace, error) {
	in := &listInput{State: f.State, Kind: f.Kind, Owner: f.Owner}
	for k, v := range f.Labels {
		in.Labels = append(in.Labels, k+"="+v)
	}
	out, err := answerLocal(ctx, l, workspaceRoutes{l.Server}.listWorkspaces, in)
	return out.Workspaces, err
}

// Show returns one workspace.
func (l Local) Show(ctx context.Context, nameOrID string) (Workspace, error) {
	return answerLocal(ctx, l, forTarget(l.Server.lookupRecord, workspaceRoutes{l.Server}.showWorkspace), &Target{ID: nameOrID})
}

// Open returns the live handle of a workspace, and opens it if needed. Closing the handle does nothing.
func (l Local) Open(ctx context.Context, nameOrID string) (*workspace.Workspace, error) {
	open := func(ctx context.Context, t *Target) (*workspace.Workspace, error) {
		return l.Server.liveWorkspace(ctx, *t)
	}
	return callLocal(ctx, l, open, &Target{ID: nameOrID})
}

// Destroy ends a workspace.
func (l Local) Destroy(ctx context.Context, nameOrID string) error {
	_, err := callLocal(ctx, l, forTarget(l.Server.lookupRecord, workspaceRoutes{l.Server}.destroyWorkspace), &Target{ID: nameOrID})
	return err
}

// Describe returns all details of a workspace.
func (l Local) Describe(ctx context.Context, nameOrID string) (Description, error) {
	return answerLocal(ctx, l, forTarget(l.Server.lookupRecord, workspaceRoutes{l.Server}.describeWorkspace), &Target{ID: nameOrID})
}

// Fork opens new workspaces from a state of one.
func (l Local) Fork(ctx context.Context, nameOrID string, opts client.ForkOptions) (Forked, error) {
	fork := forTarget(l.Server.lookupRecord, snapshotRoutes{l.Server}.forkWorkspace)
	return answerLocal(ctx, l, fork, &forkInput{Target{ID: nameOrID}, Fork(opts)})
}

// Diff compares two states of a workspace.
func (l Local) Diff(ctx context.Context, nameOrID string, o client.DiffOptions) (*snapshot.Comparison, error) {
	out, err := answerLocal(ctx, l, forTarget(l.Server.liveWorkspace, snapshotRoutes{l.Server}.diffStates), &diffInput{
		Target: Target{ID: nameOrID}, From: o.From, To: o.To, Paths: append([]string(nil), o.Paths...), Context: o.Context, Text: o.Text, Binary: o.Binary,
		CrossSession: o.CrossSession, Ignored: o.Ignored,
	})
	return &out, err
}

// Change changes labels or policy.
func (l Local) Change(ctx context.Context, nameOrID string, change Change) (Workspace, error) {
	in := &changeInput{Target: Target{ID: nameOrID}}
	if err := asSent(change, &in.Body); err != nil {
		return Workspace{}, err
	}
	return answerLocal(ctx, l, forTarget(l.Server.lookupRecord, workspaceRoutes{l.Server}.changeWorkspace), in)
}

// KeptEvents calls f with each event that is kept of a kind and a workspace, by its id.
func (l Local) KeptEvents(_ context.Context, kind event.Kind, id string, f func(event.Event) error) error {
	kept, _ := l.Server.cfg.Recent.Since(0)
	filter := event.Filter{Kinds: []event.Kind{kind}, Workspace: id}
	for _, e := range kept {
		if filter.Match(e) {
			if err := f(e); err != nil {
				return err
			}
		}
	}
	return nil
}
