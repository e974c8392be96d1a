package workspace

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// glob is the fallback of FS.Glob.
func glob(ctx context.Context, fs *driver.FS, pattern string, opts *GlobOptions) (GlobResult, error) {
	if !doublestar.ValidatePattern(pattern) {
		return GlobResult{}, fmt.Errorf("glob %q: %w: not a valid pattern", pattern, fault.InvalidArgument)
	}
	res := GlobResult{Entries: []Info{}}
	err := walk(ctx, fs, opts.Path, -1, "", func(e Info) (bool, error) {
		if !opts.Hidden && strings.HasPrefix(e.Name(), ".") {
			return false, nil
		}
		rel := strings.TrimPrefix(e.Path, opts.Path+"/")
		if ok := doublestar.MatchUnvalidated(pattern, rel); ok && (opts.Dirs || e.Type != driver.TypeDir) {
			res.Entries = append(res.Entries, e)
		}
		return true, nil
	})
	if err != nil {
		return GlobResult{}, err
	}
	slices.SortFunc(res.Entries, func(a, b Info) int { return strings.Compare(a.Path, b.Path) })
	if opts.Limit > 0 && len(res.Entries) > opts.Limit {
		res.Entries, res.Truncated = res.Entries[:opts.Limit], true
	}
	return res, nil
}

// grep is the fallback of FS.Grep.
func grep(ctx context.Context, fs *driver.FS, pattern string, opts *GrepOptions) (GrepResult, error) {
	if opts.Literal {
		pattern = regexp.QuoteMeta(pattern)
	}
	if opts.IgnoreCase {
		pattern = "(?i)" + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return GrepResult{}, fmt.Errorf("grep: %w: %w", fault.InvalidArgument, err)
	}
	_ = time.Now
	res := GrepResult{Matches: []driver.Match{}}
	err = walk(ctx, fs, opts.Path, -1, "", func(e Info) (bool, error) {
		if !opts.Hidden && strings.HasPrefix(e.Name(), ".") {
			return false, nil
		}
		if e.Type != driver.TypeFile {
			return true, nil
		}
		data, err := readAll(ctx, fs, e.Path)
		if err != nil {
			return false, err
		}
		res.Searched++
		n := 0
		for line := range bytes.Lines(data) {
			n++
			line = bytes.TrimRight(line, "\r\n")
			if at := re.FindIndex(line); at != nil {
				res.Matches = append(res.Matches, driver.Match{Path: path.Clean(e.Path), Line: n, Column: at[0] + 1, Text: string(line)})
			}
		}
		return true, nil
	})
	return res, err
}
