package auth_test

import (
	"testing"

	"github.com/croft-run/croft/auth"
)

func TestSees(t *testing.T) {
	ctx := t.Context()
	for _, test := range []struct {
		principal auth.Principal
		tenant    string
		want      bool
	}{
		{auth.Principal{Tenant: "red", Scope: auth.Admin}, "red", true},
		{auth.Principal{Tenant: "red", Scope: auth.Admin}, "blue", false},
		{auth.Principal{Tenant: "red", Scope: auth.Admin}, "", false},
		{auth.Principal{Scope: auth.Admin}, "red", true},
		{auth.Principal{Scope: auth.Run}, "red", false},
		{auth.Principal{Scope: auth.Run}, "", true},
	} {
		with := auth.With(ctx, test.principal)
		if got := auth.Sees(with, test.tenant); got != test.want {
			t.Errorf("%+v sees tenant %q = %v, want %v", test.principal, test.tenant, got, test.want)
		}
		if !auth.Sees(auth.Without(with), test.tenant) {
			t.Errorf("the program itself does not see tenant %q", test.tenant)
		}
	}
	if _, ok := auth.From(ctx); ok || !auth.Sees(ctx, "red") {
		t.Error("a context without a principal is not the program itself")
	}
}

func TestScopes(t *testing.T) {
	for _, test := range []struct {
		has, need auth.Scope
		want      bool
	}{
		{auth.Read, auth.Read, true}, {auth.Read, auth.Run, false}, {auth.Run, auth.Read, true},
		{auth.Run, auth.Admin, false}, {auth.Admin, auth.Run, true}, {"", auth.Read, false}, {auth.Admin, "root", false},
	} {
		if got := (auth.Principal{Scope: test.has}).Has(test.need); got != test.want {
			t.Errorf("a key with scope %q has scope %q = %v, want %v", test.has, test.need, got, test.want)
		}
	}
}
