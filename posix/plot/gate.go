package plot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/croft-run/croft/fault"
)

// A gate lets the changes of one root be committed while the policy on disk
// allows them. A change that began under an older policy obeys the present one:
// when a revocation is acknowledged, no change that it forbids is made any more.
//
// Whoever commits holds the meta locked, shared. Whoever changes the policy puts
// a new meta in its place and then waits for those who hold the old one.
type gate struct {
	h       *Handle
	durable bool                   // changes are on stable storage
	allowed atomic.Pointer[[]byte] // the meta that was last found to allow changes
}

// Gate returns what lets the changes be committed that go to a root under the
// policy of m: see boundary.Options.Commit.
func (h *Handle) Gate(m *Meta) func(change func() error) error {
	g := &gate{h: h, durable: m.Policy.Durable}
	return g.commit
}

func (g *gate) commit(change func() error) error {
	f, err := lockMeta(g.h.g.Path(g.h.id, MetaName))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: the workspace was destroyed", fault.Evicted)
	}
	if err != nil {
		return err
	}
	defer f.Close() // which unlocks it
	if err := g.judge(f); err != nil {
		return err
	}
	if !g.h.stands() {
		return fmt.Errorf("%w: the directory of the workspace is another one now, or none", fault.Evicted)
	}
	return change()
}

// judge asks the meta on disk whether a change may be made.
func (g *gate) judge(meta io.Reader) error {
	data, err := io.ReadAll(meta)
	if err != nil {
		return err
	}
	if last := g.allowed.Load(); last != nil && bytes.Equal(*last, data) {
		return nil
	}
	m, err := g.h.g.parse(data, g.h.id)
	switch {
	case err != nil:
		return fmt.Errorf("%w: the meta of the workspace is not valid any more", fault.Evicted)
	case m.Policy.ReadOnly:
		return fmt.Errorf("%w: the workspace has become read-only", fault.PermissionDenied)
	case m.Policy.Durable && !g.durable:
		return fmt.Errorf("%w: the workspace has become durable", fault.Evicted)
	}
	g.allowed.Store(&data)
	return nil
}

// lockMeta opens the meta that is at path and locks it, shared.
func lockMeta(path string) (*os.File, error) {
	for {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		if err = lockFile(f, syscall.LOCK_SH); err == nil {
			var there bool
			if there, err = isAt(f, path); err == nil && there {
				return f, nil
			}
		}
		f.Close()
		if err != nil {
			return nil, err
		}
	}
}

// isAt reports whether path still names the open file.
func isAt(f *os.File, path string) (bool, error) {
	have, err := f.Stat()
	if err != nil {
		return false, err
	}
	now, err := os.Lstat(path)
	if err != nil {
		return false, err
	}
	return os.SameFile(have, now), nil
}

func lockFile(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// unsettled opens the meta that is to be replaced; settle, called when it was,
// waits for those who commit under it.
func (g *Ground) unsettled(id string) (settle func(), err error) {
	f, err := os.Open(g.Path(id, MetaName))
	if err != nil {
		return nil, err
	}
	return func() {
		_ = lockFile(f, syscall.LOCK_EX) // where there are no locks nobody holds one
		f.Close()
	}, nil
}
