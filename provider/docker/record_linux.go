package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/guestbin"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/flockfile"
	"github.com/croft-run/croft/workspace/driver"
)

const namePrefix = "croft-"

// unitOf names the container of a workspace.
func unitOf(id string) string { return namePrefix + id }

// groundName is the file in the root whose content names it. It is locked while it is
// read and written.
const groundName = ".ground-" + Kind

// groundID names the root of this provider. It is made when the first container
// is.
func (p *Provider) groundID(ctx context.Context) (string, error) {
	if err := os.MkdirAll(p.cfg.Root, 0o700); err != nil {
		return "", err
	}
	path := p.ground.Path(groundName)
	lock, err := flockfile.Lock(ctx, path)
	if err != nil {
		return "", err
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	data, err := os.ReadFile(path)
	if err != nil || driver.ValidID(string(data)) {
		return string(data), err
	}
	id := driver.NewID() // there is none, or a crash has torn it
	return id, os.WriteFile(path, []byte(id), 0o600)
}

// labels are on all that the provider makes in the engine.
func (p *Provider) labels(ctx context.Context, id, key string) (map[string]string, error) {
	ground, err := p.groundID(ctx)
	if err != nil {
		return nil, fmt.Errorf("docker: name the data directory: %w: %w", fault.Of(err), err)
	}
	return map[string]string{
		LabelWorkspace: id, LabelGround: ground, LabelRoot: p.cfg.Root, LabelHost: hostID(), LabelKey: key,
	}, nil
}

// hostID names this host, for those who share an engine with others.
func hostID() string {
	if data, err := os.ReadFile("/etc/machine-id"); err == nil && len(strings.TrimSpace(string(data))) > 0 {
		return strings.TrimSpace(string(data))
	}
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

// cleanProbes removes what probes left whose process has died.
func (p *Provider) cleanProbes() error {
	lock := flock.New(filepath.Join(p.cfg.Cache, probeLock), flock.SetFlag(os.O_RDWR))
	alone, err := lock.TryLock()
	if err != nil || !alone {
		return nil // there was no probe, or one is under way
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	return p.cleanAlone(p.ctx)
}

// cleanAlone is cleanProbes while the lock is held.
func (p *Provider) cleanAlone(ctx context.Context) error {
	dirs, err := filepath.Glob(filepath.Join(p.cfg.Cache, probePrefix+"*"))
	if err != nil {
		return err
	}
	var errs error
	for _, dir := range dirs {
		if filepath.Base(dir) != probeLock {
			name := namePrefix + filepath.Base(dir)
			errs = errors.Join(errs, p.removeUnit(ctx, name), p.engine.RemoveVolume(ctx, name), os.RemoveAll(dir))
		}
	}
	return errs
}

// installed is the guest's program where the engine can mount it.
type installed struct{ path, version string }

// install puts the guest's program, once, into the cache.
func (p *Provider) install() (installed, error) {
	bin, err := p.binary()
	if err != nil {
		return installed{}, fmt.Errorf("docker: %w", err)
	}
	path, err := p.cachePath(guestbin.Name + "-" + bin.Version)
	if err != nil {
		return installed{}, err
	}
	if _, err := os.Lstat(path); err == nil {
		return installed{path, bin.Version}, nil
	}
	data, err := os.ReadFile(bin.Path)
	if err != nil {
		return installed{}, fmt.Errorf("docker: read %s: %w: %w", guestbin.Name, fault.Of(err), err)
	}
	if err := atomicfile.Write(path, data, atomicfile.Options{Mode: 0o555, Durable: true}); err != nil {
		return installed{}, fmt.Errorf("docker: install %s: %w: %w", guestbin.Name, fault.Of(err), err)
	}
	return installed{path, bin.Version}, nil
}

// accountFiles tell who there is inside: programs ask for their user's name.
func accountFiles(uid int) (passwd, group string) {
	passwd = fmt.Sprintf("%s:x:%d:%d::%s:/bin/bash\n", userName, uid, uid, home)
	group = fmt.Sprintf("%s:x:%d:\n", userName, uid)
	if uid != 0 {
		passwd = "root:x:0:0:root:/root:/usr/sbin/nologin\n" + passwd
		group = "root:x:0:\n" + group
	}
	return passwd + "nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n", group + "nogroup:x:65534:\n"
}

// accounts mounts them.
func (p *Provider) accounts(uid int) ([]Mount, error) {
	passwd, group := accountFiles(uid)
	files := map[string]string{"passwd": passwd, "group": group}
	var mounts []Mount
	for _, name := range []string{"passwd", "group"} {
		path, err := p.cachePath(fmt.Sprintf("%s-%d", name, uid))
		if err != nil {
			return nil, err
		}
		if old, err := os.ReadFile(path); err != nil || string(old) != files[name] {
			if err := atomicfile.Write(path, []byte(files[name]), atomicfile.Options{Mode: 0o444}); err != nil {
				return nil, fmt.Errorf("docker: write the accounts: %w: %w", fault.Of(err), err)
			}
		}
		mounts = append(mounts, Mount{Source: path, Target: "/etc/" + name, ReadOnly: true})
	}
	return mounts, nil
}
