package workspace

import (
	"context"
	"fmt"

	"github.com/croft-run/croft/internal/search"
	"github.com/croft-run/croft/workspace/driver"
)

// glob is the fallback of FS.Glob, with the rules that providers use who have
// their own.
func glob(ctx context.Context, fs *driver.FS, pattern string, opts *GlobOptions) (GlobResult, error) {
	res, err := search.GlobFiles(ctx, fs.Files, pattern, opts)
	if err != nil {
		return res, fmt.Errorf("glob %q: %w", pattern, err)
	}
	return res, nil
}

// grep is the fallback of FS.Grep, likewise.
func grep(ctx context.Context, fs *driver.FS, pattern string, opts *GrepOptions) (GrepResult, error) {
	res, err := search.GrepFiles(ctx, fs.Files, pattern, opts)
	if err != nil {
		return res, fmt.Errorf("grep %q: %w", pattern, err)
	}
	return res, nil
}
