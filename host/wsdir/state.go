package wsdir

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/flockfile"
	"github.com/croft-run/croft/workspace/driver"
)

// stateVersion is the version of the state file that this code reads and writes.
const stateVersion = 1

// A State is the state of a workspace, besides its files.
type State struct {
	Version  int             `json:"version"`
	Kind     string          `json:"kind"`
	ID       string          `json:"id"`
	Revision int64           `json:"revision"`
	Policy   driver.Policy   `json:"policy"`
	Session  string          `json:"session,omitempty"` // on whose behalf it was opened
	Dir      string          `json:"dir,omitempty"`     // in place: as the user wrote it
	Real     string          `json:"real,omitempty"`    // in place: where that was when it was opened
	Is       *Identity       `json:"is,omitempty"`      // in place: what was there then
	Boot     string          `json:"boot,omitempty"`    // of the host, when the policy was last set
	Damaged  bool            `json:"damaged,omitempty"` // an earlier boot may have done harm
	Own      json.RawMessage `json:"own,omitempty"`     // the provider's: what shapes the workspace; a change of it evicts handles

	// Sections are what the provider and its supervisor of guests note while the
	// workspace lives, by name: see Section. A change of them evicts no handle.
	Sections map[string]json.RawMessage `json:"sections,omitempty"`
}

// A Section is a typed part of the state, by its name.
type Section[T any] string

// Get returns what the section holds; nil is nothing.
func (s Section[T]) Get(m *State) (*T, error) {
	data, ok := m.Sections[string(s)]
	if !ok {
		return nil, nil
	}
	v := new(T)
	if err := driver.DecodeStrict(data, v); err != nil {
		return nil, fmt.Errorf("%w: the section %q of the state is not valid: %w", fault.Failed, string(s), err)
	}
	return v, nil
}

// In reports whether the section holds anything.
func (s Section[T]) In(m *State) bool { return m.Sections[string(s)] != nil }

// Set replaces what the section holds; nil removes it.
func (s Section[T]) Set(m *State, v *T) error {
	if v == nil {
		delete(m.Sections, string(s))
		return nil
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if m.Sections == nil {
		m.Sections = map[string]json.RawMessage{}
	}
	m.Sections[string(s)] = data
	return nil
}

// A Dir is the directory of a workspace of a kind: also of a new one that has no
// name yet, and of a dead one.
type Dir struct{ Path, Kind string }

// Dir is the directory of the workspace with that id.
func (s *Store) Dir(id string) Dir { return Dir{s.Path(id), s.kind} }

func (d Dir) statePath() string { return filepath.Join(d.Path, StateName(d.Kind)) }

// Read reads the state: fs.ErrNotExist where there is none, and Failed with
// fault.CauseGone where a power loss has torn it.
func (d Dir) Read() (*State, error) {
	data, err := os.ReadFile(d.statePath())
	if err != nil {
		return nil, err
	}
	return parseState(data, d.Kind)
}

// Update changes the state. It holds the exclusive lock meanwhile: no other process
// changes the state, and no change of a file is committed. An error of change leaves
// the state as it was. It is fs.ErrNotExist where the workspace is gone. The new
// state is on stable storage where durable or the policy says so.
func (d Dir) Update(ctx context.Context, durable bool, change func(*State) error) (*State, error) {
	lock, err := flockfile.Lock(ctx, filepath.Join(d.Path, lockName), existingFile)
	if err != nil {
		return nil, err
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	m, err := d.Read()
	if err != nil {
		return nil, err
	}
	if err := change(m); err != nil {
		return nil, err
	}
	return m, d.write(m, durable || m.Policy.Durable)
}

// write replaces the state. The lock is held, or no other process knows the
// directory.
func (d Dir) write(m *State, durable bool) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return atomicfile.Write(d.statePath(), data, atomicfile.Options{Durable: durable, Temp: d.statePath() + ".new"})
}

// writeInitial writes the state of a new workspace, and makes its lock.
func (d Dir) writeInitial(m *State) error {
	if err := os.WriteFile(filepath.Join(d.Path, lockName), nil, 0o600); err != nil {
		return err
	}
	return d.write(m, m.Policy.Durable)
}

// existingFile locks a file only where there is one: it must not come back after its
// workspace.
var existingFile = flock.SetFlag(os.O_RDONLY)

// Files is where the files of a workspace are.
func (s *Store) Files(m *State) string {
	if m.Dir != "" {
		return m.Real
	}
	return s.Path(m.ID, FilesName)
}

// Read reads the state of a workspace: fs.ErrNotExist where there is none, and
// Failed, without a word of what it holds, where it is not a valid one of this
// kind.
func (s *Store) Read(id string) (*State, error) {
	m, err := s.Dir(id).Read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, there := os.Lstat(s.Path(id)); there == nil {
			return nil, fmt.Errorf("%w: the directory of the workspace has no state file %s", fault.Failed, StateName(s.kind))
		}
	case err == nil && m.ID != id:
		return nil, errInvalid
	}
	return m, err
}

