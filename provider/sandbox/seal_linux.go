package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/guest/keep"
	"github.com/croft-run/croft/posix/plot"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// To seal a workspace is to give what it has, as one directory, another name: it
// becomes a layer, and the workspace lies over it with nothing of its own. The
// directory changes places with an empty one, so that there always is one, and
// the meta says what the workspace lies over. A journal, written before, lets
// whoever opens the workspace after a crash do what is missing.

const (
	sealName     = "seal"    // in the directory of a workspace: the journal
	sealedPrefix = "sealed-" // begins the names of layers that were sealed

	// maxLayers bounds what lies over each other: the kernel takes their names in
	// one page, and looks into each of them. Beyond, a seal copies.
	maxLayers = 16
)

// A sealing is what the journal says.
type sealing struct {
	Layer string          `json:"layer"` // the directory that the files become
	Inode uint64          `json:"inode"` // of the files: tells whether they are there
	Own   json.RawMessage `json:"own"`   // what the meta says then
}

func readSeal(dir string) (*sealing, error) {
	data, err := os.ReadFile(filepath.Join(dir, sealName))
	if err != nil {
		return nil, err
	}
	j := new(sealing)
	return j, driver.DecodeStrict(data, j)
}

// write puts the journal into the directory of a workspace.
func (j *sealing) write(dir string) error {
	data, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, sealName), data)
}

// writeFile makes a file appear at once, and on stable storage.
func writeFile(path string, data []byte) error {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	return err
}

func inodeOf(path string) (uint64, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	return st.Ino, err
}

// seal turns the files of a workspace, in which nothing runs, into a layer.
func (h *handle) seal(ctx context.Context, l *level) (layers snapshot.Base, moved bool, err error) {
	m, o := h.plot.Meta(), h.shape()
	if !l.overlays() || m.Dir != "" || h.p.limitedDisk(l, m.Policy) || len(o.lower()) >= maxLayers || h.staged() {
		return snapshot.Base{}, false, nil
	}
	unlock, err := h.lock(ctx)
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
	alone, err := keep.Lock(ctx, dir)
	if err != nil {
		return err
	}
	defer alone.Close() //nolint:errcheck // the lock ends with the descriptor, whatever it answers
	if err := h.plot.Current(); err != nil {
		return err
	}
	if err := h.p.end(context.WithoutCancel(ctx), dir); err != nil {
		return err
	}
	if h.client != nil {
		h.client.close()
		h.client = nil
	}
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
	if err := j.write(dir); err != nil {
		return errors.Join(err, os.Remove(j.Layer))
	}
	driver.Step(ctx, "seal begun")
	err = h.plot.Reshape(ctx, j.Own, func() error { return exchange(ctx, files, j.Layer) })
	if at, ierr := inodeOf(j.Layer); err != nil && (ierr != nil || at != j.Inode) { // it is as it was
		return errors.Join(err, os.Remove(filepath.Join(dir, sealName)), os.Remove(j.Layer))
	}
	if err != nil {
		return err
	}
	return os.Remove(filepath.Join(dir, sealName))
}

// own returns the directory that holds what is the workspace's own.
func (p *Provider) own(dir string, o *options) (string, error) {
	if len(o.lower()) == 0 {
		return filepath.Join(dir, plot.FilesName), nil
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
func (p *Provider) recoverSeal(ctx context.Context, m *plot.Meta) (*plot.Meta, error) {
	dir := p.ground.Path(m.ID)
	if _, err := os.Lstat(filepath.Join(dir, sealName)); errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	alone, err := keep.Lock(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer alone.Close() //nolint:errcheck // the lock ends with the descriptor, whatever it answers
	j, err := readSeal(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return p.ground.Read(m.ID)
	}
	if err != nil {
		return nil, fmt.Errorf("the journal of a seal: %w: %w", fault.Failed, err)
	}
	switch at, err := inodeOf(j.Layer); {
	case err == nil && at == j.Inode:
		if err := p.end(ctx, dir); err != nil {
			return nil, err
		}
		if m, err = p.ground.Reshape(ctx, m.ID, j.Own, func() error { return nil }); err != nil {
			return nil, err
		}
	case err == nil:
		if err := os.Remove(j.Layer); err != nil { // it is the empty one
			return nil, err
		}
	}
	return m, os.Remove(filepath.Join(dir, sealName))
}

// keepShape notes, in the options of a workspace that is there, what it was sealed
// into since it was opened.
func (p *Provider) keepShape(ctx context.Context, spec driver.Spec, opts *options) error {
	m, err := p.ground.Read(spec.ID)
	if err != nil {
		return nil //nolint:nilerr // it is not there, or Ensure tells
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
