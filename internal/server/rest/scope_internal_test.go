package rest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/httpguard"
	"github.com/croft-run/croft/workspace"
)

// TestRoutesAreNotShownByDefault: a route is for share links only where it says so itself, whatever its
// path and scope.
func TestRoutesAreNotShownByDefault(t *testing.T) {
	s, err := New(Config{Guard: httpguard.Guard{Token: "token"}})
	if err != nil {
		t.Fatal(err)
	}
	s.register()
	made := s.op(http.MethodGet, onePath+"/made-up", "made-up", "A route that nobody has thought of")
	handle(s, made, showMe)
	ctx := auth.With(t.Context(), auth.Principal{Tenant: "red", Scope: auth.Read, Workspace: "aaaaaaaaaaaaaaaaaaaa"})
	r := httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx)
	if err := s.checkShare(r, made.Method+" "+made.Path); fault.Of(err) != fault.PermissionDenied {
		t.Errorf("a new route: %v, want PermissionDenied", err)
	}
	for _, pattern := range []string{"", "GET /mounted", "POST " + onePath + "/acquire", "GET " + onePath + "/describe"} {
		if err := s.checkShare(r, pattern); fault.Of(err) != fault.PermissionDenied {
			t.Errorf("%q: %v, want PermissionDenied", pattern, err)
		}
	}
	if err := s.checkShare(r, "GET "+onePath); err != nil {
		t.Errorf("the workspace itself: %v", err)
	}
	// A mark does not help a route that changes something.
	for pattern := range s.shown {
		if s.shown[pattern] && s.scopes[pattern] != string(auth.Read) {
			t.Errorf("%s is shown, and needs the scope %s", pattern, s.scopes[pattern])
		}
	}
}

// TestAShareLinkIsNoUse: what a share link reads keeps no idle workspace alive.
func TestAShareLinkIsNoUse(t *testing.T) {
	s, err := New(Config{Guard: httpguard.Guard{Token: "token"}})
	if err != nil {
		t.Fatal(err)
	}
	s.register()
	made := shown(s.op(http.MethodGet, "/v1/made-up", "made-up", "A route that tells whether it is a use"))
	use := map[string]bool{}
	handle(s, made, func(ctx context.Context, _ *struct{}) (*none, error) {
		p, _ := auth.From(ctx)
		use[p.Workspace] = workspace.IsUse(ctx)
		return nil, nil //nolint:nilnil // no body
	})
	for _, id := range []string{"", "aaaaaaaaaaaaaaaaaaaa"} {
		ctx := auth.With(t.Context(), auth.Principal{Tenant: "red", Scope: auth.Read, Workspace: id})
		r := httptest.NewRequest(http.MethodGet, "/v1/made-up", nil).WithContext(ctx)
		s.serveRoute(httptest.NewRecorder(), r, made.Method+" "+made.Path)
	}
	if !use[""] || use["aaaaaaaaaaaaaaaaaaaa"] || len(use) != 2 {
		t.Errorf("uses %v: want one of the key, none of the share link", use)
	}
}
