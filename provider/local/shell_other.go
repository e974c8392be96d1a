//go:build !linux

package local

import (
	"context"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/guestbin"
	"github.com/croft-run/croft/host/wsdir"
	"github.com/croft-run/croft/workspace/driver"
)

func findGuest(string) (*guestbin.Binary, error) {
	return nil, fmt.Errorf("commands in a local workspace need Linux: %w", fault.Unsupported)
}

// A shell is never made here.
type shell struct{}

func (p *Provider) newShell(*wsdir.Handle, *wsdir.State) *shell { return nil }

func (*shell) module() *driver.Shell                     { return nil }
func (*shell) renew(context.Context, *wsdir.State) error { return nil }
func (*shell) ExpectEnd(context.Context) error           { return nil }
func (*shell) close(context.Context) error               { return nil }

func endGuest(context.Context, string) error { return nil }
