package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func (s fileRoutes) search() {
	onWorkspace(s, shown(s.op(http.MethodGet, onePath+"/glob", "glob", "Paths that match a pattern")), globPaths)
	onWorkspace(s, shown(s.op(http.MethodGet, onePath+"/grep", "grep", "Lines that match a regular expression, and what was not searched")), grepFiles)
	onWorkspace(s, s.watchOp(), s.watchPath)
}

type globInput struct {
	Target
	Pattern   string `query:"pattern" required:"true" doc:"* ? [a-z] {a,b}, and ** for any depth"`
	Path      string `query:"path" doc:"where the pattern starts"`
	GitIgnore bool   `query:"gitignore" doc:"leave out files that .gitignore files exclude"`
	Hidden    bool   `query:"hidden" doc:"match names that start with a dot"`
	Dirs      bool   `query:"dirs" doc:"list directories, too"`
	Stat      bool   `query:"stat" doc:"include size, mode and time"`
	Limit     int    `query:"limit" doc:"maximum number of paths; 0 is no limit"`
}

func globPaths(ctx context.Context, ws *workspace.Workspace, in *globInput) (*body[driver.GlobResult], error) {
	res, err := ws.Glob(ctx, in.Pattern, &driver.GlobOptions{
		Path: in.Path, GitIgnore: in.GitIgnore, Hidden: in.Hidden, Dirs: in.Dirs, Stat: in.Stat, Limit: in.Limit,
	})
	if res.Entries == nil {
		res.Entries = []driver.Info{}
	}
	return &body[driver.GlobResult]{res}, err
}

type grepInput struct {
	Target
	Pattern     string   `query:"pattern" required:"true" doc:"RE2, or text with literal"`
	Path        string   `query:"path" doc:"a file, or a directory to search below"`
	Literal     bool     `query:"literal"`
	IgnoreCase  bool     `query:"ignorecase"`
	Multiline   bool     `query:"multiline"`
	Include     []string `query:"include,explode" doc:"globs of files to search"`
	Exclude     []string `query:"exclude,explode" doc:"globs of files not to search"`
	GitIgnore   bool     `query:"gitignore"`
	Hidden      bool     `query:"hidden"`
	Before      int      `query:"before" doc:"lines of context"`
	After       int      `query:"after"`
	MaxPerFile  int      `query:"maxperfile"`
	MaxMatches  int      `query:"maxmatches" doc:"0 is 10000"`
	MaxFileSize int64    `query:"maxfilesize" doc:"0 is 10 MiB, -1 no limit"`
	MaxTime     string   `query:"maxtime" doc:"a duration such as 5s"`
}

func grepFiles(ctx context.Context, ws *workspace.Workspace, in *grepInput) (*body[driver.GrepResult], error) {
	limit, err := parseDuration("maxtime", in.MaxTime)
	if err != nil {
		return nil, err
	}
	res, err := ws.Grep(ctx, in.Pattern, &driver.GrepOptions{
		Path: in.Path, Literal: in.Literal, IgnoreCase: in.IgnoreCase, Multiline: in.Multiline,
		Include: in.Include, Exclude: in.Exclude, GitIgnore: in.GitIgnore, Hidden: in.Hidden,
		Before: in.Before, After: in.After, MaxPerFile: in.MaxPerFile, MaxMatches: in.MaxMatches,
		MaxFileSize: in.MaxFileSize, MaxTime: limit,
	})
	if res.Matches == nil {
		res.Matches = []driver.Match{}
	}
	return &body[driver.GrepResult]{res}, err
}

func parseDuration(param, s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, badParameter(param, "%q is not a duration such as 50ms or 5s", s)
	}
	return d, nil
}
