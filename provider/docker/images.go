package docker

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/snapshot"
)

// Images lists, imports and removes the images of an engine.
type Images struct{ Engine Engine }

// checkImageName refuses an invalid image name.
func checkImageName(name string) error {
	if _, err := reference.ParseAnyReference(name); err != nil {
		return fmt.Errorf("image %q: %w: %w", name, fault.InvalidArgument, err)
	}
	return nil
}

// List lists the images that have names, those of Croft first.
func (i Images) List(ctx context.Context) ([]Image, error) {
	list, err := i.Engine.Images(ctx)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(img Image) bool { return len(img.Names) == 0 || img.Names[0] == "<none>:<none>" })
	slices.SortFunc(list, func(a, b Image) int {
		if isCroftImage(a) != isCroftImage(b) {
			if isCroftImage(a) {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Names[0], b.Names[0])
	})
	return list, nil
}

func isCroftImage(img Image) bool { return img.Labels[LabelSource] != "" }

// Remove removes a name of an image, and the image with its last name.
func (i Images) Remove(ctx context.Context, image string) error {
	err := i.Engine.RemoveImage(ctx, image)
	if fault.Of(err) == fault.AlreadyExists {
		return fmt.Errorf("docker: image %s: %w: a container uses it; remove the workspace first", image, fault.WrongState)
	}
	return err
}

// Import imports an image under a name. source is the path of an OCI layout (a directory), of
// a tarball of "docker save", of a Dockerfile, or of the directory of a Dockerfile, which is
// its build context without what its .dockerignore excludes.
func (i Images) Import(ctx context.Context, source, image string) error {
	if err := checkImageName(image); err != nil {
		return fmt.Errorf("docker: %w", err)
	}
	info, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("docker: import %s: %w: %w", source, fault.Of(err), err)
	}
	file := source
	if info.IsDir() && !isFile(filepath.Join(source, "index.json")) {
		file = filepath.Join(source, "Dockerfile")
	}
	form, err := detectFormat(file)
	switch {
	case file != source && errors.Is(err, fs.ErrNotExist), info.IsDir() && file == source: // a layout, or nothing
	case err != nil:
		return fmt.Errorf("docker: import %s: %w", source, err)
	case form == formatDockerfile:
		return i.buildDockerfile(ctx, file, image)
	case file != source:
		return fmt.Errorf("docker: import %s: %w: the file Dockerfile in it is a tarball", source, fault.InvalidArgument)
	}
	img, err := readImage(source, info.IsDir())
	if err != nil {
		return fmt.Errorf("docker: import %s: %w", source, err)
	}
	tag, err := name.NewTag(image)
	if err != nil {
		return fmt.Errorf("docker: import %s: image %q: %w: %w", source, image, fault.InvalidArgument, err)
	}
	return i.streamTo(func(w io.Writer) error { return tarball.Write(tag, img, w) }, func(r io.Reader) error {
		_, err := i.Engine.Load(ctx, r)
		return err
	})
}

