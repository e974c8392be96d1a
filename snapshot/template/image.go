package template

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/snapshot"
)

// imageLayers returns the layers of an image, without those that can't be described.
func imageLayers(img v1.Image) []Layer {
	list, err := img.Layers()
	if err != nil {
		return nil
	}
	var out []Layer
	for _, l := range list {
		digest, err := l.Digest()
		size, serr := l.Size()
		if err == nil && serr == nil {
			out = append(out, Layer{digest.String(), size})
		}
	}
	return out
}

// openImage unpacks an image into a temporary directory, which done removes.
func (c *Catalog) openImage(ctx context.Context, s Source, log *buildLog) (_ snapshot.Tree, layers []Layer, done func() error, err error) {
	done, ref := func() error { return nil }, s.Image
	who := authn.Anonymous
	if s.User != "" {
		who = &authn.Basic{Username: s.User, Password: s.Password}
	}
	img, err := c.findImage(ctx, ref, who)
	if err != nil {
		return nil, nil, done, fmt.Errorf("template: image %s: %w", ref, err)
	}
	if digest, err := img.Digest(); err == nil {
		log.add("found the image %s, %s", ref, digest)
	}
	if err := os.MkdirAll(c.Temp, 0o700); err != nil {
		return nil, nil, done, fmt.Errorf("template: %w: %w", fault.Of(err), err)
	}
	dir, err := os.MkdirTemp(c.Temp, "image-")
	if err != nil {
		return nil, nil, done, fmt.Errorf("template: %w: %w", fault.Of(err), err)
	}
	done = func() error { return files.RemoveTree(dir) }
	if err := unpackImage(ctx, img, dir, log); err != nil {
		if tag, bad := name.ParseReference(ref); bad == nil && errors.As(err, new(net.Error)) {
			err = registryError(tag.Context().RegistryStr(), err)
		}
		return nil, nil, done, errors.Join(fmt.Errorf("template: image %s: %w", ref, err), done())
	}
	return snapshot.HostDir(dir, nil), imageLayers(img), done, nil
}

// findImage returns an image: an absolute path is a file of this host, any other
// name an image of a registry.
func (c *Catalog) findImage(ctx context.Context, ref string, who authn.Authenticator) (v1.Image, error) {
	platform := v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	if !filepath.IsAbs(ref) {
		tag, err := name.ParseReference(ref)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", fault.InvalidArgument, err)
		}
		options := []remote.Option{remote.WithContext(ctx), remote.WithPlatform(platform), remote.WithAuth(who)}
		if p, ok := auth.From(ctx); ok && !p.Operator() && c.Transport != nil {
			options = append(options, remote.WithTransport(c.Transport))
		}
		img, err := remote.Image(tag, options...)
		if err != nil {
			return nil, registryError(tag.Context().RegistryStr(), err)
		}
		return img, nil
	}
	if err := c.checkSourcePath(ref); err != nil {
		return nil, err
	}
	info, err := os.Stat(ref)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fault.Of(err), err)
	}
	if !info.IsDir() {
		img, err := tarball.ImageFromPath(ref, nil)
		if err != nil {
			return nil, fmt.Errorf("%w: not an image tarball: %w", fault.InvalidArgument, err)
		}
		return img, nil
	}
	index, err := layout.ImageIndexFromPath(ref)
	if err != nil {
		return nil, fmt.Errorf("%w: not an OCI layout: %w", fault.InvalidArgument, err)
	}
	return selectImage(index, platform, 0)
}

// registryError gives an error of a registry its code. Clients are not told what names resolve to, nor
// by which server: a name without a public address and one that does not exist are one error.
func registryError(host string, err error) error {
	var answer *transport.Error
	var unknown *net.DNSError
	code := fault.Unavailable
	switch {
	case errors.As(err, &answer):
		switch answer.StatusCode {
		case http.StatusNotFound:
			code = fault.NotFound
		case http.StatusUnauthorized, http.StatusForbidden:
			code = fault.PermissionDenied
		}
		return fmt.Errorf("%w: %w", code, err)
	case errors.As(err, &unknown) && unknown.IsNotFound, errors.Is(err, fault.PermissionDenied):
		code = fault.InvalidArgument
		return fault.Private(fmt.Errorf("%w: %w", code, err), fmt.Sprintf("%v: the registry %s, or one that it names, has no address in the public internet", code, host))
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		code = fault.Of(err)
	}
	return fault.Private(fmt.Errorf("%w: %w", code, err), fmt.Sprintf("%v: the registry %s can't be reached; try again", code, host))
}

// maxNesting is the maximum nesting of image indexes.
const maxNesting = 4

// selectImage returns the image of an index for a platform, or its only one.
func selectImage(index v1.ImageIndex, platform v1.Platform, depth int) (v1.Image, error) {
	m, err := index.IndexManifest()
	if err != nil || depth > maxNesting {
		return nil, fmt.Errorf("%w: the image index can't be read: %w", fault.InvalidArgument, err)
	}
	list := slices.DeleteFunc(slices.Clone(m.Manifests), func(d v1.Descriptor) bool {
		return !d.MediaType.IsImage() && !d.MediaType.IsIndex() || d.Platform != nil && d.Platform.OS == "unknown"
	})
	at := slices.IndexFunc(list, func(d v1.Descriptor) bool { return d.Platform != nil && d.Platform.Satisfies(platform) })
	if at < 0 && len(list) == 1 {
		at = 0
	}
	if at < 0 {
		return nil, fmt.Errorf("%w: none of its %d images is for %s", fault.NotFound, len(list), platform.String())
	}
	if list[at].MediaType.IsIndex() {
		below, err := index.ImageIndex(list[at].Digest)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", fault.InvalidArgument, err)
		}
		return selectImage(below, platform, depth+1)
	}
	img, err := index.Image(list[at].Digest)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fault.InvalidArgument, err)
	}
	return img, nil
}
