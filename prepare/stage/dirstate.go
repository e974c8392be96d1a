package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/flockfile"
	"github.com/croft-run/croft/workspace/driver"
)

// A DirState is a State in a directory of the host: one file per workspace, replaced
// atomically and fsynced before Save returns, and a flock that serializes processes.
type DirState struct{ dir string }

// NewDirState returns the state in dir. dir is created with mode 0700 if it is
// missing.
func NewDirState(dir string) (*DirState, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("stage: create the state directory: %w: %w", fault.Of(err), err)
	}
	return &DirState{dir}, nil
}

func (d *DirState) statePath(id, ext string) (string, error) {
	if !driver.ValidID(id) {
		return "", fmt.Errorf("stage: state of workspace %q: %w: the id is not valid", id, fault.InvalidArgument)
	}
	return filepath.Join(d.dir, id+ext), nil
}

// Lock takes the flock of the workspace.
func (d *DirState) Lock(ctx context.Context, id string) (func(), error) {
	return d.lock(ctx, id, ".lock")
}

func (d *DirState) lock(ctx context.Context, id, ext string) (func(), error) {
	name, err := d.statePath(id, ext)
	if err != nil {
		return nil, err
	}
	l, err := flockfile.Lock(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("stage: lock workspace %s: %w: %w", id, fault.Of(err), err)
	}
	return func() { _ = l.Close() }, nil // closing the file releases the lock in any case
}

// Load returns the metadata of a workspace.
func (d *DirState) Load(_ context.Context, id string) (*Metadata, error) {
	m := new(Metadata)
	ok, err := d.read(id, ".json", func(data []byte) (err error) {
		m, err = decodeMetadata(data)
		return err
	})
	if err != nil {
		return nil, err
	}
	if !ok {
		m = nil
	}
	outs, err := d.readOutputs(id)
	return withOutputs(m, outs), err
}

// read decodes a file, and reports whether it exists.
func (d *DirState) read(id, ext string, decode func([]byte) error) (bool, error) {
	name, err := d.statePath(id, ext)
	if err != nil {
		return false, err
	}
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("stage: read %s: %w: %w", name, fault.Of(err), err)
	}
	if err := decode(data); err != nil {
		return false, fmt.Errorf("stage: read %s: %w", name, err)
	}
	return true, nil
}

func (d *DirState) readOutputs(id string) (outs []OutputRecord, err error) {
	_, err = d.read(id, outputsExt, func(data []byte) error {
		if err := driver.DecodeStrict(data, &outs); err != nil {
			return fmt.Errorf("outputs: %w: %v", fault.Failed, err) //nolint:errorlint // it is not the caller's argument that is invalid
		}
		return nil
	})
	return outs, err
}

// outputsExt is the suffix of the file with the recorded collections.
const outputsExt = ".outputs.json"

// Save stores the metadata of a workspace.
func (d *DirState) Save(_ context.Context, id string, m *Metadata) error {
	return d.write(id, ".json", m)
}

func (d *DirState) write(id, ext string, v any) error {
	name, err := d.statePath(id, ext)
	if err != nil {
		return err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("stage: encode metadata: %w: %w", fault.Internal, err)
	}
	// The lock is held, so the temporary file can have a fixed name.
	if err := atomicfile.Write(name, data, atomicfile.Options{Durable: true, Temp: name + ".new"}); err != nil {
		return fmt.Errorf("stage: write %s: %w: %w", name, fault.Of(err), err)
	}
	return nil
}

// Record adds a collection. Collections that an earlier version stored in the
// metadata are kept.
func (d *DirState) Record(ctx context.Context, id string, rec OutputRecord, keep int) error {
	unlock, err := d.lock(ctx, id, ".outputs.lock")
	if err != nil {
		return err
	}
	defer unlock()
	m, err := d.Load(ctx, id)
	if err != nil {
		return err
	}
	var outs []OutputRecord
	if m != nil {
		outs = m.Outputs
	}
	return d.write(id, outputsExt, lastN(append(outs, rec), keep))
}

// Delete removes the state of a workspace. The lock file stays, because another
// process may wait for it.
func (d *DirState) Delete(_ context.Context, id string) error {
	for _, ext := range []string{outputsExt, ".json"} {
		name, err := d.statePath(id, ext)
		if err != nil {
			return err
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("stage: delete the state of workspace %s: %w: %w", id, fault.Of(err), err)
		}
	}
	return nil
}

// Sweep deletes the state of all workspaces except live.
func (d *DirState) Sweep(ctx context.Context, live []string) error {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return fmt.Errorf("stage: sweep: %w: %w", fault.Of(err), err)
	}
	for _, e := range entries {
		id, _, _ := strings.Cut(e.Name(), ".")
		if !driver.ValidID(id) || slices.Contains(live, id) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := os.Remove(filepath.Join(d.dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("stage: sweep: %w: %w", fault.Of(err), err)
		}
	}
	return nil
}
