// Package s3blob is a bucket of gocloud.dev/blob on a server that speaks S3. It is there for its size:
// the driver of gocloud.dev links the SDK of Amazon, which was a tenth of the program.
//
// Buckets that the driver of gocloud.dev wrote are read, and the other way around. A list has no
// delimiter, an object no metadata of its own.
package s3blob

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/gcerrors"

	"github.com/croft-run/croft/fault"
)

// Scheme is the scheme of the URL of a bucket.
const Scheme = "s3"

// attempts is how often a request is sent that fails transiently.
const attempts = 3

// Open opens the bucket of a URL s3://NAME. Its query may have region, endpoint, profile,
// use_path_style and disable_https. What is missing, and the credentials, come from the environment, the
// files of Amazon's programs, or the machine's role, as Amazon's programs take them.
func Open(address *url.URL) (*blob.Bucket, error) {
	q := address.Query()
	take := func(name string) string { defer q.Del(name); return q.Get(name) }
	flag := func(name string) (bool, error) { return strconv.ParseBool(cmp.Or(take(name), "false")) }
	region := cmp.Or(take("region"), os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	endpoint := cmp.Or(take("endpoint"), os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"),
		"https://s3.amazonaws.com")
	profile := take("profile")
	pathStyle, err := flag("use_path_style")
	plain, err2 := flag("disable_https")
	if err := errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("%w: %w", fault.InvalidArgument, err)
	}
	for name := range q {
		return nil, fmt.Errorf("%w: parameter %q is not known; there are region, endpoint, profile, prefix, use_path_style and disable_https",
			fault.InvalidArgument, name)
	}
	if !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	at, err := url.Parse(endpoint)
	if err != nil || at.Host == "" || strings.Trim(at.Path, "/") != "" {
		return nil, fmt.Errorf("%w: the endpoint must be a URL such as https://HOST", fault.InvalidArgument)
	}
	opts := &minio.Options{
		Secure: at.Scheme == "https" && !plain, Region: region, MaxRetries: attempts,
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{Profile: profile}, &credentials.IAM{},
		}),
	}
	if pathStyle {
		opts.BucketLookup = minio.BucketLookupPath
	}
	client, err := minio.NewCore(at.Host, opts)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fault.InvalidArgument, err)
	}
	return blob.NewBucket(&bucket{client: client, name: address.Host}), nil
}

// A bucket implements driver.Bucket.
type bucket struct {
	client *minio.Core
	name   string
}

var _ driver.Bucket = (*bucket)(nil)

var errUnsupported = errors.New("s3: unsupported")

// ErrorCode returns the code of an answer of the server.
func (b *bucket) ErrorCode(err error) gcerrors.ErrorCode {
	var answer minio.ErrorResponse
	switch {
	case errors.Is(err, errUnsupported):
		return gcerrors.Unimplemented
	case !errors.As(err, &answer):
		return gcerrors.Unknown
	}
	switch answer.StatusCode {
	case http.StatusNotFound, http.StatusMovedPermanently:
		return gcerrors.NotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		return gcerrors.PermissionDenied
	case http.StatusPreconditionFailed, http.StatusConflict:
		return gcerrors.FailedPrecondition
	}
	return gcerrors.Unknown
}

func (b *bucket) As(any) bool             { return false }
func (b *bucket) ErrorAs(error, any) bool { return false }
func (b *bucket) Close() error            { return nil }

func (b *bucket) SignedURL(context.Context, string, *driver.SignedURLOptions) (string, error) {
	return "", errUnsupported
}

// Attributes describes an object.
func (b *bucket) Attributes(ctx context.Context, key string) (*driver.Attributes, error) {
	info, err := b.client.StatObject(ctx, b.name, escapeKey(key), minio.StatObjectOptions{})
	if err != nil {
		return nil, err
	}
	return &driver.Attributes{
		ContentType: info.ContentType, ModTime: info.LastModified, Size: info.Size, ETag: info.ETag,
	}, nil
}

// ListPaged lists objects in the order of their keys. The token of a page is the last key of the one before.
func (b *bucket) ListPaged(ctx context.Context, opts *driver.ListOptions) (*driver.ListPage, error) {
	const most = 1000 // that a server sends at once
	if opts.Delimiter != "" {
		return nil, errUnsupported
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n := min(cmp.Or(opts.PageSize, most), most)
	page := &driver.ListPage{}
	for o := range b.client.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{
		Prefix: escapeKey(opts.Prefix), Recursive: true, MaxKeys: n, StartAfter: string(opts.PageToken), FetchOwner: new(false),
	}) {
		if o.Err != nil {
			return nil, o.Err
		}
		page.Objects = append(page.Objects, &driver.ListObject{Key: unescapeKey(o.Key), ModTime: o.LastModified, Size: o.Size})
		if len(page.Objects) == n {
			page.NextPageToken = []byte(o.Key)
			break
		}
	}
	return page, nil
}

