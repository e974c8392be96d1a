package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
)

// An Entry is a workspace that agents may name.
type Entry struct {
	Name         string
	Capabilities workspace.Capabilities // nil is unknown
}

// Workspaces resolves workspaces by the names that agents use.
type Workspaces interface {
	// List lists the workspaces, sorted by name.
	List(ctx context.Context) ([]Entry, error)

	// Find returns the entry with a name, or fault.NotFound. It is faster than List, which
	// is not called if a call names its workspace.
	Find(ctx context.Context, name string) (Entry, error)

	// Get returns the workspace with a name.
	Get(ctx context.Context, name string) (*workspace.Workspace, error)
}

// A Set is a set of workspaces by name. The zero value is empty. It is safe for
// concurrent use.
type Set struct {
	mu   sync.RWMutex
	list map[string]*workspace.Workspace // guarded by mu
}

// CheckName checks the name of a workspace.
func CheckName(name string) error {
	switch {
	case name == "" || name != strings.TrimSpace(name):
		return fmt.Errorf("tool: workspace name %q: %w: it must not be empty or have blanks around it", name, fault.InvalidArgument)
	case name == allWorkspaces:
		return fmt.Errorf("tool: workspace name %q: %w: the name is reserved for every workspace", name, fault.InvalidArgument)
	}
	return nil
}

// Add adds a workspace.
func (s *Set) Add(name string, ws *workspace.Workspace) error {
	if err := CheckName(name); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, dup := s.list[name]; dup {
		return fmt.Errorf("tool: workspace name %q: %w", name, fault.AlreadyExists)
	}
	if s.list == nil {
		s.list = map[string]*workspace.Workspace{}
	}
	s.list[name] = ws
	return nil
}

// Remove removes a workspace from the set and leaves it open.
func (s *Set) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.list, name)
}

// List lists the workspaces, sorted by name.
func (s *Set) List(context.Context) ([]Entry, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var list []Entry
	for _, name := range slices.Sorted(maps.Keys(s.list)) {
		list = append(list, Entry{Name: name, Capabilities: s.list[name].Capabilities()})
	}
	return list, nil
}

// Find returns the entry of a name.
func (s *Set) Find(ctx context.Context, name string) (Entry, error) {
	ws, err := s.Get(ctx, name)
	if err != nil {
		return Entry{}, err
	}
	return Entry{Name: name, Capabilities: ws.Capabilities()}, nil
}

// Get returns a workspace by its name.
func (s *Set) Get(_ context.Context, name string) (*workspace.Workspace, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	ws, ok := s.list[name]
	if !ok {
		return nil, fmt.Errorf("tool: workspace %q: %w", name, fault.NotFound)
	}
	return ws, nil
}

// entryNames joins the names of entries.
func entryNames(list []Entry) string {
	var out []string
	for _, e := range list {
		out = append(out, e.Name)
	}
	if len(out) == 0 {
		return "(none)"
	}
	return strings.Join(out, ", ")
}

// workspaceArgument returns the argument workspace of a call, trimmed.
func workspaceArgument(args map[string]json.RawMessage) (string, error) {
	raw, ok := args[workspaceKey]
	if !ok {
		return "", nil
	}
	var name string
	if err := decodeArgument(workspaceKey, raw, &name); err != nil {
		return "", err
	}
	return strings.TrimSpace(name), nil
}

// chooseEntries returns the workspaces of a call: one, or all. only is as in Request.
func (e *Env) chooseEntries(ctx context.Context, t *Tool, only, name string) ([]Entry, error) {
	if name != "" && only == "" && (name != allWorkspaces || !t.FanOut) {
		entry, err := e.Workspaces.Find(ctx, name)
		if err == nil {
			return []Entry{entry}, nil
		}
		if fault.Of(err) != fault.NotFound {
			return nil, err
		}
	}
	list, err := e.Entries(ctx, only)
	if err != nil {
		return nil, err
	}
	return chooseFrom(t, list, name)
}

func chooseFrom(t *Tool, list []Entry, name string) ([]Entry, error) {
	switch {
	case len(list) == 0 && name == "":
		return nil, Errorf(fault.NotFound, "no workspace is configured")
	case name == "" && len(list) == 1:
		return list, nil
	case name == "":
		return nil, Errorf(fault.InvalidArgument, "multi-workspace sandbox: %d workspaces configured (%s) — pass `workspace` to pick one", len(list), entryNames(list))
	case name == allWorkspaces && t.FanOut && len(list) > 0:
		return list, nil
	}
	for _, e := range list {
		if e.Name == name {
			return []Entry{e}, nil
		}
	}
	return nil, Errorf(fault.NotFound, "unknown workspace %q; configured: %s", name, entryNames(list))
}
