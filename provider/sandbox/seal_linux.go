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
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/provider/sandbox/internal/mount"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// Sealing turns the directory of the files into an immutable lower layer: the workspace
// becomes an overlayfs over it, with an empty upper layer. Nothing is copied. The directory
// is exchanged with an empty one (RENAME_EXCHANGE), and the state lists the new lower
// layer. A journal, a section of the state, is written first: the next process that opens
// the workspace after a crash completes the seal.

const (
	sealedPrefix = "sealed-" // prefix of the names of sealed layers

	// maxLayers bounds the lower layers of an overlayfs: their names must fit into one
	// page, and each lookup visits all of them. Beyond it, the snapshot copies files.
	maxLayers = 16
)

// A sealJournal describes a seal that is under way.
type sealJournal struct {
	Layer string          `json:"layer"` // path of the new layer
	Inode uint64          `json:"inode"` // of the directory of the files: equal to that of Layer after the exchange
	Own   json.RawMessage `json:"own"`   // options of the workspace after the seal
}

// sealSection is the section of the state with the journal.
const sealSection = wsdir.Section[sealJournal]("seal")

func inodeOf(path string) (uint64, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	return st.Ino, err
}

// seal turns the files of a workspace without running processes into a layer. moved is
// false if the workspace can't be sealed this way.
func (h *handle) seal(ctx context.Context, l *level) (layers snapshot.Base, moved bool, err error) {
	m, o := h.dir.State(), h.currentOptions()
	if !l.canOverlay() || m.Dir != "" || h.p.ids.hasDiskImage(l, m.Policy) || len(o.lowerDirs()) >= maxLayers || h.hasImports() {
		return snapshot.Base{}, false, nil
	}
	unlock, err := h.att.Lock(ctx)
	if err != nil {
		return snapshot.Base{}, false, err
	}
	defer unlock()
	if err := h.sealLocked(ctx, &o); err != nil {
		if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
			return snapshot.Base{}, false, nil // layers are on another file system, or it lacks RENAME_EXCHANGE
		}
		return snapshot.Base{}, false, fmt.Errorf("sandbox: seal: %w: %w", fault.Of(err), err)
	}
	h.mu.Lock()
	h.opts = o
	h.mu.Unlock()
	return snapshot.DirsBase(o.lowerDirs()), true, nil
}

// sealLocked ends the guest, seals the files and adds the layer to o. It requires the lock
// of the attachment.
func (h *handle) sealLocked(ctx context.Context, o *Options) error {
	dir := h.p.store.Path(h.id)
	lock, err := supervise.Lock(ctx, dir)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	if err := h.dir.Current(); err != nil {
		return err
	}
	if err := h.p.endGuestLocked(context.WithoutCancel(ctx), dir); err != nil {
		return err
	}
	h.att.Disconnect()
	files := filepath.Join(dir, wsdir.FilesName) // the workspace's own files: these, or the upper layer
	if len(o.lowerDirs()) == 0 {
		err = mount.DropMarks(ctx, files)
	} else {
		layer := filepath.Join(dir, layerName)
		files, err = filepath.Join(layer, "upper"), h.p.ids.resetLayer(layer)
	}
	if err != nil {
		return err
	}
	j := &sealJournal{Layer: filepath.Join(h.p.layers.dir, sealedPrefix+driver.NewID())}
	if j.Inode, err = inodeOf(files); err != nil {
		return err
	}
	o.Sealed = slices.Insert(o.Sealed, 0, j.Layer)
	if j.Own, err = json.Marshal(o); err != nil {
		return err
	}
	if err := h.p.layers.prepare(j.Layer, files); err != nil {
		return err
	}
	note := func(j *sealJournal) error {
		_, err := h.att.Dir.Update(ctx, true, func(m *wsdir.State) error { return sealSection.Set(m, j) })
		return err
	}
	if err := note(j); err != nil {
		return errors.Join(err, os.Remove(j.Layer))
	}
	driver.Step(ctx, "seal begun")
	err = h.dir.ChangeState(ctx, func(m *wsdir.State) error {
		m.Own = j.Own
		// The exchange of the directories is atomic.
		err := errors.Join(sealSection.Set(m, nil), unix.Renameat2(unix.AT_FDCWD, files, unix.AT_FDCWD, j.Layer, unix.RENAME_EXCHANGE))
		if err == nil {
			driver.Step(ctx, "sealed")
		}
		return err
	})
	if at, ierr := inodeOf(j.Layer); err != nil && (ierr != nil || at != j.Inode) { // nothing was exchanged
		return errors.Join(err, note(nil), os.Remove(j.Layer))
	}
	return err
}

// recoverSeal completes an interrupted seal, or drops one that exchanged nothing, and
// returns the new state. It waits for a process that is sealing the workspace.
func (p *Provider) recoverSeal(ctx context.Context, m *wsdir.State) (*wsdir.State, error) {
	if !sealSection.In(m) {
		return m, nil
	}
	dir := p.store.Dir(m.ID)
	lock, err := supervise.Lock(ctx, dir.Path)
	if err != nil {
		return nil, err
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	if m, err = p.store.Read(m.ID); err != nil {
		return nil, err
	}
	j, err := sealSection.Get(m)
	if err != nil || j == nil {
		return m, err
	}
	switch at, err := inodeOf(j.Layer); {
	case err == nil && at == j.Inode:
		if err := p.endGuestLocked(ctx, dir.Path); err != nil {
			return nil, err
		}
		return p.store.ChangeState(ctx, m.ID, func(m *wsdir.State) error {
			m.Own = j.Own
			return sealSection.Set(m, nil)
		})
	case err == nil:
		if err := os.Remove(j.Layer); err != nil { // it is still empty
			return nil, err
		}
	}
	return dir.Update(ctx, false, func(m *wsdir.State) error { return sealSection.Set(m, nil) })
}

// loadSealed copies the sealed layers of an existing workspace into its options.
func (p *Provider) loadSealed(ctx context.Context, spec driver.Spec, opts *Options) error {
	m, err := p.store.Read(spec.ID)
	if err != nil {
		return nil // it does not exist, or Ensure reports the error
	}
	if m, err = p.completeInterrupted(ctx, m); err != nil {
		return err
	}
	var was Options
	if err := driver.DecodeStrict(m.Own, &was); err == nil {
		opts.Sealed = was.Sealed
	}
	return nil
}
