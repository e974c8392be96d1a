package rest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// A pin is a state of a workspace that a client reads with several requests, and that
// does not change meanwhile.
type pin struct {
	name  string
	files *driver.FS
	used  time.Time
}

const (
	pinPrefix = "@pin-"
	maxPins   = 32 // per workspace; the one not used for the longest time is dropped
	pinIdle   = 10 * time.Minute
)

// pins are the pinned states by workspace id.
type pins struct {
	mu  sync.Mutex
	all map[string][]*pin
}

// add pins a state, and drops pins that were not used for pinIdle.
func (p *pins) add(workspace string, files *driver.FS) string {
	added := &pin{pinPrefix + driver.NewID(), files, time.Now()}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, list := range p.all {
		if list = slices.DeleteFunc(list, func(old *pin) bool { return time.Since(old.used) > pinIdle }); len(list) == 0 {
			delete(p.all, id)
			continue
		}
		p.all[id] = list
	}
	list := append(p.all[workspace], added)
	if len(list) > maxPins {
		oldest := slices.MinFunc(list, func(a, b *pin) int { return a.used.Compare(b.used) })
		list = slices.DeleteFunc(list, func(l *pin) bool { return l == oldest })
	}
	p.all[workspace] = list
	return added.name
}

func (p *pins) get(workspace, name string) (*driver.FS, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.all[workspace] {
		if l.name == name {
			l.used = time.Now()
			return l.files, nil
		}
	}
	return nil, fmt.Errorf("state %s: %w: it was not used for %s, or the server restarted; pin the state again", name, fault.NotFound, pinIdle)
}

// PinnedState is the answer of /pin.
type PinnedState struct {
	ID string `json:"id" doc:"takes the place of a snapshot's id in reading routes, until it is not used for 10 minutes"`
}

// pinState keeps a state of a workspace as it is for the requests that follow.
func (s snapshotRoutes) pinState(ctx context.Context, ws *workspace.Workspace, in *SnapshotTarget) (*body[PinnedState], error) {
	files, err := s.stateFiles(ctx, ws, in.Snapshot, in.CrossSession)
	if err != nil {
		return nil, err
	}
	return &body[PinnedState]{PinnedState{s.pins.add(ws.ID(), files)}}, nil
}

func isPin(name string) bool { return strings.HasPrefix(name, pinPrefix) }
