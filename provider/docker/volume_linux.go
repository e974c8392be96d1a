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
	"github.com/croft-run/croft/host/guest"
	"github.com/croft-run/croft/host/guest/supervise"
	"github.com/croft-run/croft/host/guestbin"
	"github.com/croft-run/croft/host/guestproto"
	"github.com/croft-run/croft/host/wsdir"
	"github.com/croft-run/croft/internal/flockfile"
	"github.com/croft-run/croft/workspace/driver"
)

// errNotShared says that the engine does not see the directories of this host.
var errNotShared = fmt.Errorf("the engine does not see the directories of this host: %w", fault.Unsupported)

// notShared reports whether an engine refused a container because what is to be
// mounted is not there where it is, or is not for it to see, as root's files are not
// for an engine that runs as an ordinary user.
func notShared(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.Contains(text, `invalid mount config for type "bind"`) || strings.Contains(text, "statfs ") && strings.Contains(text, "no such file or directory")
}

// onVolume says where the files of a new workspace are to be: on a volume of the
// engine where it is asked for, where the engine is reached over a network, and
// where it was tried and does not see the data directory of this host.
func (p *Provider) onVolume(ctx context.Context, files, runtime string) (bool, error) {
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
		return false, fmt.Errorf("files %q: %w: they are in a %q or on a %q", files, fault.InvalidArgument, FilesDirectory, FilesVolume)
	}
	info, err := p.describe(ctx)
	if err != nil || info.Remote {
		return true, err
	}
	_, err = p.prove(ctx, runtime, false)
	if errors.Is(err, errNotShared) {
		return true, nil
	}
	return false, err
}

// makeVolume makes the volume of a workspace, which belongs to the workload, and
// fills it.
func (p *Provider) makeVolume(ctx context.Context, id string, f *fact, from *origin, durable bool) error {
	labels, err := p.labels(ctx, id, "")
	if err != nil {
		return err
	}
	if err := p.engine.CreateVolume(ctx, unitOf(id), f.UID, labels); err != nil {
		return err
	}
	driver.Step(ctx, "volume made")
	return p.aside(ctx, func(dir string) error {
		l := &launch{
			dir: dir, id: probeID, name: namePrefix + filepath.Base(dir), image: p.cfg.Image, volume: unitOf(id), fact: f, key: probeID, autoRemove: true,
			policy: driver.Policy{Durable: durable}, lease: time.Minute,
		}
		if err := p.own(ctx, l); err != nil || from == nil {
			return err
		}
		defer p.removeUnit(ctx, l.name) //nolint:errcheck // it removes itself, or is swept
		c, err := p.start(ctx, l)
		if err != nil {
			return err
		}
		defer c.Close() //nolint:errcheck // nothing is lost with it
		return from.write(ctx, c.Files())
	})
}

// own gives a volume to the workload, without starting anything.
func (p *Provider) own(ctx context.Context, l *launch) error {
	if _, err := p.ensureImage(ctx, l.image); err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	defer cancel()
	return p.unpack(soon, l, []Mount{{Source: l.volume, Target: inside, Volume: true}}, []entry{{name: inside, mode: 0o755, uid: l.fact.UID, dir: true}}, nil)
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
		return p.hung(context.WithoutCancel(ctx), err)
	}
	driver.Step(ctx, "volume removed")
	return nil
}

// releaseVolumes removes the containers that hold volumes without being those of
// their workspaces: of processes that died while they filled one. It waits for
// processes that fill one now.
func (p *Provider) releaseVolumes(ctx context.Context) error {
	lock, err := flockfile.Lock(ctx, filepath.Join(p.cfg.Cache, probeLock))
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	return p.cleanAlone(ctx)
}

// probeVolume makes the volume of a probe; done removes it.
func (p *Provider) probeVolume(ctx context.Context, l *launch) (done func(), err error) {
	labels, err := p.labels(ctx, probeID, l.key)
	if err != nil {
		return nil, err
	}
	l.volume = l.name
	if err := p.engine.CreateVolume(ctx, l.volume, l.fact.UID, labels); err != nil {
		return nil, err
	}
	done = func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.AnswerTimeout)
		defer cancel()
		if err := errors.Join(p.removeUnit(clean, l.name), p.engine.RemoveVolume(clean, l.volume)); err != nil {
			p.log.Warn("docker: a volume of a probe stays", "volume", l.volume, "error", err)
		}
	}
	if err := p.own(ctx, l); err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// haveVolume answers that the files of a workspace are gone, if they are.
func (p *Provider) haveVolume(ctx context.Context, id string) error {
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	defer cancel()
	err := p.hung(ctx, p.engine.Volume(soon, unitOf(id)))
	if fault.Of(err) == fault.NotFound {
		return p.ground.Gone()
	}
	return err
}

