package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/flockfile"
	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/internal/host/guestbin"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// errNotShared is returned if the engine can't mount directories of this host.
var errNotShared = fmt.Errorf("the engine does not see the directories of this host: %w", fault.Unsupported)

// isNotShared reports whether an engine refused a container because it does not see the
// source of a bind mount: it runs on another host, or has no permission, such as a rootless
// engine for root's files.
func isNotShared(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.Contains(text, `invalid mount config for type "bind"`) || strings.Contains(text, "statfs ") && strings.Contains(text, "no such file or directory")
}

// useVolume reports whether the files of a new workspace are on a volume: if the option says
// so, if the engine is reached over a network, or if a test shows that the engine does not
// see the data directory.
func (p *Provider) useVolume(ctx context.Context, files, runtime, image string) (bool, error) {
	if files == "" {
		files = p.cfg.Files
	}
	switch files {
	case FilesVolume:
		return true, nil
	case FilesDirectory:
		return false, nil
	case "":
	default:
		return false, fmt.Errorf("files %q: %w: it must be %q or %q", files, fault.InvalidArgument, FilesDirectory, FilesVolume)
	}
	info, err := p.engineInfo(ctx)
	if err != nil || info.Remote {
		return true, err
	}
	_, err = p.checkEngine(ctx, runtime, false, image)
	if errors.Is(err, errNotShared) {
		return true, nil
	}
	return false, err
}

// createVolume creates the volume of a workspace, gives it to the workload, and fills it from
// the snapshot, if there is one.
func (p *Provider) createVolume(ctx context.Context, id string, f *engineProof, from snapshot.Tree, durable bool) error {
	labels, err := p.objectLabels(ctx, id, "")
	if err != nil {
		return err
	}
	if err := p.engine.CreateVolume(ctx, containerName(id), f.UID, labels); err != nil {
		return err
	}
	driver.Step(ctx, "volume made")
	return p.withProbeDir(ctx, func(dir string) error {
		l := &launch{
			dir: dir, id: probeID, name: namePrefix + filepath.Base(dir), image: f.image, volume: containerName(id), proof: f, key: probeID, autoRemove: true,
			policy: driver.Policy{Durable: durable}, lease: time.Minute,
		}
		if err := p.chownVolume(ctx, l); err != nil || from == nil {
			return err
		}
		defer p.removeContainer(ctx, l.name) //nolint:errcheck // it removes itself, or is swept
		c, err := p.startContainer(ctx, l)
		if err != nil {
			return err
		}
		defer c.Close() //nolint:errcheck // nothing is lost with it
		return snapshot.Write(ctx, from, c.Files(), nil)
	})
}

// chownVolume gives a volume to the workload, without starting a container.
func (p *Provider) chownVolume(ctx context.Context, l *launch) error {
	if _, err := p.ensureImage(ctx, l.image); err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	defer cancel()
	return p.unpackFiles(soon, l, []Mount{{Source: l.volume, Target: guestWorkspaceDir, Volume: true}}, []tarEntry{{name: guestWorkspaceDir, mode: 0o755, uid: l.proof.UID, dir: true}}, nil)
}

// removeVolume removes a volume by its name.
func (p *Provider) removeVolume(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.AnswerTimeout)
	defer cancel()
	err := p.engine.RemoveVolume(ctx, name)
	if fault.Of(err) == fault.AlreadyExists && p.releaseVolumes(ctx) == nil {
		err = p.engine.RemoveVolume(ctx, name)
	}
	if err != nil {
		return p.engineTimeout(context.WithoutCancel(ctx), err)
	}
	driver.Step(ctx, "volume removed")
	return nil
}

// releaseVolumes removes the containers of processes that died while they filled a volume,
// which keep the volume in use. It waits for processes that are filling one.
func (p *Provider) releaseVolumes(ctx context.Context) error {
	lock, err := flockfile.Lock(ctx, filepath.Join(p.cfg.Cache, probeLock))
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	return p.cleanProbesLocked(ctx)
}

