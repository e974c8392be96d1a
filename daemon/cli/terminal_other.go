//go:build !unix

package cli

import (
	"context"

	"github.com/croft-run/croft/client"
)

// watchSize tells a session the size of the user's terminal, once: there is no
// signal for a change.
func (a *app) watchSize(ctx context.Context, t *client.Terminal) (stop func()) {
	if _, ok := terminal(a.Out); ok {
		t.Resize(ctx, a.size()) //nolint:errcheck // receiving tells
	}
	return func() {}
}
