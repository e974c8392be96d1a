package tool

import (
	"context"
	"io/fs"
	"slices"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Records says what is recorded of a workspace.
type Records struct {
	Edits  string // directory of this host with the record of edits (package internal/history); "" records none
	Opened bool   // a snapshot is taken before the first call that may change something
}

// A KeptFile is a file or symlink as it was before a call changed it.
type KeptFile struct {
	Path    string
	Exists  bool
	Content []byte      // of a symlink its target
	Mode    fs.FileMode // of a symlink fs.ModeSymlink
	Err     error       // why the content is unknown, such as that it is a directory; nil if it is known
}

// keptFiles are the files that a call changes, as they were before.
type keptFiles struct {
	mu   sync.Mutex
	list []KeptFile // guarded by mu
}

// maxKeptBefore is the size of the largest file that is kept.
const maxKeptBefore = 4 << 20

// KeepBefore keeps the state of files that the call is about to change, for undo.
func (c *Call) KeepBefore(ctx context.Context, names ...string) {
	for _, name := range names {
		info, err := c.Workspace.Stat(ctx, name, &driver.StatOptions{NoFollow: true})
		k := KeptFile{Path: c.relPath(name), Exists: err == nil, Mode: info.Mode}
		switch {
		case fault.Of(err) == fault.NotFound:
		case fault.Of(err) == fault.SandboxViolation || fault.Of(err) == fault.InvalidArgument:
			continue // the call can't change what can't be named
		case err != nil:
			k.Err = err
		case info.Type == driver.TypeSymlink:
			k.Path, k.Content, k.Mode = info.Path, []byte(info.Target), fs.ModeSymlink
		case info.Type != driver.TypeFile:
			k.Err = Errorf(fault.Unsupported, "it was no file and no symlink")
		default:
			k.Path = info.Path
			k.Content, k.Err = c.Workspace.ReadFileMax(ctx, name, maxKeptBefore)
		}
		c.keepBefore(k)
	}
}

// KeepStates is KeepBefore for a caller that knows the states.
func (c *Call) KeepStates(list ...KeptFile) {
	for _, k := range list {
		c.keepBefore(k)
	}
}

// keepBefore keeps a file, unless an earlier state of it is kept already.
func (c *Call) keepBefore(k KeptFile) {
	if k.Err == nil && len(k.Content) > maxKeptBefore {
		k.Content, k.Err = nil, Errorf(fault.ResourceExhausted, "it had %d bytes; at most %d are kept", len(k.Content), maxKeptBefore)
	}
	c.kept.mu.Lock()
	defer c.kept.mu.Unlock()
	if !slices.ContainsFunc(c.kept.list, func(have KeptFile) bool { return have.Path == k.Path }) {
		c.kept.list = append(c.kept.list, k)
	}
}

// KeptBefore returns the files that the call has changed or meant to, as they were before.
func (c *Call) KeptBefore() []KeptFile {
	c.kept.mu.Lock()
	defer c.kept.mu.Unlock()
	return slices.Clone(c.kept.list)
}
