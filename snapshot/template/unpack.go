package template

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/sparse"
)

// unpackImage writes the files of an image into a directory, lowest layer first.
func unpackImage(ctx context.Context, img v1.Image, dir string, log *buildLog) error {
	layers, err := img.Layers()
	if err != nil {
		return fmt.Errorf("%w: the image's layers can't be read: %w", fault.InvalidArgument, err)
	}
	u, err := newUnpacker(dir)
	if err != nil {
		return err
	}
	defer u.root.Close() //nolint:errcheck // a directory; files are closed separately
	if p, ok := auth.From(ctx); ok && !p.Operator() {
		u.most = maxImage
	}
	for i, l := range layers {
		if err := u.unpackLayer(ctx, l); err != nil {
			return fmt.Errorf("layer %d of %d: %w", i+1, len(layers), err)
		}
		if digest, err := l.Digest(); err == nil {
			log.add("unpacked layer %d of %d, %s", i+1, len(layers), digest)
		}
	}
	return u.setDirAttrs()
}

// An unpacker writes the layers of an image into a directory. It confines names and
// links by os.Root: an entry that would leave the directory is refused with its
// name. Owners are not kept; devices and pipes are left out.
type unpacker struct {
	root  *os.Root
	modes map[string]*tar.Header // of directories, whose modes and times are set last
	real  map[string]bool        // directories whose path has no symlink
	fresh map[string]bool        // paths of the current layer, with their parents

	most int64 // bytes that it may write; 0 is no bound
	size int64 // bytes that it wrote, with entrySize for each entry
}

// Bounds of images for principals other than the operator: a small layer may unpack to any
// size.
const (
	maxImage  = 16 << 30
	entrySize = 4096
)

var errImageSize = fmt.Errorf("%w: the files of the image are larger than %d bytes; ask the operator to make a template of it", fault.ResourceExhausted, int64(maxImage))

// grow counts bytes that are written.
func (u *unpacker) grow(n int64) error {
	if u.size += n; u.most > 0 && u.size > u.most {
		return errImageSize
	}
	return nil
}

func newUnpacker(dir string) (*unpacker, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fault.Of(err), err)
	}
	return &unpacker{root: root, modes: map[string]*tar.Header{}, real: map[string]bool{}}, nil
}

// unpackLayer writes a layer. It reads the whole stream, so that the digest is
// verified.
func (u *unpacker) unpackLayer(ctx context.Context, l v1.Layer) error {
	r, err := l.Uncompressed()
	if err != nil {
		return fmt.Errorf("%w: the layer can't be read: %w", fault.InvalidArgument, err)
	}
	err = u.unpackTar(ctx, r)
	if err == nil {
		if _, err = io.Copy(io.Discard, r); err != nil {
			err = fmt.Errorf("%w: the layer can't be read: %w", fault.InvalidArgument, err)
		}
	}
	return errors.Join(err, r.Close())
}

// unpackTar writes the entries of a tar stream.
func (u *unpacker) unpackTar(ctx context.Context, r io.Reader) error {
	u.fresh = map[string]bool{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", fault.InvalidArgument, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		err = u.grow(entrySize + max(h.Size, 0))
		if err == nil {
			err = u.unpackEntry(h, tr)
		}
		if err != nil {
			return fmt.Errorf("entry %q: %w", h.Name, err)
		}
	}
}

// Names of whiteout entries (OCI image spec), which remove a file of the lower
// layers, or all entries of a directory.
const (
	whiteoutPrefix = ".wh."
	opaqueName     = ".wh..wh..opq"
)

// unpackEntry writes one entry, or carries out a whiteout.
func (u *unpacker) unpackEntry(h *tar.Header, body io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := cleanName(h.Name)
	if err != nil {
		return err
	}
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return fmt.Errorf("%w: an entry without a name must be a directory", fault.InvalidArgument)
		}
		return nil
	}
	base := path.Base(name)
	dir, err := u.resolveDir(path.Dir(name), !strings.HasPrefix(base, whiteoutPrefix))
	switch {
	case err != nil:
		return err
	case base == opaqueName:
		return u.hideLower(dir, dir)
	case strings.HasPrefix(base, whiteoutPrefix):
		if base = base[len(whiteoutPrefix):]; base == "" || base == "." || base == ".." {
			return fmt.Errorf("%w: a whiteout without a name", fault.InvalidArgument)
		}
		return u.hideLower(path.Join(dir, base), "")
	}
	return u.writeEntry(path.Join(dir, base), h, body)
}

// cleanName returns the clean form of a name in an image; a leading slash is the
// root of the image.
func cleanName(name string) (string, error) {
	name = path.Clean(strings.TrimLeft(name, "/"))
	if name == ".." || strings.HasPrefix(name, "../") {
		return "", fmt.Errorf("%w: the name leads outside the image", fault.InvalidArgument)
	}
	return name, nil
}

// maxLinks is the maximum number of symlinks in the path of an entry.
const maxLinks = 40

