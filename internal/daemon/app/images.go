package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/docker"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace/driver"
)

// An Image is an image of the container engine.
type Image = docker.Image

// ImageSource is the source of an image: exactly one field is set.
type ImageSource struct {
	Path     string // an OCI layout, a tarball of an image, or a Dockerfile
	Template string // a template, by its name
}

// imageProvider is a provider with a container engine.
type imageProvider interface {
	Images() docker.Images
	Collect(ctx context.Context) ([]docker.Leftover, error)
}

func (s *System) dockerEngine() (imageProvider, error) {
	p, err := s.Mux.Provider(docker.Kind)
	if err != nil {
		return nil, err
	}
	e, ok := driver.Find[imageProvider](p)
	if !ok {
		return nil, fmt.Errorf("app: images: %w: the provider %q has no container engine on this system", fault.Unsupported, docker.Kind)
	}
	return e, nil
}

// Images lists the images of the container engine.
func (s *System) Images(ctx context.Context) ([]Image, error) {
	e, err := s.dockerEngine()
	if err != nil {
		return nil, err
	}
	return e.Images().List(ctx)
}

// ImportImage imports an image under a name.
func (s *System) ImportImage(ctx context.Context, from ImageSource, name string) error {
	e, err := s.dockerEngine()
	if err != nil {
		return err
	}
	if from.Template == "" {
		return e.Images().Import(ctx, from.Path, name)
	}
	t, err := s.templates.Get(ctx, from.Template)
	if err != nil {
		return err
	}
	tree, _, err := s.snapshots.Tree(ctx, t.Snapshot)
	if err != nil {
		return err
	}
	return e.Images().FromTree(ctx, tree, "template "+from.Template, name)
}

// RemoveImage removes a name of an image.
func (s *System) RemoveImage(ctx context.Context, name string) error {
	e, err := s.dockerEngine()
	if err != nil {
		return err
	}
	return e.Images().Remove(ctx, name)
}

// Collected lists what Collect removed: directories in ws of workspaces without a record,
// containers, and snapshots by id.
type Collected struct {
	Directories []string `json:"directories"`
	Backup      bool     `json:"backup"` // a backup of a killed process

	Containers []docker.Leftover `json:"containers"`
	Snapshots  []string          `json:"snapshots"`
	Unused     int               `json:"unused"` // files that only save time, and were not written for long

	Kept []KeptSnapshots `json:"kept"` // the snapshots that stay
}

// Collect removes leftovers of crashes in the data directory, containers of this host
// whose data directory entry is gone, and snapshots that have expired.
func (s *System) Collect(ctx context.Context) (Collected, error) {
	c := Collected{Containers: []docker.Leftover{}}
	before, err := s.orphans(ctx)
	if err != nil {
		return c, err
	}
	killed, berr := s.Backups.Collect(ctx)
	c.Backup, err = killed, errors.Join(s.Registry.Sweep(ctx), berr)
	after, aerr := s.orphans(ctx)
	c.Directories = slices.DeleteFunc(before, func(name string) bool { return slices.Contains(after, name) })
	err = errors.Join(err, aerr)
	var xerr error
	c.Snapshots, c.Kept, xerr = s.expireSnapshots(ctx)
	unused, perr := s.removeUnused()
	c.Unused, err = unused, errors.Join(err, xerr, perr)
	e, eerr := s.dockerEngine()
	if fault.Of(eerr) == fault.Unsupported {
		return c, err
	}
	if eerr != nil {
		return c, errors.Join(err, eerr)
	}
	containers, cerr := e.Collect(ctx)
	c.Containers = append(c.Containers, containers...)
	return c, errors.Join(err, cerr)
}

// orphans lists the directories in ws that belong to no workspace.
func (s *System) orphans(ctx context.Context) ([]string, error) {
	names := []string{}
	entries, err := os.ReadDir(filepath.Join(s.Dir, "ws"))
	if errors.Is(err, fs.ErrNotExist) {
		return names, nil
	}
	if err != nil {
		return nil, err
	}
	records, err := s.Registry.List(ctx, registry.Filter{})
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != ".journals" && !slices.ContainsFunc(records, func(r registry.Record) bool { return r.ID == e.Name() }) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// MadeImages lists the images of the container engine that Croft made.
func (s *System) MadeImages(ctx context.Context) ([]Image, error) {
	all, err := s.Images(ctx)
	var list []Image
	for _, img := range all {
		if img.Labels[docker.LabelSource] != "" {
			list = append(list, img)
		}
	}
	return list, err
}
