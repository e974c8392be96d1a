package plot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/flockfile"
	"github.com/croft-run/croft/workspace/driver"
)

const metaVersion = 1

// A Meta is what is kept of a workspace besides its files.
type Meta struct {
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
	Own      json.RawMessage `json:"own,omitempty"`     // the provider's: what shaped the workspace when it was made
}

// Files is where the files of a workspace are.
func (g *Ground) Files(m *Meta) string {
	if m.Dir != "" {
		return m.Real
	}
	return g.Path(m.ID, FilesName)
}

// Read reads the meta of a workspace: fs.ErrNotExist where there is none, and
// Failed, without a word of what it holds, where it is not a valid one of this
// kind.
func (g *Ground) Read(id string) (*Meta, error) {
	data, err := os.ReadFile(g.metaPath(id))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(g.Path(id)); err == nil {
			return nil, fmt.Errorf("%w: the directory of the workspace has no meta", fault.Failed)
		}
	}
	if err != nil {
		return nil, err
	}
	return g.parse(data, id)
}

func (g *Ground) parse(data []byte, id string) (*Meta, error) {
	if torn(data) {
		return nil, g.Gone()
	}
	m := new(Meta)
	if err := driver.DecodeStrict(data, m); err != nil {
		return nil, fmt.Errorf("%w: the meta of the workspace is not valid", fault.Failed)
	}
	valid := m.Version == metaVersion && m.ID == id && m.Revision > 0 && m.validPlace()
	switch {
	case m.Kind != g.kind:
		return nil, fmt.Errorf("%w: the workspace is of another kind", fault.Failed)
	case !valid:
		return nil, fmt.Errorf("%w: the meta of the workspace is not valid", fault.Failed)
	}
	return m, nil
}

// write replaces the meta in the directory of a workspace, atomically, and has it
// on stable storage when it returns: a permission that was revoked must not come
// back with the power.
func (m *Meta) write(dir string) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, MetaName(m.Kind))
	if err := writeFile(name+".new", data, true); err != nil {
		return err
	}
	if err := os.Rename(name+".new", name); err != nil {
		return err
	}
	return syncPath(dir)
}

// first is write in the directory of a workspace that has no name yet: whatever
// happens, nobody reads half of it.
func (m *Meta) first(dir string) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	stable := m.Policy.Durable
	if err := writeFile(filepath.Join(dir, MetaName(m.Kind)), data, stable); err != nil || !stable {
		return err
	}
	return syncPath(dir)
}

func writeFile(name string, data []byte, stable bool) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && stable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

// torn reports whether a meta is what a loss of power leaves of one that was not
// on stable storage yet: its name, and nothing in it.
func torn(data []byte) bool { return len(bytes.Trim(data, "\x00")) == 0 }

// samePolicy compares what would be stored.
func samePolicy(a, b driver.Policy) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// setPolicy brings a workspace to a policy, under the next revision. The lock is
// held.
func (g *Ground) setPolicy(ctx context.Context, m *Meta, policy driver.Policy) error {
	if policy.Durable && !m.Policy.Durable {
		if err := syncTree(g.Files(m)); err != nil { // what was written before is durable from now on, too
			return err
		}
		driver.Step(ctx, "files synced")
	}
	next := *m
	next.Damaged = g.damaged(m)
	next.Boot = g.boot
	next.Policy = policy
	next.Revision++
	settle, err := g.unsettled(ctx, m.ID)
	if err != nil {
		return err
	}
	defer settle()
	if err := next.write(g.Path(m.ID)); err != nil {
		return err
	}
	driver.Step(ctx, "policy written")
	*m = next
	return nil
}

// Reshape is Handle.Reshape for a workspace that this process has no handle of.
func (g *Ground) Reshape(ctx context.Context, id string, own json.RawMessage, change func() error) (*Meta, error) {
	unlock, err := g.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return g.reshape(ctx, id, own, change)
}

// reshape does it while the lock of the root is held.
func (g *Ground) reshape(ctx context.Context, id string, own json.RawMessage, change func() error) (*Meta, error) {
	m, err := g.Read(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the workspace is gone: %w", fault.Evicted)
	}
	if err != nil {
		return nil, err
	}
	old, err := flockfile.Lock(ctx, g.metaPath(id), existing)
	if err != nil {
		return nil, err
	}
	defer old.Close() //nolint:errcheck // the lock ends with the descriptor
	if err := change(); err != nil {
		return nil, err
	}
	next := *m
	next.Own = own
	if err := next.write(g.Path(id)); err != nil {
		return nil, err
	}
	driver.Step(ctx, "reshaped")
	return &next, nil
}

// damaged reports whether the host went down while the workspace was not durable.
func (g *Ground) damaged(m *Meta) bool {
	return m.Damaged || m.Boot != g.boot && !m.Policy.Durable
}

// Damaged says why what is in a workspace may not be what was written, for its
// Traits; "" is no doubt.
func (g *Ground) Damaged(m *Meta) string {
	if !g.damaged(m) {
		return ""
	}
	return "the host has started anew since the workspace was opened, and its policy was not durable: recent changes may be lost or torn"
}