// resolveDir resolves the symlinks of a directory's path as in a container: from
// the root of the image. It creates missing directories if create is set. A path
// that leads outside the image, or through a file, is refused.
func (u *unpacker) resolveDir(dir string, create bool) (string, error) {
	at, rest, links := ".", dir, 0
	for rest != "" && rest != "." {
		var elem string
		elem, rest, _ = strings.Cut(rest, "/")
		next := path.Join(at, elem)
		if next == ".." || strings.HasPrefix(next, "../") {
			return "", fmt.Errorf("%w: a symlink leads outside the image", fault.InvalidArgument)
		}
		if next == "." || u.real[next] {
			at = next
			continue
		}
		info, err := u.root.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist) && create:
			if err := u.root.Mkdir(next, 0o755); err != nil {
				return "", withCode(err)
			}
		case errors.Is(err, fs.ErrNotExist): // nothing is below it
		case err != nil:
			return "", withCode(err)
		case info.Mode()&fs.ModeSymlink != 0:
			if links++; links > maxLinks {
				return "", fmt.Errorf("%w: the path has more than %d symlinks", fault.InvalidArgument, maxLinks)
			}
			to, err := u.root.Readlink(next)
			if err != nil {
				return "", withCode(err)
			}
			if strings.HasPrefix(to, "/") {
				at = "."
			}
			rest = strings.Trim(strings.TrimLeft(to, "/")+"/"+rest, "/")
			continue
		case !info.IsDir():
			return "", fmt.Errorf("%w: its parent %q is a file", fault.InvalidArgument, next)
		}
		if err == nil || create {
			u.real[next] = true
		}
		at = next
	}
	return at, nil
}

// writeEntry creates an entry, and replaces an existing one.
func (u *unpacker) writeEntry(name string, h *tar.Header, body io.Reader) error {
	info, err := u.root.Lstat(name)
	if err == nil && (!info.IsDir() || h.Typeflag != tar.TypeDir) {
		err = u.remove(name, info)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return withCode(err)
	}
	u.markFresh(name)
	switch h.Typeflag {
	case tar.TypeDir:
		u.modes[name] = h
		return withCode(u.root.MkdirAll(name, 0o755))
	case tar.TypeSymlink:
		return withCode(u.root.Symlink(h.Linkname, name))
	case tar.TypeLink:
		return u.writeHardLink(name, h.Linkname)
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		return u.writeFile(name, h, body)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return nil
	}
	return fmt.Errorf("%w: unknown entry type %q", fault.InvalidArgument, h.Typeflag)
}

// writeHardLink creates a hard link to a file of the image.
func (u *unpacker) writeHardLink(name, target string) error {
	to, err := cleanName(target)
	if err != nil {
		return fmt.Errorf("%w: the hard link to %q leads outside the image", fault.InvalidArgument, target)
	}
	dir, err := u.resolveDir(path.Dir(to), false)
	if err != nil {
		return fmt.Errorf("hard link to %q: %w", target, err)
	}
	if to = path.Join(dir, path.Base(to)); to == name {
		return fmt.Errorf("%w: the entry is a hard link to itself", fault.InvalidArgument)
	}
	info, err := u.root.Lstat(to)
	if err != nil || info.IsDir() {
		return fmt.Errorf("%w: the hard link's target %q is not a file of the image", fault.InvalidArgument, target)
	}
	return withCode(u.root.Link(to, name))
}

func (u *unpacker) writeFile(name string, h *tar.Header, body io.Reader) error {
	f, err := u.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return withCode(err)
	}
	_, err = sparse.Copy(f, body)
	if err = errors.Join(err, f.Chmod(fs.FileMode(h.Mode)&fs.ModePerm), f.Close()); err != nil {
		return withCode(err)
	}
	return withCode(u.root.Chtimes(name, h.ModTime, h.ModTime))
}

// remove removes a path with its subtree.
func (u *unpacker) remove(name string, info fs.FileInfo) error {
	if info.IsDir() {
		clear(u.real)
		maps.DeleteFunc(u.modes, func(n string, _ *tar.Header) bool { return n == name || strings.HasPrefix(n, name+"/") })
	}
	return u.root.RemoveAll(name)
}

// hideLower removes the entries of lower layers at a path, and keeps those of the
// current layer; the directory keep is never removed. A missing path is not an
// error.
func (u *unpacker) hideLower(name, keep string) error {
	info, err := u.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return withCode(err)
	}
	if name != keep && !u.fresh[name] {
		return withCode(u.remove(name, info))
	}
	if !info.IsDir() {
		return nil
	}
	dir, err := u.root.Open(name)
	if err != nil {
		return withCode(err)
	}
	below, err := dir.Readdirnames(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return withCode(err)
	}
	for _, base := range below {
		if err := u.hideLower(path.Join(name, base), keep); err != nil {
			return err
		}
	}
	return nil
}

// markFresh records a path of the current layer, with its parents.
func (u *unpacker) markFresh(name string) {
	for ; name != "." && !u.fresh[name]; name = path.Dir(name) {
		u.fresh[name] = true
	}
}

// setDirAttrs sets the modes and times of directories, deepest first.
func (u *unpacker) setDirAttrs() error {
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(u.modes))) {
		h := u.modes[name]
		err := u.root.Chmod(name, fs.FileMode(h.Mode)&fs.ModePerm)
		if err == nil {
			err = u.root.Chtimes(name, h.ModTime, h.ModTime)
		}
		if err != nil {
			return fmt.Errorf("entry %q: %w", h.Name, withCode(err))
		}
	}
	return nil
}

// withCode adds an error code to an error of a system call or of the stream: a
// defect of the image is InvalidArgument.
func withCode(err error) error {
	if err == nil {
		return nil
	}
	code := fault.Of(err)
	if code == fault.Internal || code == fault.AlreadyExists || code == fault.NotFound {
		code = fault.InvalidArgument
	}
	return fmt.Errorf("%w: %w", code, err)
}
