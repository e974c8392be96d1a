package plot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/bare"
)

// A gate lets the changes of one root be committed while the policy on disk
// allows them. A change that began under an older policy obeys the present one:
// when a revocation is acknowledged, no change that it forbids is made any more.
//
// Whoever commits holds the meta locked, shared. Whoever changes the policy puts
// a new meta in its place and then waits for those who hold the old one.
type gate struct {
	h       *Handle
	meta    string                 // its path
	durable bool                   // changes are on stable storage
	allowed atomic.Pointer[[]byte] // the meta that was last found to allow changes
}

// Gate returns what lets the changes be committed that go to a root under the
// policy of m: see boundary.Options.Commit.
func (h *Handle) Gate(m *Meta) func(change func() error) error {
	g := &gate{h: h, meta: h.g.metaPath(h.id), durable: m.Policy.Durable}
	return g.commit
}

func (g *gate) commit(change func() error) error {
	meta, err := lockMeta(g.meta)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: the workspace was destroyed", fault.Evicted)
	}
	if err != nil {
		return err
	}
	defer meta.close() // which unlocks it
	if err := g.judge(meta); err != nil {
		return err
	}
	if !g.h.stands() {
		return fmt.Errorf("%w: the directory of the workspace is another one now, or none", fault.Evicted)
	}
	return change()
}

// metaBuffers are for metas, most of which are smaller.
var metaBuffers = sync.Pool{New: func() any { b := make([]byte, 4<<10); return &b }}

// judge asks the meta on disk whether a change may be made.
func (g *gate) judge(meta io.Reader) error {
	room := metaBuffers.Get().(*[]byte)
	defer metaBuffers.Put(room)
	n, err := io.ReadFull(meta, *room)
	data := (*room)[:n:n]
	switch {
	case err == nil:
		rest, err := io.ReadAll(meta)
		if err != nil {
			return err
		}
		data = append(data, rest...)
	case !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF):
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
	data = bytes.Clone(data)
	g.allowed.Store(&data)
	return nil
}

// A locked file is a bare descriptor: each change opens one, and package os would
// ask the poller about it.
type locked int

func (l locked) Read(p []byte) (int, error) {
	n, err := bare.Again(func() (int, error) { return syscall.Read(int(l), p) })
	if err == nil && n == 0 && len(p) > 0 {
		err = io.EOF
	}
	return max(n, 0), err
}

func (l locked) close() { _ = syscall.Close(int(l)) } // nothing was written

// lockMeta opens the meta that is at path and locks it, shared.
func lockMeta(path string) (locked, error) {
	for {
		fd, err := bare.Again(func() (int, error) { return syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0) })
		if err != nil {
			return -1, err
		}
		if err = lockFD(fd, syscall.LOCK_SH); err == nil {
			var there bool
			if there, err = isAt(fd, path); err == nil && there {
				return locked(fd), nil
			}
		}
		locked(fd).close()
		if err != nil {
			return -1, err
		}
	}
}

// isAt reports whether path still names the open file.
func isAt(fd int, path string) (bool, error) {
	var have, now syscall.Stat_t
	if err := syscall.Fstat(fd, &have); err != nil {
		return false, err
	}
	if err := syscall.Lstat(path, &now); err != nil {
		return false, err
	}
	return have.Dev == now.Dev && have.Ino == now.Ino, nil
}

func lockFD(fd, how int) error {
	_, err := bare.Again(func() (int, error) { return 0, syscall.Flock(fd, how) })
	return err
}

// unsettled opens the meta that is to be replaced; settle, called when it was,
// waits for those who commit under it.
func (g *Ground) unsettled(id string) (settle func(), err error) {
	f, err := os.Open(g.metaPath(id))
	if err != nil {
		return nil, err
	}
	return func() {
		_ = lockFD(int(f.Fd()), syscall.LOCK_EX) // where there are no locks nobody holds one
		f.Close()
	}, nil
}
