//go:build unix

package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/croft-run/croft/client"
)

// watchSize sends the size of the user's terminal to a session, now and at each
// SIGWINCH.
func (a *command) watchSize(ctx context.Context, t *client.Terminal) (stop func()) {
	if _, ok := terminalFile(a.Out); !ok {
		return func() {}
	}
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	changes <- syscall.SIGWINCH
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-changes:
				if t.Resize(ctx, a.terminalSize()) != nil {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		signal.Stop(changes)
		cancel()
		wg.Wait()
	}
}

// notifySize sends a value to c whenever the size of the terminal changes.
func notifySize(c chan<- os.Signal) { signal.Notify(c, syscall.SIGWINCH) }
