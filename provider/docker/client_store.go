package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/croft-run/croft/fault"
)

// CreateVolume creates a volume. Docker's belongs to root until files are copied into it;
// Podman's belongs to uid.
func (e *remoteEngine) CreateVolume(ctx context.Context, name string, uid int, labels map[string]string) error {
	opts := client.VolumeCreateOptions{Name: name, Labels: labels}
	podman, err := e.isPodman(ctx)
	if err != nil {
		return err
	}
	if podman {
		opts.DriverOpts = map[string]string{"o": fmt.Sprintf("uid=%d,gid=%d", uid, uid)}
	}
	_, err = e.c.VolumeCreate(ctx, opts)
	return wrapError("create volume "+name, err)
}

// Volume checks that a volume exists.
func (e *remoteEngine) Volume(ctx context.Context, name string) error {
	_, err := e.c.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
	return wrapError("inspect volume "+name, err)
}

// Volumes lists volumes with the given labels.
func (e *remoteEngine) Volumes(ctx context.Context, labels map[string]string) ([]Volume, error) {
	list, err := e.c.VolumeList(ctx, client.VolumeListOptions{Filters: labelFilter(labels)})
	if err != nil {
		return nil, wrapError("list volumes", err)
	}
	var volumes []Volume
	for _, v := range list.Items {
		volumes = append(volumes, Volume{Name: v.Name, Labels: v.Labels})
	}
	return volumes, nil
}

// RemoveVolume removes a volume.
func (e *remoteEngine) RemoveVolume(ctx context.Context, name string) error {
	_, err := e.c.VolumeRemove(ctx, name, client.VolumeRemoveOptions{})
	return ignoreNotFound(wrapError("remove volume "+name, err))
}

// Image returns an image by its name or id.
func (e *remoteEngine) Image(ctx context.Context, name string) (Image, error) {
	in, err := e.c.ImageInspect(ctx, name)
	if err != nil {
		return Image{}, wrapError("inspect image "+name, err)
	}
	created, _ := time.Parse(time.RFC3339Nano, in.Created) // "" for an image without a date
	img := Image{ID: in.ID, Names: in.RepoTags, Size: in.Size, Created: created}
	if in.Config != nil {
		img.Labels, img.Env, img.Volumes = in.Config.Labels, in.Config.Env, slices.Sorted(maps.Keys(in.Config.Volumes))
	}
	return img, nil
}

// Images lists the images that have names.
func (e *remoteEngine) Images(ctx context.Context) ([]Image, error) {
	list, err := e.c.ImageList(ctx, client.ImageListOptions{})
	if err != nil {
		return nil, wrapError("list images", err)
	}
	var images []Image
	for _, in := range list.Items {
		images = append(images, Image{ID: in.ID, Names: in.RepoTags, Size: in.Size, Created: time.Unix(in.Created, 0), Labels: in.Labels})
	}
	return images, nil
}

// Pull fetches an image from its registry.
func (e *remoteEngine) Pull(ctx context.Context, name string) error {
	r, err := e.c.ImagePull(ctx, name, client.ImagePullOptions{})
	if err != nil {
		return wrapError("pull "+name, err)
	}
	return readProgress("pull "+name, r, nil)
}

// readProgress reads the engine's progress messages to their end, and returns the error in
// them. each, which may be nil, is called with every line of text.
func readProgress(verb string, r io.ReadCloser, each func(text string)) error {
	defer r.Close()
	dec := json.NewDecoder(r)
	for {
		var line struct {
			Stream string `json:"stream"`
			Error  string `json:"error"`
		}
		err := dec.Decode(&line)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return wrapError(verb, err)
		case line.Error != "":
			code := fault.Failed
			if strings.Contains(line.Error, "no space left on device") {
				code = fault.ResourceExhausted
			}
			return fmt.Errorf("docker: %s: %w: %s", verb, code, line.Error)
		case each != nil:
			each(line.Stream)
		}
	}
}

// Load loads an archive of "docker save".
func (e *remoteEngine) Load(ctx context.Context, archive io.Reader) ([]string, error) {
	resp, err := e.c.ImageLoad(ctx, archive)
	if err != nil {
		return nil, wrapError("load an image", err)
	}
	var names []string
	err = readProgress("load an image", resp, func(text string) {
		for _, mark := range []string{"Loaded image: ", "Loaded image ID: "} {
			if name, ok := strings.CutPrefix(strings.TrimSpace(text), mark); ok {
				names = append(names, name)
			}
		}
	})
	return names, err
}

// Import creates an image from a tar of files.
func (e *remoteEngine) Import(ctx context.Context, files io.Reader, name string, c Commit) error {
	var changes []string
	for _, v := range c.Env {
		changes = append(changes, "ENV "+v)
	}
	for _, k := range slices.Sorted(maps.Keys(c.Labels)) {
		changes = append(changes, fmt.Sprintf("LABEL %q=%q", k, c.Labels[k]))
	}
	if len(c.Command) > 0 {
		command, err := json.Marshal(c.Command)
		if err != nil {
			return fmt.Errorf("docker: import %s: %w: %w", name, fault.Internal, err)
		}
		changes = append(changes, "CMD "+string(command))
	}
	r, err := e.c.ImageImport(ctx, client.ImageImportSource{Source: files, SourceName: "-"}, name, client.ImageImportOptions{Changes: changes})
	if err != nil {
		return wrapError("import "+name, err)
	}
	return readProgress("import "+name, r, nil)
}

// Build builds an image from a Dockerfile with the engine's own builder, which has the
// network access that the engine gives to builds.
func (e *remoteEngine) Build(ctx context.Context, files io.Reader, dockerfile, name string, labels map[string]string) error {
	resp, err := e.c.ImageBuild(ctx, files, client.ImageBuildOptions{
		Tags: []string{name}, Dockerfile: dockerfile, Labels: labels, Remove: true, ForceRemove: true, Version: build.BuilderV1,
	})
	if err != nil {
		return wrapError("build "+name, err)
	}
	return readProgress("build "+name, resp.Body, nil)
}

// Commit creates an image of the present files of a container.
func (e *remoteEngine) Commit(ctx context.Context, id, name string, labels map[string]string) error {
	_, err := e.c.ContainerCommit(ctx, id, client.ContainerCommitOptions{Reference: name, Config: &container.Config{Labels: labels}})
	return wrapError("commit image "+name, err)
}

// RemoveImage removes a name of an image, and the image with its last name.
func (e *remoteEngine) RemoveImage(ctx context.Context, name string) error {
	_, err := e.c.ImageRemove(ctx, name, client.ImageRemoveOptions{PruneChildren: true})
	return wrapError("remove image "+name, err)
}