var errInvalid = fmt.Errorf("%w: the state of the workspace is not valid", fault.Failed)

func parseState(data []byte, kind string) (*State, error) {
	if isTorn(data) {
		return nil, goneError(kind)
	}
	var is struct{ Version int }
	if err := json.Unmarshal(data, &is); err != nil {
		return nil, errInvalid
	}
	if is.Version != stateVersion {
		return nil, fmt.Errorf("%w: the state of the workspace has version %d, and this croft reads version %d", fault.Failed, is.Version, stateVersion)
	}
	m := new(State)
	if err := driver.DecodeStrict(data, m); err != nil || m.Revision <= 0 || !m.hasValidDir() {
		return nil, errInvalid
	}
	if m.Kind != kind {
		return nil, fmt.Errorf("%w: the workspace is of another kind", fault.Failed)
	}
	return m, nil
}

// isTorn reports whether a state is what a loss of power leaves of one that was not
// on stable storage yet: its name, and nothing in it.
func isTorn(data []byte) bool { return len(bytes.Trim(data, "\x00")) == 0 }

// samePolicy compares what would be stored.
func samePolicy(a, b driver.Policy) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// setPolicy brings a workspace to a policy, under the next revision. The lock of
// the root is held.
func (s *Store) setPolicy(ctx context.Context, m *State, policy driver.Policy) error {
	if policy.Durable && !m.Policy.Durable {
		if err := syncTree(s.Files(m)); err != nil { // what was written before is durable from now on, too
			return err
		}
		driver.Step(ctx, "files synced")
	}
	next, err := s.Dir(m.ID).Update(ctx, true, func(m *State) error {
		m.Damaged = s.isDamaged(m)
		m.Boot = s.boot
		m.Policy = policy
		m.Revision++
		return nil
	})
	if err != nil {
		return err
	}
	driver.Step(ctx, "policy written")
	*m = *next
	return nil
}

// ChangeState is Handle.Reshape for a workspace that this process has no handle of.
func (s *Store) ChangeState(ctx context.Context, id string, change func(*State) error) (*State, error) {
	unlock, err := s.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return s.changeStateLocked(ctx, id, change)
}

// changeStateLocked does it while the lock of the root is held.
func (s *Store) changeStateLocked(ctx context.Context, id string, change func(*State) error) (*State, error) {
	m, err := s.Dir(id).Update(ctx, true, change)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the workspace is gone: %w", fault.Evicted)
	}
	if err != nil {
		return nil, err
	}
	driver.Step(ctx, "reshaped")
	return m, nil
}

// isDamaged reports whether the host went down while the workspace was not durable.
func (s *Store) isDamaged(m *State) bool {
	return m.Damaged || m.Boot != s.boot && !m.Policy.Durable
}

// Damaged says why what is in a workspace may not be what was written, for its
// Traits; "" is no doubt.
func (s *Store) Damaged(m *State) string {
	if !s.isDamaged(m) {
		return ""
	}
	return "the host has started anew since the workspace was opened, and its policy was not durable: recent changes may be lost or torn"
}
