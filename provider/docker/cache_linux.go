package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/host/guestbin"
)

// cleanProbes removes leftovers of probes whose process has died.
func (p *Provider) cleanProbes() error {
	lock := flock.New(filepath.Join(p.cfg.Cache, probeLock), flock.SetFlag(os.O_RDWR))
	locked, err := lock.TryLock()
	if err != nil || !locked {
		return nil // there was no probe, or one is running
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	return p.cleanProbesLocked(p.ctx)
}

// cleanProbesLocked is cleanProbes for a caller that has the lock.
func (p *Provider) cleanProbesLocked(ctx context.Context) error {
	dirs, err := filepath.Glob(filepath.Join(p.cfg.Cache, probePrefix+"*"))
	if err != nil {
		return err
	}
	var errs error
	for _, dir := range dirs {
		if filepath.Base(dir) != probeLock {
			name := namePrefix + filepath.Base(dir)
			errs = errors.Join(errs, p.removeContainer(ctx, name), p.engine.RemoveVolume(ctx, name), os.RemoveAll(dir))
		}
	}
	return errs
}

// installedGuest is the guest's program in the cache, where the engine can mount it.
type installedGuest struct{ path, version string }

// installGuest copies the guest's program into the cache, once.
func (p *Provider) installGuest() (installedGuest, error) {
	bin, err := p.binary()
	if err != nil {
		return installedGuest{}, fmt.Errorf("docker: %w", err)
	}
	path, err := p.cachePath(guestbin.Name + "-" + bin.Version)
	if err != nil {
		return installedGuest{}, err
	}
	if _, err := os.Lstat(path); err == nil {
		return installedGuest{path, bin.Version}, nil
	}
	data, err := os.ReadFile(bin.Path)
	if err != nil {
		return installedGuest{}, fmt.Errorf("docker: read %s: %w: %w", guestbin.Name, fault.Of(err), err)
	}
	if err := atomicfile.Write(path, data, atomicfile.Options{Mode: 0o555, Durable: true}); err != nil {
		return installedGuest{}, fmt.Errorf("docker: install %s: %w: %w", guestbin.Name, fault.Of(err), err)
	}
	return installedGuest{path, bin.Version}, nil
}

// accountFiles returns the content of /etc/passwd and /etc/group: programs look up the name
// of their user.
func accountFiles(uid int) (passwd, group string) {
	passwd = fmt.Sprintf("%s:x:%d:%d::%s:/bin/bash\n", userName, uid, uid, home)
	group = fmt.Sprintf("%s:x:%d:\n", userName, uid)
	if uid != 0 {
		passwd = "root:x:0:0:root:/root:/usr/sbin/nologin\n" + passwd
		group = "root:x:0:\n" + group
	}
	return passwd + "nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n", group + "nogroup:x:65534:\n"
}

// accountMounts returns the mounts of the account files.
func (p *Provider) accountMounts(uid int) ([]Mount, error) {
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
