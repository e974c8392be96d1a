package client

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"syscall"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// importDir sends a directory of this host in one request, as a tar stream.
func (f *files) importDir(ctx context.Context, dir, name string, opts *driver.ImportOptions) (driver.ImportResult, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return driver.ImportResult{}, fmt.Errorf("client: import %s: %w: %w", dir, fault.Of(err), err)
	}
	defer root.Close() //nolint:errcheck // opened for reading
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	p := &packer{ctx: ctx, root: root, opts: opts, out: tar.NewWriter(w)}
	packed := make(chan struct{})
	go func() {
		defer close(packed)
		w.CloseWithError(p.packAll())
	}()
	up := newUpload(ctx, name, r, 0)
	res, err := get[driver.ImportResult](ctx, f.c, request{
		method: http.MethodPost, path: workspacePath(f.id, "/import"), body: up,
		query:  pathQuery(name).flag("readonly", opts.ReadOnly).number("maxFiles", int64(opts.MaxFiles)).number("maxBytes", opts.MaxBytes).Values,
		header: http.Header{"Content-Type": {"application/x-tar"}},
	})
	cause := up.stop(ctx)
	r.CloseWithError(io.ErrClosedPipe)
	<-packed
	if err != nil && cause != nil {
		return driver.ImportResult{}, cause // the error of the transport does not have the cause
	}
	if err != nil {
		return driver.ImportResult{}, evictedError(err)
	}
	for _, s := range p.skipped.Skipped {
		res.Skip(s.Path, s.Reason)
	}
	res.Skips += p.skipped.Skips - len(p.skipped.Skipped)
	return res, nil
}

// A packer writes a directory as a tar stream.
type packer struct {
	ctx     context.Context // of the call of importDir that the packer is for
	root    *os.Root
	opts    *driver.ImportOptions
	out     *tar.Writer
	skipped driver.ImportResult
}

func (p *packer) packAll() error {
	if err := p.packDir("."); err != nil {
		return err
	}
	return p.out.Close()
}

func (p *packer) packDir(rel string) error {
	d, err := p.root.Open(rel)
	if err != nil {
		return packError(rel, err)
	}
	defer d.Close()
	info, err := d.Stat()
	if err != nil {
		return packError(rel, err)
	}
	if err := p.writeHeader(rel, info, tar.TypeDir, ""); err != nil {
		return err
	}
	entries, err := d.ReadDir(-1)
	if err != nil {
		return packError(rel, err)
	}
	for _, e := range entries {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		at := path.Join(rel, e.Name())
		if slices.Contains(p.opts.Exclude, at) {
			continue
		}
		if err := p.packEntry(at, e.Type()); err != nil {
			return err
		}
	}
	return nil
}

func (p *packer) packEntry(at string, typ iofs.FileMode) error {
	switch typ.Type() {
	case 0:
		return p.packFile(at)
	case iofs.ModeDir:
		return p.packDir(at)
	case iofs.ModeSymlink:
		target, err := p.root.Readlink(at)
		if err != nil {
			return packError(at, err)
		}
		info, err := p.root.Lstat(at)
		if err != nil {
			return packError(at, err)
		}
		return p.writeHeader(at, info, tar.TypeSymlink, target)
	}
	p.skipped.Skip(at, driver.ImportSpecial)
	return nil
}

func (p *packer) packFile(at string) error {
	f, err := p.root.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK, 0) // O_NONBLOCK: the entry may have become a FIFO
	if err != nil {
		return packError(at, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return packError(at, err)
	}
	if !info.Mode().IsRegular() {
		p.skipped.Skip(at, driver.ImportSpecial)
		return nil
	}
	if err := p.writeHeader(at, info, tar.TypeReg, ""); err != nil {
		return err
	}
	_, err = io.CopyN(p.out, f, info.Size())
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("client: import %q: %w: it became shorter while it was read", at, fault.Unavailable)
	}
	return err
}

func (p *packer) writeHeader(at string, info iofs.FileInfo, typ byte, target string) error {
	h := &tar.Header{
		Name: at, Typeflag: typ, Linkname: target, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(),
		Format: tar.FormatPAX, // holds any name, and times in nanoseconds
	}
	if typ == tar.TypeReg {
		h.Size = info.Size()
	}
	if err := p.out.WriteHeader(h); err != nil {
		return packError(at, err)
	}
	return nil
}

func packError(at string, err error) error {
	if errors.Is(err, io.ErrClosedPipe) {
		return err // the server has answered before the end of the stream; importDir returns its answer
	}
	return fmt.Errorf("client: import %q: %w: %w", at, fault.Of(err), err)
}
