package docker

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

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/guest/guestbin"
	"github.com/croft-run/croft/guest/keep"
	"github.com/croft-run/croft/workspace/driver"
)

// unitName is the file that says which container a workspace has.
const unitName = "unit"

// A record is what is in that file. It is there before the container is.
type record struct {
	Name  string `json:"name"`  // of the container
	Key   string `json:"key"`   // of how it runs: who wants another ends it
	Token string `json:"token"` // what its guest wants to hear; "" while it is about to start
}

func (r *record) write(dir string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	temp := filepath.Join(dir, unitName+".new")
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, filepath.Join(dir, unitName))
}

// readRecord returns nil where there is none; one that a loss of power has torn is
// of no container that outlived it, but of one that may be left in the engine.
func readRecord(dir string) (*record, error) {
	data, err := os.ReadFile(filepath.Join(dir, unitName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := new(record)
	if driver.DecodeStrict(data, r) != nil || !strings.HasPrefix(r.Name, namePrefix) {
		return &record{}, nil
	}
	return r, nil
}

const namePrefix = "croft-"

// unitOf names the container of a workspace.
func unitOf(id string) string { return namePrefix + id }

// endIn ends the container of the workspace in dir, which may have the name of a
// dead one.
func (p *Provider) endIn(ctx context.Context, dir string) error {
	if _, err := os.Lstat(dir); err != nil {
		return nil // there is no workspace, so there is no container
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keep.EndTimeout)
	defer cancel()
	alone, err := keep.Lock(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("docker: lock the container: %w", err)
	}
	defer alone.Close() //nolint:errcheck // the lock ends with the descriptor, whatever it answers
	return p.end(ctx, dir)
}

// end is endIn while the lock is held.
func (p *Provider) end(ctx context.Context, dir string) error {
	r, err := readRecord(dir)
	if err != nil {
		return fmt.Errorf("docker: end the container: %w: %w", fault.Of(err), err)
	}
	if r == nil {
		return nil
	}
	if r.Name == "" {
		r.Name = unitOf(idOf(dir))
	}
	if err := p.removeUnit(ctx, r.Name); err != nil {
		return fmt.Errorf("docker: end the container: %w", err)
	}
	driver.Step(ctx, "container removed")
	if err := os.Remove(filepath.Join(dir, unitName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("docker: end the container: %w: %w", fault.Of(err), err)
	}
	return nil
}

// idOf is the id in the name of a workspace's directory, dead or alive.
func idOf(dir string) string {
	name := strings.TrimPrefix(filepath.Base(dir), ".dead-"+Kind+"-")
	id, _, _ := strings.Cut(name, "-")
	return id
}

// groundName is the file in the root whose content names it.
const groundName = ".ground-" + Kind

// groundID names the root of this provider. It is made when the first container
// is.
func (p *Provider) groundID(create bool) (string, error) {
	path := p.ground.Path(groundName)
	if err := os.MkdirAll(p.cfg.Root, 0o700); err != nil {
		return "", err
	}
	for {
		data, err := os.ReadFile(path)
		if err == nil && driver.ValidID(string(data)) {
			return string(data), nil
		}
		if err != nil && (!create || !errors.Is(err, fs.ErrNotExist)) {
			return "", err
		}
		temp := path + "." + driver.NewID()
		if err := os.WriteFile(temp, []byte(driver.NewID()), 0o600); err != nil {
			return "", err
		}
		err = os.Link(temp, path) // of two who make one, the first counts
		if errors.Is(err, fs.ErrExist) && len(data) > 0 {
			err = os.Rename(temp, path) // what is there is torn
		}
		os.Remove(temp) // it has another name, or another has been first
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
}

// labels are on all that the provider makes in the engine.
func (p *Provider) labels(id, key string) (map[string]string, error) {
	ground, err := p.groundID(true)
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

// sweepContainers removes containers of this data directory whose workspaces are
// not in live. Where no container was ever made the engine is not asked.
func (p *Provider) sweepContainers(ctx context.Context, live []string) error {
	if _, err := os.Lstat(p.ground.Path(groundName)); err != nil {
		return nil
	}
	ground, err := p.groundID(false)
	if err != nil {
		return fmt.Errorf("docker: sweep: %w: %w", fault.Of(err), err)
	}
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	defer cancel()
	list, err := p.engine.List(soon, map[string]string{LabelGround: ground})
	if err != nil {
		return fmt.Errorf("docker: sweep: %w", p.hung(ctx, err))
	}
	var errs error
	for _, c := range list {
		id := c.Labels[LabelWorkspace]
		if !driver.ValidID(id) || slices.Contains(live, id) || !named(c.Name, c.Labels) {
			continue // a probe's is removed by whoever made it, or by cleanProbes
		}
		errs = errors.Join(errs, p.removeUnit(ctx, c.ID))
		driver.Step(ctx, "container removed")
	}
	return errors.Join(errs, p.sweepVolumes(ctx, ground, live))
}

// cleanProbes removes what probes left whose process has died.
func (p *Provider) cleanProbes() error {
	lock := flock.New(filepath.Join(p.cfg.Cache, probeLock), flock.SetFlag(os.O_RDWR))
	alone, err := lock.TryLock()
	if err != nil || !alone {
		return nil // there was no probe, or one is under way
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor, whatever it answers
	return p.cleanAlone(p.ctx)
}

// cleanAlone does it for who holds the lock.
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
	if err := place(path, data, 0o555); err != nil {
		return installed{}, fmt.Errorf("docker: install %s: %w: %w", guestbin.Name, fault.Of(err), err)
	}
	return installed{path, bin.Version}, nil
}

// place puts a file where it belongs, whole.
func place(path string, data []byte, mode fs.FileMode) error {
	temp := path + "." + driver.NewID()
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return err
	}
	if err := os.Chmod(temp, mode); err != nil {
		return err
	}
	return os.Rename(temp, path)
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
			if err := place(path, []byte(files[name]), 0o444); err != nil {
				return nil, fmt.Errorf("docker: write the accounts: %w: %w", fault.Of(err), err)
			}
		}
		mounts = append(mounts, Mount{Source: path, Target: "/etc/" + name, ReadOnly: true})
	}
	return mounts, nil
}
