package bucket

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/memblob"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/s3blob"
)

// Schemes are the URL schemes of Open.
var Schemes = []string{fileblob.Scheme, memblob.Scheme, s3blob.Scheme}

// Open opens a bucket by its URL: file:///path, which is created if it is missing,
// mem:// or s3://bucket?region=..., with the credentials of the environment.
// prefix=a/b in the query is a prefix of all keys.
func Open(ctx context.Context, address string) (*blob.Bucket, error) {
	u, err := url.Parse(address)
	if err != nil || !slices.Contains(Schemes, u.Scheme) {
		return nil, fault.Advise(fmt.Errorf("snapshot: bucket %q: %w: the URL must have one of the schemes %v", redactURL(u), fault.InvalidArgument, Schemes), "a directory is file:///path, a bucket s3://NAME?region=REGION")
	}
	if u.Scheme == fileblob.Scheme {
		if u.Host != "" || u.Path == "" {
			return nil, fmt.Errorf("snapshot: bucket %q: %w: the URL must be file:// and an absolute path", redactURL(u), fault.InvalidArgument)
		}
		if err := os.MkdirAll(u.Path, 0o700); err != nil {
			return nil, fmt.Errorf("snapshot: bucket %s: %w: %w", u.Path, fault.Of(err), err)
		}
		q := u.Query()
		q.Set("no_tmp_dir", "true") // a rename must not cross file systems
		u.RawQuery = q.Encode()
	}
	b, err := openURL(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("snapshot: bucket %s: %w: %w", redactURL(u), fault.InvalidArgument, err)
	}
	return b, nil
}

func openURL(ctx context.Context, u *url.URL) (*blob.Bucket, error) {
	if u.Scheme != s3blob.Scheme {
		return blob.OpenBucket(ctx, u.String())
	}
	q := u.Query()
	prefix := q.Get("prefix")
	q.Del("prefix")
	b, err := s3blob.Open(&url.URL{Scheme: u.Scheme, Host: u.Host, RawQuery: q.Encode()})
	if err == nil && prefix != "" {
		b = blob.PrefixedBucket(b, prefix)
	}
	return b, err
}

// redactURL returns a URL without user info and query, which may hold secrets.
func redactURL(u *url.URL) string {
	if u == nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
