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

// A State is the content of the state file: all of a workspace besides its files.
type State struct {
	Version  int             `json:"version"`
	Kind     string          `json:"kind"`
	ID       string          `json:"id"`
	Revision int64           `json:"revision"`
	Policy   driver.Policy   `json:"policy"`
	Session  string          `json:"session,omitempty"` // the session that it was opened for
	Dir      string          `json:"dir,omitempty"`     // in place: as the user wrote it
	Real     string          `json:"real,omitempty"`    // in place: Dir without symlinks, when it was opened
	Is       *Identity       `json:"is,omitempty"`      // in place: the identity of Real
	Boot     string          `json:"boot,omitempty"`    // boot of the host when the policy was last set
	Damaged  bool            `json:"damaged,omitempty"` // files may be lost or torn since an earlier boot
	Own      json.RawMessage `json:"own,omitempty"`     // the provider's configuration of the workspace; a change evicts handles

	// Sections are records of the provider and of the guest client, by name: see Section. A
	// change of them evicts no handle.
	Sections map[string]json.RawMessage `json:"sections,omitempty"`
}

// A Section is a typed part of the state, identified by its name.
type Section[T any] string

// Get returns the content of the section, or nil if it is absent.
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

// In reports whether the section is present.
func (s Section[T]) In(m *State) bool { return m.Sections[string(s)] != nil }

// Set replaces the content of the section; nil removes the section.
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

// A Dir is the directory of a workspace of a kind, under its id, its .new- name or its
// .dead- name.
type Dir struct{ Path, Kind string }

// Dir returns the directory of the workspace with that id.
func (s *Store) Dir(id string) Dir { return Dir{s.Path(id), s.kind} }

func (d Dir) statePath() string { return filepath.Join(d.Path, StateName(d.Kind)) }

// Read reads the state. The error is fs.ErrNotExist if the state is missing, and Failed
// with fault.CauseCorrupt if it can't be read or is not a valid one of this kind; the error
// names the file, and does not quote it.
func (d Dir) Read() (*State, error) {
	data, err := os.ReadFile(d.statePath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var m *State
	if err == nil {
		m, err = parseState(data, d.Kind)
	}
	if err != nil {
		return nil, d.unreadable(err)
	}
	return m, nil
}

// unreadable is the error of a state that can't be used. The files of the workspace are
// there, and it works again when the state is valid again.
func (d Dir) unreadable(reason error) error {
	var failed *fs.PathError
	if errors.As(reason, &failed) {
		reason = failed.Err // the path is named already
	}
	err := fmt.Errorf("%w: the state file %s of the workspace can't be used: %w", fault.Failed, d.statePath(), reason)
	return fault.WithCause(fault.Advise(err, "restore this file; the files of the workspace are kept"), fault.CauseCorrupt)
}

// Update changes the state under the exclusive flock: no other process changes the state,
// and no change of a file commits meanwhile. If change fails, the state stays as it was.
// The error is fs.ErrNotExist if the workspace is gone. The new state is on stable storage
// if durable is set or the policy is durable.
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

// write replaces the state file. The caller holds the exclusive flock, or the directory has
// its .new- name.
func (d Dir) write(m *State, durable bool) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return atomicfile.Write(d.statePath(), data, atomicfile.Options{Durable: durable, Temp: d.statePath() + ".new"})
}

// writeInitial creates the lock file and the state of a new workspace.
func (d Dir) writeInitial(m *State) error {
	if err := os.WriteFile(filepath.Join(d.Path, lockName), nil, 0o600); err != nil {
		return err
	}
	return d.write(m, m.Policy.Durable)
}

// existingFile makes flock fail if the file does not exist, so that a lock file does not
// come back after its workspace was removed.
var existingFile = flock.SetFlag(os.O_RDONLY)

// Files returns the directory with the files of a workspace.
func (s *Store) Files(m *State) string {
	if m.Dir != "" {
		return m.Real
	}
	return s.HostDir(m.ID)
}

// HostDir returns the directory of a workspace's files that is not in place.
func (s *Store) HostDir(id string) string { return s.Path(id, FilesName) }

// Read reads the state of a workspace. The error is fs.ErrNotExist if there is no workspace
// directory, and otherwise that of Dir.Read.
func (s *Store) Read(id string) (*State, error) {
	d := s.Dir(id)
	m, err := d.Read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, there := os.Lstat(d.Path); there == nil {
			return nil, d.unreadable(errors.New("it is missing"))
		}
	case err == nil && m.ID != id:
		return nil, d.unreadable(errInvalid)
	}
	return m, err
}

var errInvalid = errors.New("its content is not valid")

func parseState(data []byte, kind string) (*State, error) {
	if isTorn(data) {
		return nil, errors.New("it is empty")
	}
	var header struct{ Version int }
	if err := json.Unmarshal(data, &header); err != nil {
		return nil, errInvalid
	}
	if header.Version != stateVersion {
		return nil, fmt.Errorf("it has version %d, and this croft reads version %d", header.Version, stateVersion)
	}
	m := new(State)
	if err := driver.DecodeStrict(data, m); err != nil || m.Revision <= 0 || !m.hasValidDir() {
		return nil, errInvalid
	}
	if m.Kind != kind {
		return nil, errors.New("it is of another kind of workspace")
	}
	return m, nil
}

// isTorn reports whether a state file is empty or all zero bytes: what a power loss leaves
// of a file that was not on stable storage yet.
func isTorn(data []byte) bool { return len(bytes.Trim(data, "\x00")) == 0 }

// samePolicy compares the JSON forms of two policies.
func samePolicy(a, b driver.Policy) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// setPolicy writes a new policy and increments the revision. The lock of the root is held.
func (s *Store) setPolicy(ctx context.Context, m *State, policy driver.Policy) error {
	if policy.Durable && !m.Policy.Durable {
		if err := syncTree(s.Files(m)); err != nil { // earlier writes become durable, too
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

// ChangeState is Handle.ChangeState for a workspace of which this process has no handle.
func (s *Store) ChangeState(ctx context.Context, id string, change func(*State) error) (*State, error) {
	unlock, err := s.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return s.changeStateLocked(ctx, id, change)
}

// changeStateLocked is ChangeState for a caller that holds the lock of the root.
func (s *Store) changeStateLocked(ctx context.Context, id string, change func(*State) error) (*State, error) {
	m, err := s.Dir(id).Update(ctx, true, change)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the workspace is gone: %w", fault.Evicted)
	}
	if err != nil {
		return nil, err
	}
	driver.Step(ctx, "state changed")
	return m, nil
}

// isDamaged reports whether the host rebooted while the workspace was not durable.
func (s *Store) isDamaged(m *State) bool {
	return m.Damaged || m.Boot != s.boot && !m.Policy.Durable
}

// Damaged returns the reason why files of a workspace may be lost or torn, for its Traits,
// or "".
func (s *Store) Damaged(m *State) string {
	if !s.isDamaged(m) {
		return ""
	}
	return "the host was rebooted since the workspace was opened, and its policy was not durable: recent changes may be lost or torn"
}
