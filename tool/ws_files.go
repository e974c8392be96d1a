package tool

import (
	"context"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// The file tools of the workspace toolset behave like those of the coding toolset.

type wsReadInput struct {
	Path   string `json:"path" jsonschema:"file to read" croft:"path"`
	Offset int    `json:"offset,omitempty" jsonschema:"first line, counted from 1; default 1"`
	Limit  int    `json:"limit,omitempty" jsonschema:"maximum number of lines; default 2000"`
}

type wsReadOutput struct {
	Path       string `json:"path"`
	Content    string `json:"content" jsonschema:"lines without numbers"`
	Lines      int    `json:"lines" jsonschema:"number of lines of the file"`
	NextOffset int    `json:"next_offset,omitempty" jsonschema:"first line that was not shown, if there are more"`
	Digest     string `json:"digest"`
}

func (o wsReadOutput) Text() string {
	if o.NextOffset == 0 {
		return o.Content
	}
	return o.Content + fmt.Sprintf("\n... (%d more lines; offset=%d shows them)\n", o.Lines-o.NextOffset+1, o.NextOffset)
}

func wsReadFileTool() *Tool {
	return New(Spec{
		Name: "workspace_read_file", Family: Files, Needs: fsOnly, ReadOnly: true, Idempotent: true,
		Description: "Read a file of the workspace.",
	}, func(ctx context.Context, c *Call, in wsReadInput) (wsReadOutput, error) {
		if err := requireArgument("path", in.Path); err != nil {
			return wsReadOutput{}, err
		}
		if in.Limit < 0 {
			return wsReadOutput{}, Errorf(fault.InvalidArgument, "limit must not be negative")
		}
		w := window{first: max(in.Offset, 1), count: in.Limit}
		if w.count == 0 {
			w.count = defaultReadLines
		}
		out, err := c.readWindow(ctx, in.Path, w)
		return wsReadOutput{out.Path, out.Content, out.Lines, out.NextOffset, out.Digest}, err
	})
}

type wsWriteInput struct {
	Path    string `json:"path" jsonschema:"file to write" croft:"path"`
	Content string `json:"content" jsonschema:"the whole new content"`
}

func wsWriteFileTool() *Tool {
	return New(Spec{
		Name: "workspace_write_file", Family: Files, Needs: fsOnly, Destructive: true, Idempotent: true,
		Description: "Write a file, and create missing parent directories. An existing file must have been read as a whole, and must be unchanged since.",
	}, func(ctx context.Context, c *Call, in wsWriteInput) (writeOutput, error) {
		if err := requireArgument("path", in.Path); err != nil {
			return writeOutput{}, err
		}
		return writeFile(ctx, c, writeInput{FilePath: in.Path, Content: in.Content})
	})
}

type wsEditInput struct {
	Path string `json:"path" jsonschema:"file to edit" croft:"path"`
	Old  string `json:"old" jsonschema:"text to be replaced; must occur exactly once unless all"`
	New  string `json:"new" jsonschema:"text to put in its place"`
	All  bool   `json:"all,omitempty" jsonschema:"replace every occurrence"`
}

func wsEditFileTool() *Tool {
	return New(Spec{
		Name: "workspace_edit_file", Family: Files, Needs: fsOnly, Destructive: true,
		Description: "Replace text in a file that was read.",
	}, func(ctx context.Context, c *Call, in wsEditInput) (editOutput, error) {
		if err := requireArgument("path", in.Path); err != nil {
			return editOutput{}, err
		}
		return c.applyEdits(ctx, in.Path, []workspace.Edit{{Old: in.Old, New: in.New, All: in.All}}, "all")
	})
}

type wsLsInput struct {
	Path  string `json:"path,omitempty" jsonschema:"directory to list; default the workspace" croft:"path"`
	Depth int    `json:"depth,omitempty" jsonschema:"levels to list; default 1, at most 20"`
}

func wsLsTool() *Tool {
	return New(Spec{
		Name: "workspace_ls", Family: Files, Needs: fsOnly, ReadOnly: true, Idempotent: true,
		Description: "List a directory. Directories end in a slash.",
	}, func(ctx context.Context, c *Call, in wsLsInput) (listOutput, error) {
		return listDir(ctx, c, listInput{Path: in.Path, Depth: in.Depth})
	})
}

type wsPathInput struct {
	Path string `json:"path" jsonschema:"path to describe" croft:"path"`
}

type wsStatOutput struct {
	Path    string `json:"path"`
	Type    string `json:"type" jsonschema:"file, dir, symlink or other"`
	Size    int64  `json:"size"`
	Mode    string `json:"mode" jsonschema:"permission bits, octal"`
	ModTime string `json:"mtime"`
	Target  string `json:"target,omitempty" jsonschema:"target of a symlink"`
}

func wsStatTool() *Tool {
	return New(Spec{
		Name: "workspace_stat", Family: Files, Needs: fsOnly, ReadOnly: true, Idempotent: true,
		Description: "Describe a file, directory or symlink.",
	}, func(ctx context.Context, c *Call, in wsPathInput) (wsStatOutput, error) {
		if err := requireArgument("path", in.Path); err != nil {
			return wsStatOutput{}, err
		}
		i, err := c.Workspace.Stat(ctx, in.Path, &driver.StatOptions{NoFollow: true})
		if err != nil {
			return wsStatOutput{}, PathError("stat", in.Path, err)
		}
		return wsStatOutput{i.Path, string(i.Type), i.Size, fmt.Sprintf("%04o", i.Mode), i.ModTime.UTC().Format("2006-01-02T15:04:05Z"), i.Target}, nil
	})
}

type wsRmInput struct {
	Path      string `json:"path" jsonschema:"file, symlink or directory to remove" croft:"path"`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"remove a directory with its content"`
}

func wsRmTool() *Tool {
	return New(Spec{
		Name: "workspace_rm", Family: Files, Needs: fsOnly, Destructive: true,
		Description: "Remove a file, a symlink, or a directory, which must be empty unless recursive.",
	}, func(ctx context.Context, c *Call, in wsRmInput) (Message, error) {
		return deletePath(ctx, c, deleteInput(in))
	})
}

type wsMkdirInput struct {
	Path      string `json:"path" jsonschema:"directory to create" croft:"path"`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"create missing parents; an existing directory is no error"`
}

func wsMkdirTool() *Tool {
	return New(Spec{
		Name: "workspace_mkdir", Family: Files, Needs: fsOnly, Idempotent: true,
		Description: "Create a directory.",
	}, func(ctx context.Context, c *Call, in wsMkdirInput) (Message, error) {
		if err := requireArgument("path", in.Path); err != nil {
			return Message{}, err
		}
		if err := c.Workspace.Mkdir(ctx, in.Path, &driver.MkdirOptions{Parents: in.Recursive}); err != nil {
			if fault.Of(err) == fault.NotFound {
				return Message{}, Errorf(fault.NotFound, "mkdir %s: the parent directory does not exist; recursive creates it", in.Path)
			}
			return Message{}, PathError("mkdir", in.Path, err)
		}
		return Message{"created " + in.Path}, nil
	})
}

var fsOnly = []workspace.Capability{driver.CapFS}

// requireArgument returns an error for an empty argument.
func requireArgument(name, value string) error {
	if value == "" {
		return Errorf(fault.InvalidArgument, "%s is required", name)
	}
	return nil
}
