//go:build !unix

package cli

import (
	"context"
	"os"

	"github.com/croft-run/croft/client"
)

// watchSize sends the size of the user's terminal to a session, once: there is no
// SIGWINCH on this system.
func (a *command) watchSize(ctx context.Context, t *client.Terminal) (stop func()) {
	if _, ok := terminalFile(a.Out); ok {
		t.Resize(ctx, a.terminalSize()) //nolint:errcheck // Receive reports it
	}
	return func() {}
}

// notifySize does nothing: there is no SIGWINCH on this system.
func notifySize(chan<- os.Signal) {}
