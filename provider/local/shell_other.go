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

// A shell does not exist on this system.
type shell struct{}

func (p *Provider) newShell(*wsdir.Handle, *wsdir.State) *shell { return nil }

func (*shell) shellModule() *driver.Shell                           { return nil }
func (*shell) endOutdatedGuest(context.Context, *wsdir.State) error { return nil }
func (*shell) ExpectEnd(context.Context) error                      { return nil }
func (*shell) measure(*driver.Metrics)                              {}
func (*shell) close(context.Context) error                          { return nil }

func endGuest(context.Context, string) error { return nil }
