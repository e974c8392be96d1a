// Package images lists, imports and removes the images of the container engine of provider docker.
package images

import (
	"context"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/docker"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/snapshot/template"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Images are the images of the container engine.
type Images struct {
	Mux       *workspace.Mux
	Templates *template.Catalog
	Snapshots *snapshot.Store
}

// An Image is an image of the container engine.
type Image = docker.Image

// Source is the source of an image: exactly one field is set.
type Source struct {
	Path     string // an OCI layout, a tarball of an image, or a Dockerfile
	Template string // a template, by its name
}

// imageProvider is a provider with a container engine.
type imageProvider interface {
	Images() docker.Images
	Collect(ctx context.Context) ([]docker.Leftover, error)
}

func (i *Images) engine() (imageProvider, error) {
	p, err := i.Mux.Provider(docker.Kind)
	if err != nil {
		return nil, err
	}
	e, ok := driver.Find[imageProvider](p)
	if !ok {
		return nil, fmt.Errorf("app: images: %w: the provider %q has no container engine on this system", fault.Unsupported, docker.Kind)
	}
	return e, nil
}

// List lists the images of the container engine.
func (i *Images) List(ctx context.Context) ([]Image, error) {
	e, err := i.engine()
	if err != nil {
		return nil, err
	}
	return e.Images().List(ctx)
}

// Import imports an image under a name.
func (i *Images) Import(ctx context.Context, from Source, name string) error {
	e, err := i.engine()
	if err != nil {
		return err
	}
	if from.Template == "" {
		return e.Images().Import(ctx, from.Path, name)
	}
	t, err := i.Templates.Get(ctx, from.Template)
	if err != nil {
		return err
	}
	tree, _, err := i.Snapshots.Tree(ctx, t.Snapshot)
	if err != nil {
		return err
	}
	return e.Images().FromTree(ctx, tree, "template "+from.Template, name)
}

// Remove removes a name of an image.
func (i *Images) Remove(ctx context.Context, name string) error {
	e, err := i.engine()
	if err != nil {
		return err
	}
	return e.Images().Remove(ctx, name)
}

// Made lists the images of the container engine that Croft made.
func (i *Images) Made(ctx context.Context) ([]Image, error) {
	all, err := i.List(ctx)
	var list []Image
	for _, img := range all {
		if img.Labels[docker.LabelSource] != "" {
			list = append(list, img)
		}
	}
	return list, err
}

// Collect removes containers and volumes without a workspace on this host. Without an engine it does nothing.
func (i *Images) Collect(ctx context.Context) ([]docker.Leftover, error) {
	e, err := i.engine()
	if err != nil {
		if fault.Of(err) == fault.Unsupported {
			err = nil
		}
		return nil, err
	}
	return e.Collect(ctx)
}