// probeVolume creates the volume of a probe; done removes it.
func (p *Provider) probeVolume(ctx context.Context, l *launch) (done func(), err error) {
	labels, err := p.objectLabels(ctx, probeID, l.key)
	if err != nil {
		return nil, err
	}
	l.volume = l.name
	if err := p.engine.CreateVolume(ctx, l.volume, l.proof.UID, labels); err != nil {
		return nil, err
	}
	done = func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.AnswerTimeout)
		defer cancel()
		if err := errors.Join(p.removeContainer(clean, l.name), p.engine.RemoveVolume(clean, l.volume)); err != nil {
			p.log.Warn("docker: the volume of a probe can't be removed", "volume", l.volume, "error", err)
		}
	}
	if err := p.chownVolume(ctx, l); err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// checkVolume returns an error if the volume of a workspace does not exist.
func (p *Provider) checkVolume(ctx context.Context, id string) error {
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	defer cancel()
	err := p.engineTimeout(ctx, p.engine.Volume(soon, containerName(id)))
	if fault.Of(err) == fault.NotFound {
		return p.store.Gone()
	}
	return err
}

// startOnVolume starts a container with files on a volume. Nothing of this host is mounted;
// the guest gets its configuration over standard input.
func (p *Provider) startOnVolume(ctx context.Context, l *launch) (*guest.Client, error) {
	bin, err := p.binary()
	if err != nil {
		return nil, fmt.Errorf("docker: %w", err)
	}
	img, err := p.ensureImage(ctx, l.image)
	if err != nil {
		return nil, err
	}
	own, err := p.ensureGuestImage(ctx, l, img)
	if err != nil {
		return nil, err
	}
	spec, err := p.containerSpec(ctx, l, img, "")
	if err != nil {
		return nil, err
	}
	spec.Image = own
	l.newToken()
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	defer cancel()
	id, err := p.createContainer(soon, spec)
	if err != nil {
		return nil, p.engineTimeout(ctx, err)
	}
	conn, err := p.engine.Attach(soon, id)
	if err != nil {
		return nil, p.engineTimeout(ctx, err)
	}
	if err := p.engine.Start(soon, id); err != nil {
		return nil, p.engineTimeout(ctx, errors.Join(err, conn.Close()))
	}
	driver.Step(ctx, "container started")
	c, err := guest.StartStdio(soon, conn, l.guestConfig(bin.Version, img))
	if fault.Of(err) == fault.Unavailable {
		if serr := p.checkRunning(soon, l.name); serr != nil {
			err = serr
		}
	}
	return c, p.engineTimeout(ctx, err)
}

// connectByExec connects to the guest of a container that another process started, through a
// second process in the container. That process has another uid, so the workload can't
// signal or trace it.
func (p *Provider) connectByExec(ctx context.Context, l *launch, token, version string) (*guest.Client, error) {
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	defer cancel()
	other := fmt.Sprintf("%d:%d", l.proof.UID+1, l.proof.UID+1)
	conn, err := p.engine.Exec(soon, l.name, other, guestInside, guestproto.ConnectVerb)
	if err != nil {
		return nil, err
	}
	return guest.DialStdio(soon, conn, token, version, l.id)
}

