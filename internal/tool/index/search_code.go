package index

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Limits of search_code.
const (
	defaultHits = 20
	maxHits     = 100
)

// Tools returns the tools of this package.
func Tools() []*tool.Tool { return []*tool.Tool{searchCodeTool()} }

type searchInput struct {
	Query string `json:"query" jsonschema:"words of names, signatures and comments" croft:"name"`
	Limit int    `json:"limit,omitempty" jsonschema:"maximum number of results; default 20, at most 100"`
}

type searchOutput struct {
	Query   string `json:"query"`
	Hits    []Hit  `json:"hits"`
	Files   int    `json:"files" jsonschema:"number of files searched"`
	Partial string `json:"partial,omitempty" jsonschema:"what was left out"`

	built time.Duration
}

func (o searchOutput) Text() string {
	var b strings.Builder
	switch {
	case o.Files == 0:
		fmt.Fprintf(&b, "no source files found")
	case len(o.Hits) == 0:
		fmt.Fprintf(&b, "no results for %q", o.Query)
	default:
		fmt.Fprintf(&b, "%d results for %q:\n\n", len(o.Hits), o.Query)
	}
	for i, h := range o.Hits {
		fmt.Fprintf(&b, "%d. %s:%d   %s  [%s]\n   %s\n", i+1, h.Path, h.Line, h.Symbol, h.Kind, h.Signature)
		if h.Doc != "" {
			fmt.Fprintf(&b, "   %s\n", h.Doc)
		}
		fmt.Fprintf(&b, "   score %.2f\n\n", h.Score)
	}
	if o.Partial != "" {
		fmt.Fprintf(&b, "\n(%s)", o.Partial)
	}
	if o.built > 0 && o.Files > 0 {
		fmt.Fprintf(&b, "\n(first call: index built in %dms)", o.built.Milliseconds())
	}
	return b.String()
}

func searchCodeTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "search_code", Family: tool.Search, Needs: []workspace.Capability{driver.CapFS}, ReadOnly: true, Idempotent: true, FanOut: true,
		Description: "Find functions, types and other declarations by words of their names, signatures and comments, best first, with file and line. " +
			"Go, Python, JavaScript, TypeScript, Rust, Java, Kotlin, C#, C and C++. For exact text use Grep.",
	}, searchCode)
}

// indexOf returns the Index of the call's workspace.
func indexOf(c *tool.Call) (*Index, error) {
	return tool.PerWorkspace(c, func() (*Index, error) { return New(c.Workspace), nil })
}

func searchCode(ctx context.Context, c *tool.Call, in searchInput) (searchOutput, error) {
	if strings.TrimSpace(in.Query) == "" {
		return searchOutput{}, tool.Errorf(fault.InvalidArgument, "query is required")
	}
	limit := in.Limit
	switch {
	case limit == 0:
		limit = defaultHits
	case limit < 0 || limit > maxHits:
		return searchOutput{}, tool.Errorf(fault.InvalidArgument, "limit must be between 1 and %d", maxHits)
	}
	x, err := indexOf(c)
	if err != nil {
		return searchOutput{}, err
	}
	res, err := x.Search(ctx, in.Query, limit)
	if err != nil {
		return searchOutput{}, fmt.Errorf("search_code: %w", err)
	}
	return searchOutput{Query: in.Query, Hits: append([]Hit{}, res.Hits...), Files: res.Files, Partial: res.Partial, built: res.Built}, nil
}

// Effect reads the files that a tool changed, so that the next search finds them.
func Effect(ctx context.Context, c *tool.Call, paths []string) (string, error) {
	x, err := indexOf(c)
	if err != nil {
		return "", err
	}
	return "", x.Refresh(ctx, paths...)
}
