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
	ID           string
	ForkOf       string                 // id of the workspace to which the client was bound that forked it; "" is none
	Capabilities workspace.Capabilities // nil is unknown
}

// Workspaces resolves workspaces by the names that agents use.
type Workspaces interface {
	// List lists the workspaces, sorted by name.
	List(ctx context.Context) ([]Entry, error)

	// Find returns the entry with a name or id, or fault.NotFound. It is faster than List,
	// which is not called if a call names its workspace.
	Find(ctx context.Context, name string) (Entry, error)

	// Get returns the workspace with a name.
	Get(ctx context.Context, name string) (*workspace.Workspace, error)
}

// A Set is a set of workspaces by name. The zero value is empty. It is safe for
// concurrent use.
type Set struct {
	mu   sync.RWMutex
	list map[string]setEntry // guarded by mu
}

type setEntry struct {
	ws     *workspace.Workspace
	forkOf string
}

func (s setEntry) entry(name string) Entry {
	return Entry{Name: name, ID: s.ws.ID(), ForkOf: s.forkOf, Capabilities: s.ws.Capabilities()}
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
func (s *Set) Add(name string, ws *workspace.Workspace) error { return s.AddFork(name, ws, "") }

// AddFork adds a workspace that a client forked; forkOf is as in Entry.
func (s *Set) AddFork(name string, ws *workspace.Workspace, forkOf string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, dup := s.list[name]; dup {
		return fmt.Errorf("tool: workspace name %q: %w", name, fault.AlreadyExists)
	}
	if s.list == nil {
		s.list = map[string]setEntry{}
	}
	s.list[name] = setEntry{ws, forkOf}
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
		list = append(list, s.list[name].entry(name))
	}
	return list, nil
}

// Find returns the entry of a name or id.
func (s *Set) Find(_ context.Context, name string) (Entry, error) {
	name, found, err := s.lookup(name)
	if err != nil {
		return Entry{}, err
	}
	return found.entry(name), nil
}

// Get returns a workspace by its name.
func (s *Set) Get(_ context.Context, name string) (*workspace.Workspace, error) {
	_, found, err := s.lookup(name)
	return found.ws, err
}

// lookup finds a workspace by its name or id, and returns its name.
func (s *Set) lookup(name string) (string, setEntry, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if found, ok := s.list[name]; ok {
		return name, found, nil
	}
	for other, found := range s.list {
		if found.ws.ID() == name {
			return other, found, nil
		}
	}
	return "", setEntry{}, fmt.Errorf("tool: workspace %q: %w", name, fault.NotFound)
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

// A scope is the workspaces that a client reaches: all of an Env or, for a client that is
// bound to one workspace, that one and the forks that clients bound to it made.
type scope struct {
	all  Workspaces
	only string // name of the one workspace; "" is all
}

// Scope returns the workspaces that a client bound to one workspace reaches; only is as
// in Request.
func (e *Env) Scope(only string) Workspaces {
	if only == "" {
		return e.Workspaces
	}
	return &scope{e.Workspaces, only}
}

// List lists the bound workspace and its forks; it is empty if there is no such workspace.
func (s *scope) List(ctx context.Context) ([]Entry, error) {
	bound, err := s.all.Find(ctx, s.only)
	if fault.Of(err) == fault.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := s.all.List(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(e Entry) bool { return e.ID != bound.ID && e.ForkOf != bound.ID }), nil
}

// Find returns the entry of a name that is in the scope.
func (s *scope) Find(ctx context.Context, name string) (Entry, error) {
	found, err := s.all.Find(ctx, name)
	if err != nil || name == s.only {
		return found, err
	}
	bound, err := s.all.Find(ctx, s.only)
	if err == nil && found.ID != bound.ID && found.ForkOf != bound.ID {
		err = fmt.Errorf("tool: workspace %q: %w", name, fault.NotFound)
	}
	return found, err
}

// Get returns a workspace of the scope.
func (s *scope) Get(ctx context.Context, name string) (*workspace.Workspace, error) {
	if _, err := s.Find(ctx, name); err != nil {
		return nil, err
	}
	return s.all.Get(ctx, name)
}

// chooseEntries returns the workspaces of a call: one, or all. only is as in Request. A
// client that is bound to a workspace need not name it.
func (e *Env) chooseEntries(ctx context.Context, t *Tool, only, name string) ([]Entry, error) {
	if name == "" {
		name = only
	}
	if name != "" && (name != allWorkspaces || !t.FanOut) {
		entry, err := e.Scope(only).Find(ctx, name)
		if err == nil {
			return []Entry{entry}, nil
		}
		if fault.Of(err) != fault.NotFound {
			return nil, err
		}
	}
	list, err := e.Scope(only).List(ctx)
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
