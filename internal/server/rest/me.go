package rest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/registry"
)

const (
	mePath     = "/v1/me"
	sharesPath = onePath + "/shares"
)

func shareRoutes(s *Server) {
	handle(s, shown(s.op(http.MethodGet, mePath, "me", "Whose key the request has, and what it allows")), showMe)
	onRecord(s, s.op(http.MethodGet, sharesPath, "list-shares", "The share links of a workspace, oldest first"), s.listShares)
	onRecord(s, s.op(http.MethodPost, sharesPath, "create-share", "Make a link that shows the workspace on the page, read-only, until it expires"), s.createShare)
	onRecord(s, s.op(http.MethodDelete, sharesPath+"/{share}", "revoke-share", "Revoke a share link for good"), s.revokeShare)
}

func showMe(ctx context.Context, _ *none) (*body[client.Me], error) {
	p, _ := auth.From(ctx)
	return &body[client.Me]{client.Me{Key: p.Key, Tenant: p.Tenant, Scope: string(p.Scope), Operator: p.Operator(), Workspace: p.Workspace}}, nil
}

// Shares is the answer of GET /v1/workspaces/{id}/shares.
type Shares struct {
	Shares []client.Share `json:"shares"`
}

func shareView(k auth.Key) client.Share {
	return client.Share{ID: k.ID, Workspace: k.Workspace, CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, LastUsed: k.LastUsed, RevokedAt: k.RevokedAt}
}

// workspaceShares returns the keys of a workspace's share links.
func (s *Server) workspaceShares(ctx context.Context, id string) ([]auth.Key, error) {
	keys, err := s.keyStore(ctx)
	if err != nil {
		return nil, err
	}
	list, err := keys.List(ctx)
	return slices.DeleteFunc(list, func(k auth.Key) bool { return k.Workspace != id }), err
}

func (s *Server) listShares(ctx context.Context, r registry.Record, _ *Target) (*body[Shares], error) {
	list, err := s.workspaceShares(ctx, r.ID)
	out := Shares{Shares: []client.Share{}}
	for _, k := range list {
		out.Shares = append(out.Shares, shareView(k))
	}
	return &body[Shares]{out}, err
}

type shareInput struct {
	Target
	Body client.ShareRequest
}

// How long a share link is valid.
const (
	defaultShare = 24 * time.Hour
	maxShare     = 30 * 24 * time.Hour
)

// sharePath is the path of a share link on the page. Its key is in the fragment, which browsers
// send to no server.
const sharePath = "/#/share/"

func (s *Server) createShare(ctx context.Context, r registry.Record, in *shareInput) (*body[client.NewShare], error) {
	keys, err := s.keyStore(ctx)
	if err != nil {
		return nil, err
	}
	age := defaultShare
	if text := in.Body.Expires; text != "" {
		if age, err = client.ParseAge(text); err != nil || age > maxShare {
			return nil, badParameter("expires", "%.80q is not a positive duration such as 12h or 7d, of at most 30d", text)
		}
	}
	k, text, err := keys.Create(ctx, auth.Key{Tenant: r.Tenant, Scope: auth.Read, Workspace: r.ID, Name: "share link", ExpiresAt: time.Now().UTC().Add(age)})
	if err != nil {
		return nil, err
	}
	setTarget(ctx, k.ID)
	return &body[client.NewShare]{client.NewShare{Share: shareView(k), Text: text, Path: sharePath + text}}, nil
}

type revokeShareInput struct {
	Target
	Share string `path:"share" doc:"id of the share link"`
}

func (s *Server) revokeShare(ctx context.Context, r registry.Record, in *revokeShareInput) (*none, error) {
	list, err := s.workspaceShares(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(list, func(k auth.Key) bool { return k.ID == in.Share }) {
		return nil, fmt.Errorf("share link %.80q: %w: the workspace has no such link", in.Share, fault.NotFound)
	}
	_, err = s.cfg.Guard.Keys.Revoke(ctx, in.Share)
	return nil, err
}

// checkShare refuses a share link every route that is not marked by shown. That the workspace is its
// own is checked by the registry.
func (s *Server) checkShare(r *http.Request, pattern string) error {
	p, _ := auth.From(r.Context())
	if p.Workspace == "" {
		return nil
	}
	if s.scopes[pattern] != string(auth.Read) || !s.shown[pattern] {
		return fmt.Errorf("share link %s: %w: it shows one workspace, read-only", p.Key, fault.PermissionDenied)
	}
	if r.URL.Query().Has("crossSession") {
		return fmt.Errorf("share link %s: %w: it shows the snapshots of its own workspace, without crossSession", p.Key, fault.PermissionDenied)
	}
	return nil
}

// sharedContext returns a context in which a share link sees what its workspace started from, if
// no other state is named: a snapshot of another workspace, or a template.
func sharedContext(ctx context.Context, names ...string) context.Context {
	p, ok := auth.From(ctx)
	named := slices.ContainsFunc(names, func(name string) bool { return name != "" && name != Now && name != Origin })
	if !ok || p.Workspace == "" || named {
		return ctx
	}
	p.Workspace = ""
	return auth.With(ctx, p)
}

// shownView returns the record of a workspace as the context's principal sees it. A share link shows
// no variables, whose values clients give as keys to programs, and no directory of the host.
func (c *Config) shownView(ctx context.Context, r registry.Record) Workspace {
	w := c.workspaceView(r)
	if p, _ := auth.From(ctx); p.Workspace != "" {
		w.Policy.Env, w.Dir = nil, ""
	}
	return w
}

// hiddenKinds are the kinds of events that a share link does not show: they have the keys and
// addresses of other clients, and the names of secrets.
var hiddenKinds = []event.Kind{event.APICall, event.SecretRead}

// sharedFilter restricts the events of a share link to those of its workspace.
func sharedFilter(ctx context.Context, f event.Filter) (event.Filter, error) {
	p, ok := auth.From(ctx)
	if !ok || p.Workspace == "" {
		return f, nil
	}
	if f.Workspace != "" && f.Workspace != p.Workspace {
		return f, fmt.Errorf("events of workspace %.80q: %w", f.Workspace, fault.NotFound)
	}
	asked := event.Filter{Kinds: f.Kinds}
	f.Workspace, f.Kinds = p.Workspace, nil
	for _, kind := range event.Kinds {
		if asked.Match(event.Event{Kind: kind}) && !slices.Contains(hiddenKinds, kind) {
			f.Kinds = append(f.Kinds, kind)
		}
	}
	if len(f.Kinds) == 0 {
		return f, fmt.Errorf("events: %w: a share link shows none of these kinds", fault.PermissionDenied)
	}
	return f, nil
}
