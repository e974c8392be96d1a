package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/guest/supervise"
	"github.com/croft-run/croft/host/wsdir"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// To seal a workspace is to give what it has, as one directory, another name: it
// becomes a layer, and the workspace lies over it with nothing of its own. The
// directory changes places with an empty one, so that there always is one, and
// the state says what the workspace lies over. A journal, which is a section of the
// state, is written before: the next process that opens the workspace after a crash
// does what is missing.

const (
	sealedPrefix = "sealed-" // begins the names of layers that were sealed

	// maxLayers bounds what lies over each other: the kernel takes their names in
	// one page, and looks into each of them. Beyond, a seal copies.
	maxLayers = 16
)

// A sealing is what the journal says.
type sealing struct {
	Layer string          `json:"layer"` // the directory that the files become
	Inode uint64          `json:"inode"` // of the files: tells whether they are there
	Own   json.RawMessage `json:"own"`   // what the state says then
}

// seal is the section of the state with the journal.
const seal = wsdir.Section[sealing]("seal")

func inodeOf(path string) (uint64, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	return st.Ino, err
}

// seal turns the files of a workspace, in which nothing runs, into a layer.
func (h *handle) seal(ctx context.Context, l *level) (layers snapshot.Base, moved bool, err error) {
	m, o := h.plot.State(), h.shape()
	if !l.overlays() || m.Dir != "" || h.p.limitedDisk(l, m.Policy) || len(o.lower()) >= maxLayers || h.staged() {
		return snapshot.Base{}, false, nil
	}
	unlock, err := h.att.Lock(ctx)
	if err != nil {
		return snapshot.Base{}, false, err
	}
	defer unlock()
	if err := h.sealLocked(ctx, &o); err != nil {
		if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
			return snapshot.Base{}, false, nil // layers are on another file system, or this one can't
		}
		return snapshot.Base{}, false, fmt.Errorf("sandbox: seal: %w: %w", fault.Of(err), err)
	}
	h.mu.Lock()
	h.opts = o
	h.mu.Unlock()
	return snapshot.DirsBase(o.lower()), true, nil
}

// sealLocked moves the files while nobody uses the handle, or the guest, which
// ends. It notes the layer in o.
func (h *handle) sealLocked(ctx context.Context, o *options) error {
	dir := h.p.ground.Path(h.id)
	lock, err := supervise.Lock(ctx, dir)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	if err := h.plot.Current(); err != nil {
		return err
	}
	if err := h.p.end(context.WithoutCancel(ctx), dir); err != nil {
		return err
	}
	h.att.Disconnect()
	files, err := h.p.own(dir, o)
	if err != nil {
		return err
	}
	j := &sealing{Layer: filepath.Join(h.p.layers(), sealedPrefix+driver.NewID())}
	if j.Inode, err = inodeOf(files); err != nil {
		return err
	}
	o.Sealed = slices.Insert(o.Sealed, 0, j.Layer)
	if j.Own, err = json.Marshal(o); err != nil {
		return err
	}
	if err := h.p.prepareLayer(j.Layer, files); err != nil {
		return err
	}
	note := func(j *sealing) error {
		_, err := h.att.Dir.Update(ctx, true, func(m *wsdir.State) error { return seal.Set(m, j) })
		return err
	}
	if err := note(j); err != nil {
		return errors.Join(err, os.Remove(j.Layer))
	}
	driver.Step(ctx, "seal begun")
	err = h.plot.ChangeState(ctx, func(m *wsdir.State) error {
		m.Own = j.Own
		return errors.Join(seal.Set(m, nil), exchange(ctx, files, j.Layer))
	})
	if at, ierr := inodeOf(j.Layer); err != nil && (ierr != nil || at != j.Inode) { // it is as it was
		return errors.Join(err, note(nil), os.Remove(j.Layer))
	}
	return err
}

// own returns the directory that holds what is the workspace's own.
func (p *Provider) own(dir string, o *options) (string, error) {
	if len(o.lower()) == 0 {
		return filepath.Join(dir, wsdir.FilesName), nil
	}
	layer := filepath.Join(dir, layerName)
	return filepath.Join(layer, "upper"), p.freshLayer(layer)
}

// prepareLayer makes an empty directory that is like another one, which is on
// stable storage from then on.
func (p *Provider) prepareLayer(layer, like string) error {
	if err := os.MkdirAll(p.layers(), 0o755); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(like, &st); err != nil {
		return err
	}
	f, err := os.Open(like)
	if err != nil {
		return err
	}
	err = unix.Syncfs(int(f.Fd()))
	f.Close()
	if err != nil {
		return err
	}
	if err := os.Mkdir(layer, 0o700); err != nil {
		return err
	}
	if p.ids.root {
		err = os.Lchown(layer, int(st.Uid), int(st.Gid))
	}
	if err == nil {
		err = unix.Fchmodat(unix.AT_FDCWD, layer, st.Mode&0o7777, 0)
	}
	if err != nil {
		return errors.Join(err, os.Remove(layer))
	}
	return nil
}

// exchange lets two directories change places.
func exchange(ctx context.Context, a, b string) error {
	if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
		return err
	}
	driver.Step(ctx, "sealed")
	return nil
}

// recoverSeal completes a seal that was cut short, or drops one that moved nothing,
// and returns what the workspace is then. Who is in the middle of one is waited for.
func (p *Provider) recoverSeal(ctx context.Context, m *wsdir.State) (*wsdir.State, error) {
	if !seal.In(m) {
		return m, nil
	}
	dir := p.ground.Dir(m.ID)
	lock, err := supervise.Lock(ctx, dir.Path)
	if err != nil {
		return nil, err
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	if m, err = p.ground.Read(m.ID); err != nil {
		return nil, err
	}
	j, err := seal.Get(m)
	if err != nil || j == nil {
		return m, err
	}
	switch at, err := inodeOf(j.Layer); {
	case err == nil && at == j.Inode:
		if err := p.end(ctx, dir.Path); err != nil {
			return nil, err
		}
		return p.ground.ChangeState(ctx, m.ID, func(m *wsdir.State) error {
			m.Own = j.Own
			return seal.Set(m, nil)
		})
	case err == nil:
		if err := os.Remove(j.Layer); err != nil { // it is the empty one
			return nil, err
		}
	}
	return dir.Update(ctx, false, func(m *wsdir.State) error { return seal.Set(m, nil) })
}

// keepShape notes, in the options of a workspace that is there, what it was sealed
// into since it was opened.
func (p *Provider) keepShape(ctx context.Context, spec driver.Spec, opts *options) error {
	m, err := p.ground.Read(spec.ID)
	if err != nil {
		return nil // it is not there, or Ensure tells
	}
	if m, err = p.recover(ctx, m); err != nil {
		return err
	}
	var was options
	if err := driver.DecodeStrict(m.Own, &was); err == nil {
		opts.Sealed = was.Sealed
	}
	return nil
}
