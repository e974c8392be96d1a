package tool

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

type deleteInput struct {
	Path      string `json:"path" jsonschema:"file, symlink or directory to remove" croft:"path"`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"remove a directory with its content"`
}

func deleteTool() *Tool {
	return New(Spec{
		Name: "delete", Family: Files, Needs: []workspace.Capability{driver.CapFS}, Destructive: true,
		Description: "Remove a file, a symlink, or a directory, which must be empty unless recursive.",
	}, deletePath)
}

func deletePath(ctx context.Context, c *Call, in deleteInput) (Message, error) {
	if in.Path == "" {
		return Message{}, Errorf(fault.InvalidArgument, "path is required")
	}
	end, err := c.LockFile(ctx, in.Path)
	if err != nil {
		return Message{}, err
	}
	defer end()
	if files := c.filesBelow(ctx, in.Path); in.Recursive && len(files) > 0 {
		c.KeepBefore(ctx, files...)
	} else {
		c.KeepBefore(ctx, in.Path)
	}
	if err := c.Workspace.Remove(ctx, in.Path, &driver.RemoveOptions{Recursive: in.Recursive}); err != nil {
		return Message{}, PathError("delete", in.Path, err)
	}
	c.Unread(c.relPath(in.Path))
	return Message{fmt.Sprintf("deleted %s", in.Path)}, nil
}

// Limits of a directory that undo makes again.
const (
	maxKeptFiles = 100 // files and directories below it
	usualDirMode = 0o755
)

// filesBelow returns the files and symlinks of a directory, nil if undo could not make it again from them: another path, a
// directory that is empty, has another mode or is too large, or anything else in it.
func (c *Call) filesBelow(ctx context.Context, name string) (files []string) {
	info, err := c.Workspace.Stat(ctx, name, &driver.StatOptions{NoFollow: true})
	if err != nil || info.Type != driver.TypeDir {
		return nil
	}
	page, err := c.Workspace.List(ctx, name, &driver.ListOptions{Depth: -1, Limit: maxKeptFiles})
	if err != nil || page.Next != "" {
		return nil
	}
	size := int64(0)
	for _, e := range append(page.Entries, info) {
		inside := func(other driver.Info) bool { return strings.HasPrefix(other.Path, e.Path+"/") }
		switch e.Type {
		case driver.TypeFile, driver.TypeSymlink:
			files, size = append(files, e.Path), size+e.Size
		case driver.TypeDir:
			if e.Mode.Perm() != usualDirMode || !slices.ContainsFunc(page.Entries, inside) {
				return nil
			}
		default:
			return nil
		}
	}
	if size > maxKeptBefore {
		return nil
	}
	return files
}
