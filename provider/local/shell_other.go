//go:build !linux

package local

import (
	"context"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestbin"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/workspace/driver"
)

// hasGuests is false: a guest needs Linux.
const hasGuests = false

func findGuest(string) (*guestbin.Binary, error) {
	return nil, fmt.Errorf("a guest needs Linux: %w", fault.Unsupported)
}

func (p *Provider) newGuestRunner(*wsdir.Handle, *wsdir.State) runner { return nil }

func endGuest(context.Context, string) error { return nil }

// runningSessions lists the sessions that run in a workspace that this process has open.
func (p *Provider) runningSessions(ctx context.Context, id string) ([]driver.SessionInfo, error) {
	return p.ownSessions(ctx, id)
}