// ensureGuestImage returns the name of an image derived from img, with the guest's program
// and the workload's account. It is created once.
func (p *Provider) ensureGuestImage(ctx context.Context, l *launch, img Image) (string, error) {
	bin, err := p.binary()
	if err != nil {
		return "", fmt.Errorf("docker: %w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %d", img.ID, bin.Version, l.proof.UID, proofVersion))
	name := OwnImages + ":" + hex.EncodeToString(sum[:8])
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	_, err = p.engine.Image(soon, name)
	cancel()
	if fault.Of(err) != fault.NotFound {
		return name, p.engineTimeout(ctx, err)
	}
	if arch := l.proof.info.Architecture; arch != "" && arch != runtime.GOARCH {
		return "", fmt.Errorf("docker: the engine's architecture is %s, but %s is for %s only: %w", arch, guestbin.Name, runtime.GOARCH, fault.Unsupported)
	}
	program, err := os.ReadFile(bin.Path)
	if err != nil {
		return "", fmt.Errorf("docker: read %s: %w: %w", guestbin.Name, fault.Of(err), err)
	}
	passwd, group := accountFiles(l.proof.UID)
	entries := []tarEntry{
		{name: guestInside, mode: 0o555, data: program},
		{name: boxInside, mode: 0o1733, dir: true}, // not readable: its entries can't be listed
		{name: "/etc/passwd", mode: 0o644, data: []byte(passwd)},
		{name: "/etc/group", mode: 0o644, data: []byte(group)},
	}
	long, cancel := context.WithTimeout(ctx, p.cfg.PullTimeout)
	defer cancel()
	labels := map[string]string{LabelSource: l.image + " with " + guestbin.Name + " " + bin.Version, LabelGuest: bin.Version}
	err = p.withProbeDir(ctx, func(dir string) error {
		made := *l
		made.name = namePrefix + filepath.Base(dir)
		return p.unpackFiles(long, &made, nil, entries, func(id string) error { return p.engine.Commit(long, id, name, labels) })
	})
	return name, p.engineTimeout(ctx, err)
}

// A tarEntry is a file or directory to copy into a container.
type tarEntry struct {
	name string // absolute, inside
	mode int64
	uid  int
	dir  bool
	data []byte
}

// unpackFiles creates a container that never runs, copies files into it and its mounts, calls
// then, which may be nil, and removes the container.
func (p *Provider) unpackFiles(ctx context.Context, l *launch, mounts []Mount, entries []tarEntry, then func(id string) error) error {
	labels, err := p.objectLabels(ctx, probeID, l.key)
	if err != nil {
		return err
	}
	id, err := p.createContainer(ctx, ContainerSpec{Name: l.name, Image: l.image, Labels: labels, Command: []string{guestInside}, Mounts: mounts, Writable: true})
	if err != nil {
		return err
	}
	defer p.removeContainer(ctx, id) //nolint:errcheck // a sweep removes it
	files, err := tarEntries(entries)
	if err != nil {
		return fmt.Errorf("docker: %w: %w", fault.Internal, err)
	}
	if err := p.engine.Put(ctx, id, "/", files); err != nil || then == nil {
		return err
	}
	return then(id)
}

func tarEntries(entries []tarEntry) (io.Reader, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{Name: strings.TrimPrefix(e.name, "/"), Mode: e.mode, Uid: e.uid, Gid: e.uid, Size: int64(len(e.data)), Typeflag: tar.TypeReg}
		if e.dir {
			h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	return &buf, w.Close()
}

// withProbeDir calls do with a directory of the cache that names a temporary container.
// cleanProbes removes the leftovers of a crash by that name.
func (p *Provider) withProbeDir(ctx context.Context, do func(dir string) error) error {
	path, err := p.cachePath(probeLock)
	if err != nil {
		return err
	}
	lock, err := flockfile.RLock(ctx, path)
	if err != nil {
		return fmt.Errorf("docker: %w", err)
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	dir, err := os.MkdirTemp(p.cfg.Cache, probePrefix)
	if err != nil {
		return fmt.Errorf("docker: %w: %w", fault.Of(err), err)
	}
	defer os.RemoveAll(dir)
	return do(dir)
}

// destroyContainer removes the container of the workspace in dir, and its volume. If the state
// can't be read, sweepEngine finds both by their labels.
func (p *Provider) destroyContainer(ctx context.Context, dir string) error {
	d := wsdir.Dir{Path: dir, Kind: Kind}
	if err := supervise.LockAndEnd(ctx, d, p.hooks); err != nil {
		return fmt.Errorf("docker: end the container: %w", err)
	}
	m, err := d.Read()
	if err != nil {
		return nil // see above
	}
	if opts, err := optionsOf(m); err == nil && opts.Files == FilesVolume {
		return p.removeVolume(ctx, containerName(m.ID))
	}
	return nil
}
