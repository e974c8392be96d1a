package workspace

import (
	"context"

	"github.com/croft-run/croft/internal/search"
	"github.com/croft-run/croft/workspace/driver"
)

// glob is the fallback of FS.Glob, with the rules that providers use who have
// their own.
func glob(ctx context.Context, fs *driver.FS, pattern string, opts *GlobOptions) (GlobResult, error) {
	return search.GlobFiles(ctx, fs.Files, pattern, opts)
}

// grep is the fallback of FS.Grep, likewise.
func grep(ctx context.Context, fs *driver.FS, pattern string, opts *GrepOptions) (GrepResult, error) {
	return search.GrepFiles(ctx, fs.Files, pattern, opts)
}
