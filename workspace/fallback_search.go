package workspace

import (
	"context"
	"fmt"

	"github.com/croft-run/croft/internal/search"
	"github.com/croft-run/croft/workspace/driver"
)

// globFallback is the fallback of FS.Glob. It follows the rules of providers with their own
// Glob.
func globFallback(ctx context.Context, fs *driver.FS, pattern string, opts *GlobOptions) (GlobResult, error) {
	res, err := search.GlobFiles(ctx, fs.Files, pattern, opts)
	if err != nil {
		return res, fmt.Errorf("glob %q: %w", pattern, err)
	}
	return res, nil
}

// grepFallback is the fallback of FS.Grep.
func grepFallback(ctx context.Context, fs *driver.FS, pattern string, opts *GrepOptions) (GrepResult, error) {
	res, err := search.GrepFiles(ctx, fs.Files, pattern, opts)
	if err != nil {
		return res, fmt.Errorf("grep %q: %w", pattern, err)
	}
	return res, nil
}
