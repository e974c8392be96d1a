//go:build !unix

package cli

import (
	"context"

	"github.com/croft-run/croft/client"
)

// watchSize tells a session the size of the user's terminal, once: there is no
// signal for a change.
func (a *command) watchSize(ctx context.Context, t *client.Terminal) (stop func()) {
	if _, ok := terminalFile(a.Out); ok {
		t.Resize(ctx, a.terminalSize()) //nolint:errcheck // receiving tells
	}
	return func() {}
}
