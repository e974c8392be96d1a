package tool

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

const defaultGlobLimit = 100

type globInput struct {
	Pattern string `json:"pattern" jsonschema:"glob pattern: * ? [a-z] {a,b} and ** for any depth; one without a slash matches names in every directory" croft:"name"`
	Path    string `json:"path,omitempty" jsonschema:"directory to look in; default the workspace" croft:"path"`
	Limit   int    `json:"limit,omitempty" jsonschema:"maximum number of paths; default 100"`
}

type globOutput struct {
	Paths []string `json:"paths" jsonschema:"the newest first"`
	Total int      `json:"total" jsonschema:"number of all matches"`
}

func (o globOutput) Text() string {
	if len(o.Paths) == 0 {
		return "no file matches"
	}
	names := make([]string, len(o.Paths))
	for i, name := range o.Paths {
		names[i] = oneLine(name)
	}
	text := strings.Join(names, "\n")
	if more := o.Total - len(o.Paths); more > 0 {
		text += fmt.Sprintf("\n... (%d more; raise limit or narrow the pattern)", more)
	}
	return text
}

func globTool() *Tool {
	return New(Spec{
		Name: "Glob", Family: Search, Needs: []workspace.Capability{driver.CapFS}, ReadOnly: true, Idempotent: true, FanOut: true,
		Description: "Find files by a glob pattern, the newest first. Files that .gitignore excludes are left out.",
	}, runGlob)
}

func runGlob(ctx context.Context, c *Call, in globInput) (globOutput, error) {
	switch {
	case in.Pattern == "":
		return globOutput{}, Errorf(fault.InvalidArgument, "pattern is required")
	case in.Limit < 0:
		return globOutput{}, Errorf(fault.InvalidArgument, "limit must be positive")
	case in.Limit == 0:
		in.Limit = defaultGlobLimit
	}
	if in.Path != "" {
		info, err := c.Workspace.Stat(ctx, in.Path, nil)
		if err != nil {
			return globOutput{}, PathError("stat path", in.Path, err)
		}
		if info.Type != driver.TypeDir {
			return globOutput{}, Errorf(fault.InvalidArgument, "path is not a directory: %s", in.Path)
		}
	}
	in.Pattern = strings.TrimPrefix(in.Pattern, c.Root()+"/") // as paths may be absolute, too
	res, err := c.Workspace.Glob(ctx, globPattern(in.Pattern, c.relPath(in.Path)), &driver.GlobOptions{Path: in.Path, GitIgnore: true, Hidden: true, Stat: true})
	if err != nil {
		return globOutput{}, fmt.Errorf("glob: %w", err)
	}
	// Stable: entries with equal times stay sorted by path.
	slices.SortStableFunc(res.Entries, func(a, b workspace.Info) int { return b.ModTime.Compare(a.ModTime) })
	out := globOutput{Paths: []string{}, Total: len(res.Entries)}
	for _, e := range res.Entries[:min(in.Limit, len(res.Entries))] {
		out.Paths = append(out.Paths, e.Path)
	}
	return out, nil
}

// globPattern returns a pattern relative to dir. A pattern that begins with dir is taken as
// relative to the workspace; one without a slash matches in every directory.
func globPattern(pattern, dir string) string {
	if dir != "" {
		if rest, ok := strings.CutPrefix(pattern, dir+"/"); ok {
			return rest
		}
	}
	if !strings.Contains(pattern, "/") {
		return path.Join("**", pattern)
	}
	return strings.TrimPrefix(pattern, "./")
}
