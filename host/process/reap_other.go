//go:build !linux

package process

import (
	"fmt"

	"github.com/croft-run/croft/fault"
)

type reaper struct{}

func startReaper(*Manager) (*reaper, error) {
	return nil, fmt.Errorf("process: become subreaper: %w: this system has none", fault.Unsupported)
}

func (*reaper) requestPass() {}
func (*reaper) stop()        {}

// killMarked finds nobody: this system does not show environments.
func killMarked([]string) error { return nil }

// hasNoDescendants knows nothing here.
func (m *Manager) hasNoDescendants(Child, Tracked) bool { return false }
