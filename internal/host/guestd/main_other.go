//go:build !linux

package guestd

import (
	"context"
	"fmt"
	"os"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto/guestpb"
)

// Main reports that croft-guest needs Linux. It returns the exit status.
func Main() int {
	fmt.Fprintln(os.Stderr, "croft-guest: this program runs on Linux only")
	return 2
}

// Hold needs Linux.
func (s *server) Hold(context.Context, *guestpb.HoldRequest) (*guestpb.Empty, error) {
	return nil, fmt.Errorf("guest: mounts: %w", fault.Unsupported)
}
