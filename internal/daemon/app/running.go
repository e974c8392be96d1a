package app

import (
	"context"

	"github.com/croft-run/croft/workspace/driver"
)

// RunningSessions lists the sessions that run in a workspace, also in one that no process has
// open. It opens and starts nothing; the sessions of a provider that can't do so are not listed.
func (s *System) RunningSessions(ctx context.Context, kind, id string) ([]driver.SessionInfo, error) {
	p, err := s.Mux.Provider(kind)
	if err != nil {
		return nil, err
	}
	if list := p.Features().RunningSessions; list != nil {
		return list(ctx, id)
	}
	return nil, nil
}