// startAway begins the container of a launch with a volume: nothing of this host is in
// it, and all that its guest is told goes through the engine.
func (p *Provider) startAway(ctx context.Context, l *launch) (*guest.Client, error) {
	bin, err := p.binary()
	if err != nil {
		return nil, fmt.Errorf("docker: %w", err)
	}
	img, err := p.ensureImage(ctx, l.image)
	if err != nil {
		return nil, err
	}
	own, err := p.ensureOwn(ctx, l, img)
	if err != nil {
		return nil, err
	}
	unit, err := p.unit(ctx, l, img, "")
	if err != nil {
		return nil, err
	}
	unit.Image = own
	l.newToken()
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	defer cancel()
	id, err := p.create(soon, unit)
	if err != nil {
		return nil, p.hung(ctx, err)
	}
	conn, err := p.engine.Attach(soon, id)
	if err != nil {
		return nil, p.hung(ctx, err)
	}
	if err := p.engine.Start(soon, id); err != nil {
		return nil, p.hung(ctx, errors.Join(err, conn.Close()))
	}
	driver.Step(ctx, "container started")
	c, err := guest.StartStdio(soon, conn, l.config(bin.Version, img))
	if fault.Of(err) == fault.Unavailable {
		if serr := p.stands(soon, l.name); serr != nil {
			err = serr
		}
	}
	return c, p.hung(ctx, err)
}

// reach attaches to the guest of a container whose standard input and output belong
// to another process. It is a process of a user that the workload can't touch.
func (p *Provider) reach(ctx context.Context, l *launch, token, version string) (*guest.Client, error) {
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	defer cancel()
	other := fmt.Sprintf("%d:%d", l.fact.UID+1, l.fact.UID+1)
	conn, err := p.engine.Exec(soon, l.name, other, guestInside, guestproto.ConnectVerb)
	if err != nil {
		return nil, err
	}
	return guest.DialStdio(soon, conn, token, version, l.id)
}

// ensureOwn returns the name of an image that is another one, with the guest's
// program and the workload's account in it. It is made once for each.
func (p *Provider) ensureOwn(ctx context.Context, l *launch, img Image) (string, error) {
	bin, err := p.binary()
	if err != nil {
		return "", fmt.Errorf("docker: %w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %d", img.ID, bin.Version, l.fact.UID, proofVersion))
	name := OwnImages + ":" + hex.EncodeToString(sum[:8])
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	_, err = p.engine.Image(soon, name)
	cancel()
	if fault.Of(err) != fault.NotFound {
		return name, p.hung(ctx, err)
	}
	if arch := l.fact.info.Architecture; arch != "" && arch != runtime.GOARCH {
		return "", fmt.Errorf("docker: the engine runs programs for %s, and there is a %s for %s alone: %w", arch, guestbin.Name, runtime.GOARCH, fault.Unsupported)
	}
	program, err := os.ReadFile(bin.Path)
	if err != nil {
		return "", fmt.Errorf("docker: read %s: %w: %w", guestbin.Name, fault.Of(err), err)
	}
	passwd, group := accountFiles(l.fact.UID)
	entries := []entry{
		{name: guestInside, mode: 0o555, data: program},
		{name: boxInside, mode: 0o1733, dir: true}, // who knows no name in it finds none
		{name: "/etc/passwd", mode: 0o644, data: []byte(passwd)},
		{name: "/etc/group", mode: 0o644, data: []byte(group)},
	}
	long, cancel := context.WithTimeout(ctx, p.cfg.PullTimeout)
	defer cancel()
	labels := map[string]string{LabelSource: l.image + " with " + guestbin.Name + " " + bin.Version, LabelGuest: bin.Version}
	err = p.aside(ctx, func(dir string) error {
		made := *l
		made.name = namePrefix + filepath.Base(dir)
		return p.unpack(long, &made, nil, entries, func(id string) error { return p.engine.Commit(long, id, name, labels) })
	})
	return name, p.hung(ctx, err)
}

// An entry is a file or directory for a container.
type entry struct {
	name string // absolute, inside
	mode int64
	uid  int
	dir  bool
	data []byte
}

// unpack makes a container that never runs, puts files into it and its mounts, and
// removes it when then, which may be nil, is done with it.
func (p *Provider) unpack(ctx context.Context, l *launch, mounts []Mount, entries []entry, then func(id string) error) error {
	labels, err := p.labels(ctx, probeID, l.key)
	if err != nil {
		return err
	}
	id, err := p.create(ctx, Unit{Name: l.name, Image: l.image, Labels: labels, Command: []string{guestInside}, Mounts: mounts, Writable: true})
	if err != nil {
		return err
	}
	defer p.removeUnit(ctx, id) //nolint:errcheck // it is swept
	files, err := archive(entries)
	if err != nil {
		return fmt.Errorf("docker: %w: %w", fault.Internal, err)
	}
	if err := p.engine.Put(ctx, id, "/", files); err != nil || then == nil {
		return err
	}
	return then(id)
}

func archive(entries []entry) (io.Reader, error) {
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

// aside does something that needs a container of no workspace, which is named
// after a directory of the cache: what a crash leaves of it, cleanProbes removes.
func (p *Provider) aside(ctx context.Context, do func(dir string) error) error {
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
	defer os.RemoveAll(dir) // nothing of worth is in it
	return do(dir)
}

// destroyIn ends the container of the workspace in dir, and removes its volume.
// Where the state can't be read, sweepEngine finds both by their labels.
func (p *Provider) destroyIn(ctx context.Context, dir string) error {
	d := wsdir.Dir{Path: dir, Kind: Kind}
	if err := supervise.LockAndEnd(ctx, d, p.hooks); err != nil {
		return fmt.Errorf("docker: end the container: %w", err)
	}
	m, err := d.Read()
	if err != nil {
		return nil // see above
	}
	if opts, err := optionsOf(m); err == nil && opts.Files == FilesVolume {
		return p.removeVolume(ctx, unitOf(m.ID))
	}
	return nil
}
