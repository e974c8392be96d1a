//go:build !linux

package process

import (
	"fmt"

	"github.com/croft-run/croft/fault"
)

type reaper struct{}

func startReaper(*Manager) (*reaper, error) {
	return nil, fmt.Errorf("process: become subreaper: %w: this system has no subreapers", fault.Unsupported)
}

func (*reaper) requestPass() {}
func (*reaper) stop()        {}

// killMarked does nothing: this system does not show environments.
func killMarked([]string) error { return nil }

// hasNoDescendants returns false: this system has no subreapers.
func (m *Manager) hasNoDescendants(Child, Tracked) bool { return false }
