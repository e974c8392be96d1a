package main

import (
	"errors"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// An image is a container image of croft with one layer. It needs no engine to be made.
type image struct {
	rootfs, out, tag string
}

func (i *image) write() error {
	if i.rootfs == "" || i.out == "" {
		return errors.New("image: -rootfs and -o are required")
	}
	tag, err := name.NewTag(i.tag)
	if err != nil {
		return err
	}
	layer, err := tarball.LayerFromFile(i.rootfs)
	if err != nil {
		return err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	// DATA/croft.yaml and CROFT_* variables configure the server. Beyond the container it
	// needs a token (CROFT_TOKEN) and TLS; see docs/operate.md.
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH, RootFS: rootFS(img),
		Config: v1.Config{
			Env:          []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "CROFT_DATA=/var/lib/croft"},
			Volumes:      map[string]struct{}{"/var/lib/croft": {}},
			ExposedPorts: map[string]struct{}{"7070/tcp": {}},
			Entrypoint:   []string{"/usr/bin/croft"},
			Cmd:          []string{"up", "--addr", "127.0.0.1:7070"},
		},
	})
	if err != nil {
		return err
	}
	return tarball.WriteToFile(i.out, tag, img)
}

func rootFS(img v1.Image) v1.RootFS {
	c, err := img.ConfigFile()
	if err != nil {
		return v1.RootFS{}
	}
	return c.RootFS
}
