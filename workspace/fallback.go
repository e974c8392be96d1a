package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/workspace/driver"
)

// The functions of this file implement function fields of driver.FS that a provider
// left nil, with the required driver.Files (and the fields that are set). They are
// atomic per file only.

const defaultPage = 1000 // ListOptions.Limit

// walkTree visits the tree below dir, parents before children and siblings in byte order.
// It starts after the path after, which is relative to dir ("" is the start). depth
// is the number of levels; a negative depth is all. visit reports whether to descend
// into a directory. A directory that is removed during the walk is no error.
func walkTree(ctx context.Context, fs *driver.FS, dir string, depth int, after string, visit func(Info) (bool, error)) error {
	entries, err := fs.ReadDir(ctx, dir)
	if err != nil {
		return err
	}
	return walkEntries(ctx, fs, entries, depth, after, visit)
}

func walkEntries(ctx context.Context, fs *driver.FS, entries []Info, depth int, after string, visit func(Info) (bool, error)) error {
	first, rest, _ := strings.Cut(after, "/")
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if e.Name() < first {
			continue
		}
		descend, below := true, ""
		if e.Name() == first {
			below = rest // e itself came before
		} else {
			var err error
			if descend, err = visit(e); err != nil {
				return err
			}
		}
		if !descend || e.Type != driver.TypeDir || depth == 1 {
			continue
		}
		children, err := fs.ReadDir(ctx, e.Path)
		if errors.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if err := walkEntries(ctx, fs, children, depth-1, below, visit); err != nil {
			return err
		}
	}
	return nil
}

// errPageFull ends the walk of list.
var errPageFull = errors.New("page is full")

// listFallback is the fallback of FS.List.
func listFallback(ctx context.Context, fs *driver.FS, name string, opts *ListOptions) (Listing, error) {
	limit, depth, after := opts.Limit, opts.Depth, opts.After
	if limit == 0 {
		limit = defaultPage
	}
	if depth == 0 {
		depth = 1
	}
	if after != "" && name != "." {
		if !isBelow(after, name) {
			return Listing{}, fmt.Errorf("list %s: after %q: %w: it is not the next of a page of this listing", name, after, fault.InvalidArgument)
		}
		after = after[len(name)+1:]
	}
	page := Listing{Entries: []Info{}}
	err := walkTree(ctx, fs, name, depth, after, func(e Info) (bool, error) {
		if len(page.Entries) == limit {
			page.Next = page.Entries[limit-1].Path
			return false, errPageFull
		}
		page.Entries = append(page.Entries, e)
		return true, nil
	})
	if err != nil && !errors.Is(err, errPageFull) {
		return Listing{}, err
	}
	return page, nil
}

// isBelow reports whether name is inside the directory dir, and not dir itself.
func isBelow(name, dir string) bool {
	return name != dir && paths.InsideName(dir, name)
}

// digestFallback is the fallback of FS.Digest.
func digestFallback(ctx context.Context, fs *driver.FS, name string) (string, error) {
	info, err := fs.Stat(ctx, name, &driver.StatOptions{})
	if err != nil {
		return "", err
	}
	if info.Type != driver.TypeDir {
		return fileDigest(ctx, fs, name)
	}
	tree := driver.NewTreeDigest()
	err = walkTree(ctx, fs, name, -1, "", func(e Info) (bool, error) {
		content := ""
		if e.Type == driver.TypeFile {
			var err error
			if content, err = fileDigest(ctx, fs, e.Path); err != nil {
				return false, err
			}
		}
		rel := e.Path
		if name != "." {
			rel = rel[len(name)+1:]
		}
		tree.Add(rel, e, content)
		return true, nil
	})
	if err != nil {
		return "", err
	}
	return tree.Sum(), nil
}

func fileDigest(ctx context.Context, fs *driver.FS, name string) (string, error) {
	body, _, err := fs.Read(ctx, name, &driver.ReadOptions{})
	if err != nil {
		return "", err
	}
	defer body.Close()
	sum, err := driver.DigestReader(body)
	if err != nil {
		return "", fmt.Errorf("digest %s: %w", name, err)
	}
	return sum, nil
}

// editFallback is the fallback of Edit: optimistic concurrency. It writes with IfMatch, and
// reads again if another writer changed the file meanwhile.
func editFallback(ctx context.Context, fs *driver.FS, name string, edits []Edit, opts *EditOptions, maxSize int64) (EditResult, error) {
	const attempts = 10
	for attempt := 1; ; attempt++ {
		old, err := readAll(ctx, fs, name, driver.MaxEdit)
		if err != nil {
			return EditResult{}, err
		}
		was := driver.DigestBytes(old)
		if opts.IfMatch != "" && was != opts.IfMatch {
			return EditResult{}, fmt.Errorf("edit %s: %w: the file changed since it was read", name, fault.Conflict)
		}
		content, counts, err := driver.ApplyEdits(old, edits)
		if err != nil {
			return EditResult{}, fmt.Errorf("%s: %w", name, err)
		}
		res, err := fs.Write(ctx, name, bytes.NewReader(content), &driver.WriteOptions{IfMatch: was, Sync: opts.Sync, MaxSize: maxSize})
		if errors.Is(err, fault.Conflict) && opts.IfMatch == "" && attempt < attempts {
			continue
		}
		if err != nil {
			return EditResult{}, err
		}
		return EditResult{Write: res, Replaced: counts}, nil
	}
}
