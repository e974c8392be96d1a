package boundary

import (
	"context"

	"github.com/croft-run/croft/internal/search"
	"github.com/croft-run/croft/workspace/driver"
)

// Glob lists what matches a pattern. It follows no symlinks but those that the
// pattern or opts.Path name.
func (r *Root) Glob(ctx context.Context, pattern string, opts *driver.GlobOptions) (driver.GlobResult, error) {
	opts = orZero(opts)
	if _, err := r.begin(ctx, reads, "glob", orDot(opts.Path)); err != nil {
		return driver.GlobResult{}, err
	}
	defer r.end()
	p, err := search.PlanGlob(pattern, opts)
	if err != nil {
		return driver.GlobResult{}, failed("glob", pattern, err)
	}
	res, err := r.sys.glob(ctx, p, opts)
	return res, failed("glob", pattern, err)
}

// Grep searches the text of files. It follows no symlinks but opts.Path.
func (r *Root) Grep(ctx context.Context, pattern string, opts *driver.GrepOptions) (driver.GrepResult, error) {
	opts = orZero(opts)
	t, err := r.begin(ctx, reads, "grep", orDot(opts.Path))
	if err != nil {
		return driver.GrepResult{}, err
	}
	defer r.end()
	q, err := search.Compile(pattern, opts)
	if err != nil {
		return driver.GrepResult{}, failed("grep", pattern, err)
	}
	p, err := search.PlanGrep(opts)
	if err != nil {
		return driver.GrepResult{}, failed("grep", pattern, err)
	}
	if t.dir {
		if _, err := r.sys.stat(ctx, t, new(driver.StatOptions)); err != nil {
			return driver.GrepResult{}, failed("grep", t.name, err)
		}
	}
	h := search.NewHits(opts)
	if err := r.sys.grep(ctx, p, q, h); err != nil {
		return driver.GrepResult{}, failed("grep", pattern, err)
	}
	return h.Result(), nil
}

func orDot(name string) string {
	if name == "" {
		return "."
	}
	return name
}
