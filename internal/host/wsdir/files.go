package wsdir

import (
	"context"
	"errors"

	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/workspace/driver"
)

// FS returns the files module. Each call first checks that the handle is current, and acts on the
// present state of the workspace. What only some providers have is theirs to add.
func (h *Handle) FS() *driver.FS {
	return driver.ForwardFS(h.chooseFS, "Protect", "ChangedPaths", "GitDirs")
}

// chooseFS makes a call on the current files module. If the handle was bound to a new root between the
// lookup and the call, the old root answers ErrClosed before it changes anything, and chooseFS
// repeats the call on the new root.
func (h *Handle) chooseFS(ctx context.Context, call func(*driver.FS) error) error {
	for before := (*driver.FS)(nil); ; {
		fs, err := h.activeFS(ctx)
		if err != nil {
			return err
		}
		if err = call(fs); err == nil || fs == before || !errors.Is(err, files.ErrClosed) {
			return err
		}
		before = fs
	}
}