// streamTo connects write and read by a pipe, and returns the error of the side that failed
// first.
func (i Images) streamTo(write func(io.Writer) error, read func(io.Reader) error) error {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := write(w)
		w.CloseWithError(err)
		done <- err
	}()
	err := read(r)
	r.CloseWithError(io.ErrClosedPipe) // ends write
	if werr := <-done; werr != nil && !errors.Is(werr, io.ErrClosedPipe) {
		return fmt.Errorf("docker: send an image: %w: %w", fault.Of(werr), werr)
	}
	return err
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// readImage reads an image from a tarball or an OCI layout.
func readImage(path string, dir bool) (v1.Image, error) {
	if !dir {
		open := func() (io.ReadCloser, error) { return openTar(path) }
		err := checkTar(open)
		var img v1.Image
		if err == nil {
			img, err = tarball.Image(open, nil)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: it is no tarball of one image: %w", fault.InvalidArgument, err)
		}
		return img, nil
	}
	index, err := layout.ImageIndexFromPath(path)
	if err != nil {
		return nil, fmt.Errorf("%w: it is no OCI layout, and has no Dockerfile: %w", fault.InvalidArgument, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("%w: it is no OCI layout: %w", fault.InvalidArgument, err)
	}
	for _, m := range manifest.Manifests {
		if p := m.Platform; m.MediaType.IsImage() && (p == nil || p.OS == "linux" && p.Architecture == runtime.GOARCH) {
			return index.Image(m.Digest)
		}
	}
	return nil, fmt.Errorf("%w: it holds no image for linux/%s", fault.NotFound, runtime.GOARCH)
}

// openTar opens a tar, compressed or not.
func openTar(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	buffered := bufio.NewReader(f)
	head, _ := buffered.Peek(len(zstdMagic)) // a shorter file is not compressed
	switch {
	case bytes.HasPrefix(head, gzipMagic):
		plain, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return readCloser{plain, f}, nil
	case bytes.HasPrefix(head, zstdMagic):
		plain, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return readCloser{plain, closerFunc(func() error { plain.Close(); return f.Close() })}, nil
	}
	return readCloser{buffered, f}, nil
}

type closerFunc func() error

func (c closerFunc) Close() error { return c() }

type readCloser struct {
	io.Reader
	io.Closer
}

// maxDescription bounds the files of a tarball that are read into memory: manifest and
// configuration. It prevents that a small compressed file expands without bound.
const maxDescription = 16 << 20

// checkTar refuses a tarball with a larger manifest or configuration.
func checkTar(open func() (io.ReadCloser, error)) error {
	f, err := open()
	if err != nil {
		return err
	}
	defer f.Close() // only read
	var manifest []struct{ Config string }
	sizes := map[string]int64{}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if h.Size > maxDescription {
			sizes[h.Name] = h.Size
		}
		if h.Name == "manifest.json" && h.Size <= maxDescription {
			if err := json.NewDecoder(r).Decode(&manifest); err != nil {
				return err
			}
		}
	}
	names := []string{"manifest.json"}
	for _, m := range manifest {
		names = append(names, m.Config)
	}
	for _, name := range names {
		if size := sizes[name]; size > 0 {
			return fmt.Errorf("%s has %d bytes, and at most %d are read", name, size, int64(maxDescription))
		}
	}
	return nil
}

// buildDockerfile builds an image from a Dockerfile.
func (i Images) buildDockerfile(ctx context.Context, source, image string) error {
	dir, base := filepath.Split(filepath.Clean(source))
	if dir == "" {
		dir = "."
	}
	return i.streamTo(func(w io.Writer) error { return tarDir(w, dir, base) }, func(r io.Reader) error {
		return i.Engine.Build(ctx, r, base, image, map[string]string{LabelSource: "Dockerfile " + base})
	})
}

// FromTree creates an image of a tree of files, such as a template.
func (i Images) FromTree(ctx context.Context, tree snapshot.Tree, source, image string) error {
	if err := checkImageName(image); err != nil {
		return fmt.Errorf("docker: %w", err)
	}
	dir, err := os.MkdirTemp("", "croft-image-")
	if err != nil {
		return fmt.Errorf("docker: make an image: %w: %w", fault.Of(err), err)
	}
	defer os.RemoveAll(dir)
	if err := snapshot.Extract(ctx, tree, dir, nil); err != nil {
		return fmt.Errorf("docker: make an image of %s: %w", source, err)
	}
	return i.streamTo(func(w io.Writer) error { return tarRoot(w, dir) }, func(r io.Reader) error {
		return i.Engine.Import(ctx, r, image, Commit{Env: []string{"PATH=" + defaultPath}, Labels: map[string]string{LabelSource: source}})
	})
}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// tarRoot writes a rootfs as a tar: symlinks unchanged, all files owned by root.
func tarRoot(w io.Writer, dir string) error {
	t := tar.NewWriter(w)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		link := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if link, err = os.Readlink(path); err != nil {
				return err
			}
		}
		h, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return nil // a socket
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		h.Name, h.Uid, h.Gid, h.Uname, h.Gname = filepath.ToSlash(rel), 0, 0, "", ""
		if err := t.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.CopyN(t, f, h.Size)
		return err
	})
	if err != nil {
		return err
	}
	return t.Close()
}
