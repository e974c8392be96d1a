package auth_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
)

// A principal of a tenant sees what is the tenant's, and administers no server.
func Example() {
	ctx := auth.With(context.Background(), auth.Principal{Tenant: "blue", Scope: auth.Run})
	fmt.Println(auth.Sees(ctx, "blue"), auth.Sees(ctx, "red"))
	fmt.Println(errors.Is(auth.RequireOperator(ctx, "backup"), fault.PermissionDenied))
	// Output:
	// true false
	// true
}
