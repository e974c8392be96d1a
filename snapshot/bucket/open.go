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
	"gocloud.dev/blob/s3blob"

	"github.com/croft-run/croft/fault"
)

// Schemes are the schemes of the URLs that Open knows.
var Schemes = []string{fileblob.Scheme, memblob.Scheme, s3blob.Scheme}

// Open opens a bucket by its URL: file:///path, which is made where it is missing,
// mem:// or s3://bucket?region=..., with the credentials that the environment has
// for it. prefix=a/b in the query is the prefix of all that is kept there.
func Open(ctx context.Context, address string) (*blob.Bucket, error) {
	u, err := url.Parse(address)
	if err != nil || !slices.Contains(Schemes, u.Scheme) {
		return nil, fmt.Errorf("snapshot: bucket %q: %w: it is a URL of one of the schemes %v", redactURL(u), fault.InvalidArgument, Schemes)
	}
	if u.Scheme == fileblob.Scheme {
		if u.Host != "" || u.Path == "" {
			return nil, fmt.Errorf("snapshot: bucket %q: %w: it is file:// and an absolute path", redactURL(u), fault.InvalidArgument)
		}
		if err := os.MkdirAll(u.Path, 0o700); err != nil {
			return nil, fmt.Errorf("snapshot: bucket %s: %w: %w", u.Path, fault.Of(err), err)
		}
		q := u.Query()
		q.Set("no_tmp_dir", "true") // a rename must not cross file systems
		u.RawQuery = q.Encode()
	}
	b, err := blob.OpenBucket(ctx, u.String())
	if err != nil {
		return nil, fmt.Errorf("snapshot: bucket %s: %w: %w", redactURL(u), fault.InvalidArgument, err)
	}
	return b, nil
}

// redactURL is a URL without what may be a secret in it.
func redactURL(u *url.URL) string {
	if u == nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
