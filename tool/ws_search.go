package tool

import (
	"context"

	"github.com/croft-run/croft/fault"
)

type wsGlobInput struct {
	Pattern string `json:"pattern" jsonschema:"glob pattern: * ? [a-z] {a,b} and ** for any depth" croft:"name"`
}

func wsGlobTool() *Tool {
	return New(Spec{
		Name: "workspace_glob", Family: Search, Needs: fsOnly, ReadOnly: true, Idempotent: true, FanOut: true,
		Description: "Find files by a glob pattern, the newest first.",
	}, func(ctx context.Context, c *Call, in wsGlobInput) (globOutput, error) {
		return runGlob(ctx, c, globInput{Pattern: in.Pattern, Limit: 1000})
	})
}

type wsGrepInput struct {
	Pattern    string `json:"pattern" jsonschema:"regular expression (RE2)" croft:"name"`
	Path       string `json:"path,omitempty" jsonschema:"file or directory to search; default the workspace" croft:"path"`
	IgnoreCase bool   `json:"ignore_case,omitempty" jsonschema:"ignore case"`
	Include    string `json:"include,omitempty" jsonschema:"only files whose path matches, such as *.go"`
	MaxResults int    `json:"max_results,omitempty" jsonschema:"maximum number of matches; default 1000"`
	Offset     int    `json:"offset,omitempty" jsonschema:"matches to leave out, to go on after an earlier answer"`
}

const defaultGrepResults = 1000

func wsGrepTool() *Tool {
	return New(Spec{
		Name: "workspace_grep", Family: Search, Needs: fsOnly, ReadOnly: true, Idempotent: true, FanOut: true,
		Description: "Search the text of files for a regular expression.",
	}, func(ctx context.Context, c *Call, in wsGrepInput) (grepOutput, error) {
		if in.MaxResults < 0 {
			return grepOutput{}, Errorf(fault.InvalidArgument, "max_results must be positive")
		}
		if in.MaxResults == 0 {
			in.MaxResults = defaultGrepResults
		}
		return runGrep(ctx, c, grepInput{Pattern: in.Pattern, Path: in.Path, Glob: in.Include, CaseInsensitive: in.IgnoreCase, HeadLimit: in.MaxResults, Offset: in.Offset})
	})
}
