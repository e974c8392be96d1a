package rest

import (
	"context"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Projects says of which workspaces Announce looks for the project.
type Projects int

// Values of Projects.
const (
	AllProjects Projects = iota
	NotOfForks           // a fork has the project of its origin
	NoProjects
)

// Announce emits the events of an opened or resumed workspace: its isolation and its
// project. It opens the workspace if needed; a workspace that ended meanwhile is
// skipped.
func (s *Server) Announce(ctx context.Context, id string, projects Projects) {
	r, ws, ok := s.acquireRecord(ctx, id)
	if !ok {
		return
	}
	s.cfg.Events.Emit(event.NewWorkspaceSandbox(id, r.Spec.Session.ID, ws.Traits().Root))
	isFork := r.Spec.From.Snapshot != "" && !r.Spec.From.CrossSession // templates are for all sessions
	if !ws.Capabilities().Has(driver.CapFS) || projects == NoProjects || projects == NotOfForks && isFork {
		return
	}
	s.announceProfile(ws, r.Spec.Session.ID)
}

// acquireRecord opens a workspace that is announced; false if it ended meanwhile.
func (s *Server) acquireRecord(ctx context.Context, id string) (r registry.Record, ws *workspace.Workspace, ok bool) {
	r, err := s.cfg.Registry.Lookup(ctx, "", id)
	if err == nil {
		ws, err = s.cfg.Registry.Acquire(ctx, id)
	}
	return r, ws, err == nil
}

func (s *Server) announceProfile(ws *workspace.Workspace, session string) {
	if _, err := s.detectProfile(ws, session); err != nil {
		s.log.Debug("look for projects", "workspace", ws.ID(), "error", err)
	}
}

// ProfileAffected reports whether a change of the file name may change the project of a
// workspace that was announced; name is relative to the workspace, and "" is any file.
func (s *Server) ProfileAffected(id, name string) bool { return s.profiles.Affected(id, name) }

// AnnounceProfile emits an event if the project of a workspace changed.
func (s *Server) AnnounceProfile(ctx context.Context, id string) {
	if r, ws, ok := s.acquireRecord(ctx, id); ok {
		s.announceProfile(ws, r.Spec.Session.ID)
	}
}

// detectProfile returns the profile of a workspace, and emits an event if its project
// changed.
func (s *Server) detectProfile(ws *workspace.Workspace, session string) (profile.Profile, error) {
	p, err := s.profiles.Get(ws.ID(), ws.FS())
	if err != nil {
		return p, err
	}
	if s.cfg.Commands != nil {
		p = p.With(s.cfg.Commands(ws.ID()))
	}
	s.Profiled(ws, session, p)
	return p, nil
}

// Profiled emits an event if the project of a workspace differs from the last one.
func (s *Server) Profiled(ws *workspace.Workspace, session string, p profile.Profile) {
	if len(p.Projects) == 0 {
		return
	}
	first := p.Projects[0]
	now := event.Profile{
		Ecosystem: string(first.Ecosystem), PackageManager: first.PackageManager,
		Install: commandText(first.Install), Lint: commandText(first.Lint),
		Format: commandText(first.Format), Test: commandText(first.Test),
	}
	s.mu.Lock()
	known := s.announced[ws.ID()] == now
	s.announced[ws.ID()] = now
	s.mu.Unlock()
	if !known {
		s.cfg.Events.Emit(event.NewWorkspaceProfile(ws.ID(), session, now))
	}
}

func commandText(c profile.Command) string {
	if c.IsZero() {
		return ""
	}
	return c.String()
}

// forgetProfile drops the last profile of a workspace that ended.
func (s *Server) forgetProfile(id string) {
	s.profiles.Forget(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.announced, id)
}
