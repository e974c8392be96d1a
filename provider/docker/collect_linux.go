package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
	if err := p.answers(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		p.log.Info("docker: no engine to collect from", "error", err)
		return nil, nil
	}
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	defer cancel()
	removed, err := p.collect(soon)
	if err != nil {
		return removed, fmt.Errorf("docker: collect: %w", p.hung(ctx, err))
	}
	return removed, nil
}

func (p *Provider) collect(ctx context.Context) ([]Leftover, error) {
	labels := map[string]string{LabelHost: hostID(), LabelWorkspace: ""}
	list, err := p.engine.List(ctx, labels)
	if err != nil {
		return nil, err
	}
	var removed []Leftover
	for _, c := range list {
		if !named(c.Name, c.Labels) || !orphan(c.Labels) {
			continue
		}
		if err := p.removeUnit(ctx, c.ID); err != nil {
			return removed, err
		}
		removed = append(removed, leftover(c.Name, false, c.Labels))
	}
	volumes, err := p.engine.Volumes(ctx, labels)
	if err != nil {
		return removed, err
	}
	for _, v := range volumes {
		if !named(v.Name, v.Labels) || !orphan(v.Labels) {
			continue
		}
		if err := p.engine.RemoveVolume(ctx, v.Name); err != nil {
			return removed, err
		}
		removed = append(removed, leftover(v.Name, true, v.Labels))
	}
	return removed, p.collectImages(ctx)
}

func leftover(name string, volume bool, labels map[string]string) Leftover {
	return Leftover{Name: name, Volume: volume, Workspace: labels[LabelWorkspace], Root: labels[LabelRoot]}
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

// named reports whether something in the engine has the name that goes with its
// labels. Those alone say little: a container has the labels of its image, too,
// whoever made either.
func named(name string, labels map[string]string) bool {
	if id := labels[LabelWorkspace]; id != probeID {
		return driver.ValidID(id) && name == unitOf(id)
	}
	return strings.HasPrefix(name, namePrefix+probePrefix)
}

// orphan reports whether what something in the engine was made for is gone from
// this host.
func orphan(labels map[string]string) bool {
	root, id := labels[LabelRoot], labels[LabelWorkspace]
	if !filepath.IsAbs(root) {
		return false // it is not one of ours
	}
	if !driver.ValidID(id) {
		_, err := os.Lstat(root) // a probe's, which its data directory sweeps
		return errors.Is(err, fs.ErrNotExist)
	}
	for _, name := range []string{id, ".new-" + Kind + "-" + id, ".dead-" + Kind + "-" + id} {
		if _, err := os.Lstat(filepath.Join(root, name)); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// Images looks after the images of the engine.
func (p *Provider) Images() Images { return Images{Engine: p.engine} }