// NewRangeReader reads length bytes from offset on, or all with a negative length.
func (b *bucket) NewRangeReader(ctx context.Context, key string, offset, length int64, _ *driver.ReaderOptions) (driver.Reader, error) {
	var opts minio.GetObjectOptions
	switch {
	case length > 0:
		opts.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	case length == 0: // a range has a byte at least
		opts.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, offset))
	case offset > 0:
		opts.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	body, info, header, err := b.client.GetObject(ctx, b.name, escapeKey(key), opts)
	if err != nil {
		return nil, err
	}
	r := &reader{ReadCloser: body, attributes: driver.ReaderAttributes{
		ContentType: info.ContentType, ModTime: info.LastModified, Size: info.Size,
	}}
	if _, total, ok := strings.Cut(header.Get("Content-Range"), "/"); ok {
		if r.attributes.Size, err = strconv.ParseInt(total, 10, 64); err != nil {
			body.Close()
			return nil, fmt.Errorf("s3: the server sent a content range without the size: %w", err)
		}
	}
	if length == 0 {
		body.Close()
		r.ReadCloser = http.NoBody
	}
	return r, nil
}

type reader struct {
	io.ReadCloser
	attributes driver.ReaderAttributes
}

func (r *reader) As(any) bool                          { return false }
func (r *reader) Attributes() *driver.ReaderAttributes { return &r.attributes }

// NewTypedWriter writes an object, which is there when Close has returned.
func (b *bucket) NewTypedWriter(ctx context.Context, key, contentType string, opts *driver.WriterOptions) (driver.Writer, error) {
	if len(opts.Metadata) > 0 {
		return nil, errUnsupported
	}
	if opts.BeforeWrite != nil {
		if err := opts.BeforeWrite(b.As); err != nil {
			return nil, err
		}
	}
	w := &writer{ctx: ctx}
	put := minio.PutObjectOptions{ContentType: contentType, PartSize: partSize, NumThreads: 4, ConcurrentStreamParts: true}
	if opts.IfNotExist {
		put.SetMatchETagExcept("*")
	}
	w.put = func(body io.Reader, size int64) error {
		_, err := b.client.Client.PutObject(ctx, b.name, escapeKey(key), body, size, put)
		return err
	}
	return w, nil
}

// partSize is the size of the parts in which a long object is sent, four at once.
const partSize = 8 << 20

// A writer sends an object of up to partSize bytes in one request, and a longer one in parts.
type writer struct {
	ctx   context.Context
	put   func(body io.Reader, size int64) error
	short bytes.Buffer   // the beginning, until it is longer than a part
	long  *io.PipeWriter // what follows; nil before
	sent  chan error     // of long
}

// Write adds to the object.
func (w *writer) Write(data []byte) (int, error) {
	if w.long != nil {
		return w.long.Write(data)
	}
	if n, err := w.short.Write(data); w.short.Len() <= partSize {
		return n, err
	}
	r, long := io.Pipe()
	w.long, w.sent = long, make(chan error, 1)
	go func() {
		err := w.put(io.MultiReader(&w.short, r), -1)
		r.CloseWithError(cmp.Or(err, io.ErrClosedPipe))
		w.sent <- err
	}()
	return len(data), nil
}

// Close completes the object. After the end of the context Close discards it.
func (w *writer) Close() error {
	err := w.ctx.Err()
	if w.long != nil {
		w.long.CloseWithError(err) // nil is the end of the object
		return cmp.Or(err, <-w.sent)
	}
	if err != nil {
		return err
	}
	return w.put(bytes.NewReader(w.short.Bytes()), int64(w.short.Len())) // that can be sent again
}

// Copy copies an object within the bucket.
func (b *bucket) Copy(ctx context.Context, to, from string, _ *driver.CopyOptions) error {
	_, err := b.client.Client.CopyObject(ctx,
		minio.CopyDestOptions{Bucket: b.name, Object: escapeKey(to)}, minio.CopySrcOptions{Bucket: b.name, Object: escapeKey(from)})
	return err
}

// Delete deletes an object. It asks first: S3 answers the same for a missing one.
func (b *bucket) Delete(ctx context.Context, key string, _ *driver.DeleteOptions) error {
	if _, err := b.Attributes(ctx, key); err != nil {
		return err
	}
	return b.client.RemoveObject(ctx, b.name, escapeKey(key), minio.RemoveObjectOptions{})
}

// escapeKey escapes what S3 does not take, as the driver of gocloud.dev does: control characters and
// the slash after "..", each as __0xHEX__.
func escapeKey(key string) string {
	var out strings.Builder
	for i, c := range key {
		if c < ' ' || c == '/' && strings.HasSuffix(key[:i], "..") {
			fmt.Fprintf(&out, "__%#x__", c)
		} else {
			out.WriteRune(c)
		}
	}
	return out.String()
}

// unescapeKey reverses escapeKey.
func unescapeKey(key string) string {
	var out strings.Builder
	for {
		before, rest, ok := strings.Cut(key, "__0x")
		out.WriteString(before)
		if !ok {
			return out.String()
		}
		hex, after, ended := strings.Cut(rest, "__")
		c, err := strconv.ParseInt(hex, 16, 32)
		if !ended || err != nil {
			out.WriteString("__0x")
			key = rest
			continue
		}
		out.WriteRune(rune(c))
		key = after
	}
}
