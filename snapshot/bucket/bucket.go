// Package bucket is a snapshot backend in a bucket of gocloud.dev/blob, such as S3,
// a directory or memory.
//
// It is a separate package so that a program with snapshots in a directory does not
// link the bucket drivers.
//
// A bucket has no locks, so gc works in two steps: it condemns unreferenced packs,
// and deletes them in a later run, after a grace period in which snapshots that
// were being taken have ended. See snapshot.Options.Grace.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/blobs"
	"github.com/croft-run/croft/snapshot"
)

// New returns a backend in a bucket, below a prefix, which may be "". The caller
// closes the bucket.
func New(b *blob.Bucket, prefix string) snapshot.Backend {
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	return &backend{b: b, prefix: prefix}
}

type backend struct {
	b      *blob.Bucket
	prefix string
}

var _ snapshot.Backend = (*backend)(nil)

// wrapError adds the fault code to an error of the bucket.
func wrapError(verb, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("snapshot: bucket: %s %s: %w: %w", verb, name, blobs.Code(err), err)
}

func (b *backend) Create(ctx context.Context, name string) (snapshot.Pending, error) {
	ctx, cancel := context.WithCancel(ctx)
	w, err := b.b.NewWriter(ctx, b.prefix+name, &blob.WriterOptions{ContentType: "application/octet-stream"})
	if err != nil {
		cancel()
		return nil, wrapError("create", name, err)
	}
	return &pending{w: w, name: name, cancel: cancel}, nil
}

// pending is an object that the bucket publishes when its writer is closed.
type pending struct {
	w      *blob.Writer
	name   string
	cancel context.CancelFunc
	done   bool
}

func (p *pending) Write(data []byte) (int, error) {
	n, err := p.w.Write(data)
	return n, wrapError("write", p.name, err)
}

func (p *pending) Commit(context.Context) error {
	p.done = true
	defer p.cancel()
	return wrapError("write", p.name, p.w.Close())
}

// Abort closes the writer with a canceled context, which discards the object.
func (p *pending) Abort() {
	if !p.done {
		p.done = true
		p.cancel()
		p.w.Close() //nolint:errcheck // it fails as intended
	}
}

func (b *backend) ReadRange(ctx context.Context, name string, off, n int64) ([]byte, error) {
	r, err := b.b.NewRangeReader(ctx, b.prefix+name, off, n, nil)
	if err != nil {
		return nil, wrapError("read", name, err)
	}
	defer r.Close() //nolint:errcheck // it was only read
	buf := make([]byte, n)
	if _, err := io.ReadFull(r, buf); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			err := fmt.Errorf("snapshot: bucket: read %s: %w: the object ends before byte %d", name, fault.Failed, off+n)
			return nil, fault.WithCause(err, fault.CauseCorrupt)
		}
		return nil, wrapError("read", name, err)
	}
	return buf, nil
}

func (b *backend) List(ctx context.Context, kind string) ([]snapshot.Entry, error) {
	prefix := b.prefix + kind + "/"
	var list []snapshot.Entry
	for iter := b.b.List(&blob.ListOptions{Prefix: prefix}); ; {
		o, err := iter.Next(ctx)
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, wrapError("list", kind, err)
		}
		list = append(list, snapshot.Entry{ID: strings.TrimPrefix(o.Key, prefix), Size: o.Size, ModTime: o.ModTime})
	}
}

func (b *backend) Delete(ctx context.Context, name string) error {
	err := b.b.Delete(ctx, b.prefix+name)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil
	}
	return wrapError("delete", name, err)
}
