package tool

import (
	"context"
	"strconv"
	"strings"
	"unicode"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Limits of list.
const (
	defaultListLimit = 1000
	maxListDepth     = 20
)

type listInput struct {
	Path  string `json:"path,omitempty" jsonschema:"directory to list; default the workspace" croft:"path"`
	Depth int    `json:"depth,omitempty" jsonschema:"levels to list; default 1, at most 20"`
	Limit int    `json:"limit,omitempty" jsonschema:"maximum number of entries; default 1000"`
}

type listOutput struct {
	Entries []listEntry `json:"entries"`
	More    bool        `json:"more,omitempty" jsonschema:"there are entries beyond the limit"`
}

type listEntry struct {
	Path   string `json:"path"`
	Type   string `json:"type" jsonschema:"file, dir, symlink or other"`
	Size   int64  `json:"size,omitempty"`
	Target string `json:"target,omitempty" jsonschema:"target of a symlink"`
}

// oneLine quotes a name with control characters, which could otherwise look like several
// entries.
func oneLine(name string) string {
	if strings.ContainsFunc(name, unicode.IsControl) {
		return strconv.Quote(name)
	}
	return name
}

func (o listOutput) Text() string {
	var b strings.Builder
	for _, e := range o.Entries {
		b.WriteString(oneLine(e.Path))
		switch e.Type {
		case string(driver.TypeDir):
			b.WriteByte('/')
		case string(driver.TypeSymlink):
			b.WriteString(" -> " + oneLine(e.Target))
		}
		b.WriteByte('\n')
	}
	if o.More {
		b.WriteString("... (there are more entries; raise limit or list a directory below)\n")
	}
	return b.String()
}

func listTool() *Tool {
	return New(Spec{
		Name: "list", Family: Files, Needs: []workspace.Capability{driver.CapFS}, ReadOnly: true, Idempotent: true,
		Description: "List a directory, to any depth. Directories end in a slash.",
	}, listDir)
}

func listDir(ctx context.Context, c *Call, in listInput) (listOutput, error) {
	switch {
	case in.Depth < 0 || in.Depth > maxListDepth:
		return listOutput{}, Errorf(fault.InvalidArgument, "depth must be between 1 and %d", maxListDepth)
	case in.Limit < 0 || in.Limit > driver.MaxListLimit:
		return listOutput{}, Errorf(fault.InvalidArgument, "limit must be between 1 and %d", driver.MaxListLimit)
	case in.Limit == 0:
		in.Limit = defaultListLimit
	}
	page, err := c.Workspace.List(ctx, in.Path, &driver.ListOptions{Depth: in.Depth, Limit: in.Limit})
	if err != nil {
		return listOutput{}, PathError("list", in.Path, err)
	}
	out := listOutput{Entries: []listEntry{}, More: page.Next != ""}
	for _, i := range page.Entries {
		out.Entries = append(out.Entries, listEntry{Path: i.Path, Type: string(i.Type), Size: i.Size, Target: i.Target})
	}
	return out, nil
}
