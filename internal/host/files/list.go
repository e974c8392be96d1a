package files

import (
	"context"
	"fmt"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// digest returns the digest of a file, or of a tree in the order of driver.TreeDigest.
func (r *Root) digest(ctx context.Context, t cleanName) (string, error) {
	info, err := r.sys.stat(ctx, t, &driver.StatOptions{Digest: true})
	if err != nil || info.Type == driver.TypeFile {
		return info.Digest, err
	}
	if info.Type != driver.TypeDir {
		return "", errNotRegular
	}
	sum := driver.NewTreeDigest()
	err = r.digestDir(ctx, sum, t.name, "")
	return sum.Sum(), err
}

// digestDir adds the directory name, whose path in the tree is rel.
func (r *Root) digestDir(ctx context.Context, sum *driver.TreeDigest, name, rel string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	infos, err := r.sys.readDir(cleanName{name: name}, false)
	if err != nil {
		return err
	}
	for _, info := range infos {
		path := strings.TrimPrefix(rel+"/"+info.Name(), "/")
		var content string
		if info.Type == driver.TypeFile {
			now, err := r.sys.stat(ctx, cleanName{name: info.Path}, &driver.StatOptions{NoFollow: true, Digest: true})
			if err != nil {
				return err
			}
			info, content = now, now.Digest
		}
		sum.Add(path, info, content)
		if info.Type == driver.TypeDir {
			if err := r.digestDir(ctx, sum, info.Path, path); err != nil {
				return err
			}
		}
	}
	return nil
}

// defaultPage is the default number of entries of a page of List.
const defaultPage = 1000

// List lists a directory, parents before children, siblings in byte order. Next of a page
// is its last path: entries that are created or removed between two pages neither hide nor
// repeat other entries.
func (r *Root) List(ctx context.Context, name string, opts *driver.ListOptions) (driver.Listing, error) {
	t, err := r.beginCall(ctx, reads, "list", name)
	if err != nil {
		return driver.Listing{}, err
	}
	defer r.endCall()
	l := lister{sys: r.sys, opts: *orZero(opts)}
	if l.opts.Depth < -1 || l.opts.Limit < 0 {
		err := fmt.Errorf("%w: depth %d, limit %d; depth is -1 for all, and limit not negative", fault.InvalidArgument, l.opts.Depth, l.opts.Limit)
		return driver.Listing{}, opError("list", name, err)
	}
	if l.opts.Depth == 0 {
		l.opts.Depth = 1
	}
	if l.opts.Limit == 0 {
		l.opts.Limit = defaultPage
	}
	if err := l.listDir(ctx, t.name, l.opts.Depth, t.name); err != nil {
		return driver.Listing{}, opError("list", name, err)
	}
	return l.page, nil
}

type lister struct {
	sys  system
	opts driver.ListOptions
	page driver.Listing
	full bool // the page is full and entries remain
}

func (l *lister) listDir(ctx context.Context, name string, depth int, top string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	infos, err := l.sys.readDir(cleanName{name: name}, l.opts.ChangeToken)
	if err != nil && name != top && fault.Of(err) != fault.ResourceExhausted {
		return nil // removed meanwhile, or not readable; its parent lists it
	}
	if err != nil {
		return err
	}
	for _, info := range infos {
		if order := treeOrder(info.Path, l.opts.After); l.opts.After == "" || order > 0 {
			if len(l.page.Entries) == l.opts.Limit {
				l.page.Next, l.full = l.page.Entries[l.opts.Limit-1].Path, true
				return nil
			}
			l.page.Entries = append(l.page.Entries, info)
		} else if order < 0 && !strings.HasPrefix(l.opts.After, info.Path+"/") {
			continue // it and all below it were in an earlier page
		}
		if info.Type == driver.TypeDir && depth != 1 {
			if err := l.listDir(ctx, info.Path, depth-1, top); err != nil || l.full {
				return err
			}
		}
	}
	return nil
}

// treeOrder compares two paths element by element: parents come before children, and
// siblings are in byte order.
func treeOrder(a, b string) int {
	for {
		x, restA, moreA := strings.Cut(a, "/")
		y, restB, moreB := strings.Cut(b, "/")
		switch {
		case x != y:
			return strings.Compare(x, y)
		case !moreA || !moreB:
			return boolOrder(moreA) - boolOrder(moreB)
		}
		a, b = restA, restB
	}
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}
