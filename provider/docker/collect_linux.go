package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Collect removes the containers and volumes of this host's workspaces, of any data
// directory, whose own directories are gone: their owner has died and was taken
// away without a sweep. Images that hold a guest of another version, which this
// program starts no more, go as well, unless a container is made of them. Where the
// engine does not answer there is nothing to be done.
func (p *Provider) Collect(ctx context.Context) ([]Leftover, error) {
	if err := p.pingEngine(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		p.log.Info("docker: no engine to collect from", "error", err)
		return nil, nil
	}
	removed, err := p.removeLeftovers(ctx, map[string]string{LabelHost: hostID(), LabelWorkspace: ""}, func(l Leftover) bool { return isOrphan(l.Root, l.Workspace) })
	if err == nil {
		soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
		defer cancel()
		err = p.engineTimeout(ctx, p.collectImages(soon))
	}
	if err != nil {
		return removed, fmt.Errorf("docker: collect: %w", err)
	}
	return removed, nil
}

// sweepEngine removes containers and volumes of this data directory whose workspaces
// are not in live. Where no container was ever made the engine is not asked. A volume
// of a workspace that is being made, or that is there, stays.
func (p *Provider) sweepEngine(ctx context.Context, live []string) error {
	if _, err := os.Lstat(p.store.Path(rootIDName)); err != nil {
		return nil // see above
	}
	rootID, err := p.rootID(ctx)
	if err != nil {
		return fmt.Errorf("docker: sweep: %w: %w", fault.Of(err), err)
	}
	_, err = p.removeLeftovers(ctx, map[string]string{LabelRootID: rootID}, func(l Leftover) bool {
		return driver.ValidID(l.Workspace) && !slices.Contains(live, l.Workspace) && (!l.Volume || !pathExists(p.cfg.Root, l.Workspace, "", newPrefix))
	})
	if err != nil {
		return fmt.Errorf("docker: sweep: %w", err)
	}
	return nil
}

// removeLeftovers removes from the engine the containers and volumes of this provider that
// have the labels and are left over. One that stays keeps no other.
func (p *Provider) removeLeftovers(ctx context.Context, labels map[string]string, over func(Leftover) bool) (removed []Leftover, errs error) {
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	defer cancel()
	containers, err := p.engine.List(soon, labels)
	if err != nil {
		return nil, p.engineTimeout(ctx, err)
	}
	volumes, err := p.engine.Volumes(soon, labels)
	if err != nil {
		return nil, p.engineTimeout(ctx, err)
	}
	try := func(id, name string, volume bool, labels map[string]string, remove func(context.Context, string) error) {
		l := Leftover{Name: name, Volume: volume, Workspace: labels[LabelWorkspace], Root: labels[LabelRoot]}
		if !hasOwnName(name, labels) || !over(l) {
			return
		}
		if err := remove(ctx, id); err != nil {
			errs = errors.Join(errs, err)
			return
		}
		removed = append(removed, l)
	}
	for _, c := range containers {
		try(c.ID, c.Name, false, c.Labels, p.removeContainer)
	}
	for _, v := range volumes {
		try(v.Name, v.Name, true, v.Labels, p.removeVolume)
	}
	return removed, errs
}

// collectImages removes what was made for guests of other versions.
func (p *Provider) collectImages(ctx context.Context) error {
	bin, err := p.binary()
	if err != nil {
		return nil // it is not known which version is the present one
	}
	images, err := p.engine.Images(ctx)
	if err != nil {
		return err
	}
	for _, img := range images {
		version := img.Labels[LabelGuest]
		if version == "" || version == bin.Version {
			continue
		}
		for _, name := range img.Names {
			if !strings.HasPrefix(name, OwnImages+":") {
				continue // somebody's own, made of one of ours: labels are handed down
			}
			// AlreadyExists is what an engine says of one that a container is made of.
			if err := p.engine.RemoveImage(ctx, name); err != nil && fault.Of(err) != fault.AlreadyExists && fault.Of(err) != fault.NotFound {
				return err
			}
		}
	}
	return nil
}

// hasOwnName reports whether something in the engine has the name that goes with its
// labels. Those alone say little: a container has the labels of its image, too,
// whoever made either.
func hasOwnName(name string, labels map[string]string) bool {
	if id := labels[LabelWorkspace]; id != probeID {
		return driver.ValidID(id) && name == containerName(id)
	}
	return strings.HasPrefix(name, namePrefix+probePrefix)
}

// isOrphan reports whether what something in the engine was made for is gone from
// this host.
func isOrphan(root, id string) bool {
	if !filepath.IsAbs(root) {
		return false // it is not one of ours
	}
	if !driver.ValidID(id) {
		return !pathExists(root, "", "") // a probe's, which its data directory sweeps
	}
	return !pathExists(root, id, "", newPrefix, deadPrefix)
}

// Prefixes of the names of new and of dead workspaces; see package plot.
const (
	newPrefix  = ".new-" + Kind + "-"
	deadPrefix = ".dead-" + Kind + "-"
)

// pathExists reports whether one of the names is in root: what can't be looked at is.
func pathExists(root, name string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		_, err := os.Lstat(filepath.Join(root, prefix+name))
		return !errors.Is(err, fs.ErrNotExist)
	})
}

// Images looks after the images of the engine.
func (p *Provider) Images() Images { return Images{Engine: p.engine} }
