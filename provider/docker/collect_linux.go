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
// directory, whose directories no longer exist: the data directory was deleted without a
// sweep. It also removes images with a guest of another version, unless a container uses
// them. It does nothing if the engine does not answer.
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

// sweepEngine removes containers and volumes of this data directory whose workspaces are not
// in live. It does not call the engine if no container was ever created. The volume of a
// workspace that exists or is being created stays.
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

// removeLeftovers removes the containers and volumes of this provider that have the labels
// and for which over returns true. It continues after an error.
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

// collectImages removes images with guests of other versions.
func (p *Provider) collectImages(ctx context.Context) error {
	bin, err := p.binary()
	if err != nil {
		return nil // the present version is unknown
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
				continue // built from one of Croft's images, whose labels it inherits
			}
			// An engine returns AlreadyExists for an image that a container uses.
			if err := p.engine.RemoveImage(ctx, name); err != nil && fault.Of(err) != fault.AlreadyExists && fault.Of(err) != fault.NotFound {
				return err
			}
		}
	}
	return nil
}

// hasOwnName reports whether a container or volume has the name that belongs to its labels.
// Labels alone prove nothing: a container inherits the labels of its image.
func hasOwnName(name string, labels map[string]string) bool {
	if id := labels[LabelWorkspace]; id != probeID {
		return driver.ValidID(id) && name == containerName(id)
	}
	return strings.HasPrefix(name, namePrefix+probePrefix)
}

// isOrphan reports whether the workspace of a container or volume no longer exists on this
// host.
func isOrphan(root, id string) bool {
	if !filepath.IsAbs(root) {
		return false // not created by this provider
	}
	if !driver.ValidID(id) {
		return !pathExists(root, "", "") // of a probe: a sweep of its data directory removes it
	}
	return !pathExists(root, id, "", newPrefix, deadPrefix)
}

// Prefixes of the names of new and of dead workspaces; see package wsdir.
const (
	newPrefix  = ".new-" + Kind + "-"
	deadPrefix = ".dead-" + Kind + "-"
)

// pathExists reports whether one of the names exists in root. An error counts as existing.
func pathExists(root, name string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		_, err := os.Lstat(filepath.Join(root, prefix+name))
		return !errors.Is(err, fs.ErrNotExist)
	})
}

// Images returns the images of the engine.
func (p *Provider) Images() Images { return Images{Engine: p.engine} }
