package e2b

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	provider "github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/snapshot/template"
)

// config returns the options of the provider, nil without any.
func (p startingPoint) config(volumes []provider.Volume) (json.RawMessage, error) {
	if len(volumes) == 0 && p.Rootfs == "" {
		return nil, nil
	}
	data, err := json.Marshal(provider.Options{Volumes: volumes, Rootfs: p.Rootfs})
	if err != nil {
		return nil, fmt.Errorf("e2b: %w: %w", fault.Internal, err)
	}
	return data, nil
}

// baseImages are the images of E2B that stand for the template base.
var baseImages = []string{"", "e2bdev/base", "e2bdev/code-interpreter"}

// buildSource returns what a build starts from. An image is pulled at each build; its files
// replace the programs of the host.
func (s *Server) buildSource(ctx context.Context, in buildSpec, id string, log *buildLog) (startingPoint, error) {
	if in.FromTemplate != "" {
		return s.templates.resolve(ctx, in.FromTemplate, s.cfg.Templates)
	}
	if name, _, _ := strings.Cut(in.FromImage, ":"); slices.Contains(baseImages, name) {
		return startingPoint{ID: baseTemplate}, nil
	}
	if s.cfg.Templates == nil || strings.HasPrefix(in.FromImage, "/") {
		return startingPoint{}, unsupported("fromImage", "name an image of a registry")
	}
	log.write("info", baseStep, "Pulling image "+in.FromImage)
	source := template.Source{Image: in.FromImage}
	if r := in.FromImageRegistry; r != nil {
		source.User, source.Password = r.Username, r.Password
	}
	image, err := s.cfg.Templates.Create(ctx, "e2b-"+id, source)
	if err != nil {
		return startingPoint{}, err
	}
	return startingPoint{ID: in.FromImage, result: result{Rootfs: image.Snapshot}}, nil
}

// deleteImage deletes the files of an image, unless a template uses them. The caller holds
// s.templates.mu. Sandboxes keep what they started from.
func (s *Server) deleteImage(ctx context.Context, id string) {
	if id == "" || s.cfg.Snapshots == nil {
		return
	}
	for _, one := range s.templates.byID {
		if slices.ContainsFunc(one.Builds, func(b *build) bool { return b.Rootfs == id }) {
			return
		}
	}
	if err := s.cfg.Snapshots.Delete(ctx, id); err != nil {
		s.log.Warn("e2b: delete the files of an image", "snapshot", id, "error", err)
	}
}
