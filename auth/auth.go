// Package auth says on whose behalf a call is made: the principal of a request, which a
// server derives from an API key and puts into the context.
//
// A tenant is a customer or team of one server. Everything that is stored belongs to one
// tenant, and a principal of one tenant finds nothing of another. A context without a
// principal is the program itself: its background work, and the command line on its own
// data directory.
package auth

import (
	"context"
	"fmt"
	"slices"

	"github.com/croft-run/croft/fault"
)

// A Scope is a set of calls that a key allows.
type Scope string

// The scopes. Each includes the ones before it.
const (
	Read  Scope = "read"  // look at everything of the tenant
	Run   Scope = "run"   // change workspaces: open, write, execute, destroy
	Admin Scope = "admin" // manage the tenant: its keys, templates and secrets
)

// Scopes returns every scope, the smallest first.
func Scopes() []Scope { return []Scope{Read, Run, Admin} }

// A Principal is the holder of a key.
type Principal struct {
	Key    string // id of the key, never the key itself
	Tenant string // "" is the server's own
	Scope  Scope
	Addr   string // remote address of the request; may be ""

	// Workspace is the id of the only workspace that the principal sees: the one of a share
	// link. "" is all of the tenant.
	Workspace string
}

// Operator reports whether p administers the server: all tenants and the server itself.
func (p Principal) Operator() bool { return p.Tenant == "" && p.Scope == Admin }

// Has reports whether p may make calls of a scope.
func (p Principal) Has(scope Scope) bool {
	all := Scopes()
	need := slices.Index(all, scope)
	return need >= 0 && slices.Index(all, p.Scope) >= need
}

// Require returns an error that names the scope if p lacks it.
func (p Principal) Require(scope Scope) error {
	if p.Has(scope) {
		return nil
	}
	return fault.WithHint(fmt.Errorf("API key %s: %w: this call needs the scope %s, and the key has the scope %s",
		p.Key, fault.PermissionDenied, scope, p.Scope), fault.HintKey, string(scope))
}

// RequireOperator returns an error unless the context is that of the operator or of the
// program itself. What names the call.
func RequireOperator(ctx context.Context, what string) error {
	if p, ok := From(ctx); ok && !p.Operator() {
		return fmt.Errorf("%s: %w: this is for the operator of the server only (its token, or a key with scope admin and no tenant)", what, fault.PermissionDenied)
	}
	return nil
}

type contextKey struct{}

// With returns a context with the principal.
func With(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, &p)
}

// Without returns a context for work of the program itself.
func Without(ctx context.Context) context.Context {
	return context.WithValue(ctx, contextKey{}, (*Principal)(nil))
}

// From returns the principal of a context. ok is false for the program itself.
func From(ctx context.Context) (p Principal, ok bool) {
	found, _ := ctx.Value(contextKey{}).(*Principal)
	if found == nil {
		return Principal{}, false
	}
	return *found, true
}

// Tenant returns the tenant to which new things belong.
func Tenant(ctx context.Context) string {
	p, _ := From(ctx)
	return p.Tenant
}

// Sees reports whether things of a tenant are visible: those of the principal's own tenant,
// and all of them to the operator and to the program itself.
func Sees(ctx context.Context, tenant string) bool {
	p, ok := From(ctx)
	return !ok || p.Tenant == tenant || p.Operator()
}

// SeesWorkspace reports whether a workspace of a tenant is visible: as Sees, and to a share link
// that one workspace only.
func SeesWorkspace(ctx context.Context, tenant, id string) bool {
	p, _ := From(ctx)
	return Sees(ctx, tenant) && (p.Workspace == "" || p.Workspace == id)
}
