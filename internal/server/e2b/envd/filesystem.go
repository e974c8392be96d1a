package envd

import (
	"context"
	"fmt"
	"io/fs"
	"path"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/e2b/envd/envdpb"
	"github.com/croft-run/croft/workspace/driver"
)

// filesystemService implements filesystem.Filesystem; see also watch.go.
type filesystemService struct{ *Server }

var _ envdpb.FilesystemHandler = filesystemService{}

// located checks the user of a request and resolves its path.
func located(ctx context.Context, p string) (*sandboxCall, location, error) {
	c := callOf(ctx)
	if err := c.checkUser(ctx); err != nil {
		return c, location{}, err
	}
	l, err := c.locate(p)
	return c, l, err
}

// Stat describes a path.
func (s filesystemService) Stat(ctx context.Context, req *envdpb.StatRequest) (*envdpb.StatResponse, error) {
	c, l, err := located(ctx, req.GetPath())
	if err != nil {
		return nil, rpcError(ctx, err)
	}
	e, err := c.entryOf(ctx, l)
	if err != nil {
		return nil, rpcError(ctx, err)
	}
	return &envdpb.StatResponse{Entry: e.message()}, nil
}

// MakeDir creates a directory and its parents.
func (s filesystemService) MakeDir(ctx context.Context, req *envdpb.MakeDirRequest) (*envdpb.MakeDirResponse, error) {
	c, l, err := located(ctx, req.GetPath())
	if err == nil {
		err = c.makeDir(ctx, l)
	}
	if err != nil {
		return nil, rpcError(ctx, err)
	}
	e, err := c.entryOf(ctx, l)
	return &envdpb.MakeDirResponse{Entry: e.message()}, rpcError(ctx, err)
}

// Move renames a file or directory.
func (s filesystemService) Move(ctx context.Context, req *envdpb.MoveRequest) (*envdpb.MoveResponse, error) {
	c, from, err := located(ctx, req.GetSource())
	var to location
	if err == nil {
		to, err = c.locate(req.GetDestination())
	}
	if err == nil {
		err = c.move(ctx, from, to)
	}
	if err != nil {
		return nil, rpcError(ctx, err)
	}
	e, err := c.entryOf(ctx, to)
	return &envdpb.MoveResponse{Entry: e.message()}, rpcError(ctx, err)
}

// ListDir lists a directory.
func (s filesystemService) ListDir(ctx context.Context, req *envdpb.ListDirRequest) (*envdpb.ListDirResponse, error) {
	c, l, err := located(ctx, req.GetPath())
	if err != nil {
		return nil, rpcError(ctx, err)
	}
	const most = 1000 // levels, more than any path has
	list, err := c.list(ctx, l, int(min(max(req.GetDepth(), 1), most)))
	if err != nil {
		return nil, rpcError(ctx, err)
	}
	res := &envdpb.ListDirResponse{}
	for _, e := range list {
		res.Entries = append(res.Entries, e.message())
	}
	return res, nil
}

// Remove removes a file, or a directory with its tree.
func (s filesystemService) Remove(ctx context.Context, req *envdpb.RemoveRequest) (*envdpb.RemoveResponse, error) {
	c, l, err := located(ctx, req.GetPath())
	if err == nil && l.name == "." {
		err = fmt.Errorf("%s: %w: the home can't be removed", l.abs, fault.InvalidArgument)
	}
	if err == nil {
		err = c.remove(ctx, l)
	}
	return &envdpb.RemoveResponse{}, rpcError(ctx, err)
}

// dirSize is the size of every directory: one block, as a small one has on the file system of E2B's
// sandboxes. Croft's own sizes are those of contents, so that they are the same with every provider.
const dirSize = 4096

// message returns the entry as envd describes it: a symlink has the type and mode of what
// it leads to.
func (e entry) message() *envdpb.EntryInfo {
	m := &envdpb.EntryInfo{
		Name: path.Base(e.abs), Path: e.abs, Type: typeMessage(e.Type), Size: e.Size, Mode: uint32(e.Mode.Perm()),
		Permissions: permissions(e.Info), Owner: e.owner, Group: e.group, Metadata: e.metadata,
	}
	if m.Type == envdpb.FileType_FILE_TYPE_DIRECTORY {
		m.Size = dirSize
	}
	if !e.ModTime.IsZero() {
		m.ModifiedTime = timestamppb.New(e.ModTime)
	}
	if e.Type == driver.TypeSymlink {
		target := e.Target
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(e.abs), target)
		}
		m.SymlinkTarget, m.Type, m.Mode = &target, typeMessage(e.follow), uint32(e.followMode.Perm())
	}
	return m
}

func typeMessage(t driver.FileType) envdpb.FileType {
	switch t {
	case driver.TypeFile:
		return envdpb.FileType_FILE_TYPE_FILE
	case driver.TypeDir:
		return envdpb.FileType_FILE_TYPE_DIRECTORY
	case driver.TypeSymlink:
		return envdpb.FileType_FILE_TYPE_SYMLINK
	}
	return envdpb.FileType_FILE_TYPE_UNSPECIFIED
}

// permissions returns the text of Go's fs.FileMode, as envd does.
func permissions(info driver.Info) string {
	mode := info.Mode.Perm()
	switch info.Type {
	case driver.TypeDir:
		mode |= fs.ModeDir
	case driver.TypeSymlink:
		mode |= fs.ModeSymlink
	}
	return mode.String()
}
