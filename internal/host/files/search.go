package files

import (
	"context"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Glob lists the entries that match a pattern. It follows no symlinks except those that the
// pattern or opts.Path name.
func (r *Root) Glob(ctx context.Context, pattern string, opts *driver.GlobOptions) (driver.GlobResult, error) {
	opts = orZero(opts)
	if _, err := r.beginCall(ctx, reads, "glob", orDot(opts.Path)); err != nil {
		return driver.GlobResult{}, err
	}
	defer r.endCall()
	res, err := r.glob(ctx, pattern, opts)
	return res, opError("glob", errorSubject(pattern, opts.Path, err), err)
}

// Grep searches the text of files. It follows no symlinks except opts.Path.
func (r *Root) Grep(ctx context.Context, pattern string, opts *driver.GrepOptions) (driver.GrepResult, error) {
	opts = orZero(opts)
	t, err := r.beginCall(ctx, reads, "grep", orDot(opts.Path))
	if err != nil {
		return driver.GrepResult{}, err
	}
	defer r.endCall()
	if t.mustBeDir {
		if _, err := r.sys.stat(ctx, t, new(driver.StatOptions)); err != nil {
			return driver.GrepResult{}, opError("grep", opts.Path, err)
		}
	}
	res, err := r.grep(ctx, pattern, opts)
	return res, opError("grep", errorSubject(pattern, opts.Path, err), err)
}

// errorSubject returns what an error of a search is about: the path if it is missing, or
// else the pattern.
func errorSubject(pattern, path string, err error) string {
	if fault.Of(err) == fault.NotFound {
		return orDot(path)
	}
	return pattern
}

func orDot(name string) string {
	if name == "" {
		return "."
	}
	return name
}
