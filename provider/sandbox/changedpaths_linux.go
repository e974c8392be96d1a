package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/provider/sandbox/internal/entry"
	"github.com/croft-run/croft/workspace/driver"
)

// The upper layer of the overlayfs contains what a workspace changed of its template:
// copies of written files, and whiteouts of removed ones.

// maxChangedPaths bounds the walk; beyond it, walking the workspace itself is as fast.
const maxChangedPaths = 100_000

// changedPaths lists the paths in the upper layer, where the workspace may differ from its
// template, or from the snapshot that it started with.
func (h *handle) changedPaths(ctx context.Context) ([]driver.ChangedPath, error) {
	if err := h.dir.Current(); err != nil {
		return nil, err
	}
	o, m := h.currentOptions(), h.dir.State()
	l, err := h.p.checkPolicy(ctx, m.Policy)
	if err != nil {
		return nil, err
	}
	isDelta := func(dir string) bool { whole, _ := h.p.layers.split(dir); return whole != "" }
	ownLayers := slices.DeleteFunc(slices.Clone(o.Layers), isDelta)
	if o.Template == "" || len(ownLayers) > 0 || len(o.Sealed) > 0 || h.p.ids.hasDiskImage(l, m.Policy) || h.hasImports() {
		return nil, fmt.Errorf("sandbox: changed paths: %w: the workspace is not a single layer over its template", fault.Unsupported)
	}
	t := &upperWalk{ctx: ctx}
	upper := filepath.Join(h.p.store.Path(h.id), layerName, "upper")
	wsdir.MakeUsable(upper)
	fd, err := unix.Open(upper, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil // no guest was needed yet
	}
	if err == nil {
		err = t.walkDir(fd, "", 0)
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox: changed paths: %w: %w", fault.Of(err), err)
	}
	return t.list, nil
}

// upperWalk walks an upper layer, which the workload may change meanwhile.
type upperWalk struct {
	ctx  context.Context
	list []driver.ChangedPath
}

// walkDir walks a directory and all below it. It closes fd.
func (t *upperWalk) walkDir(fd int, rel string, depth int) error {
	dir := os.NewFile(uintptr(fd), "upper")
	defer dir.Close()
	if err := t.ctx.Err(); err != nil {
		return err
	}
	entries, err := dir.ReadDir(-1)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(t.list)+len(entries) > maxChangedPaths || depth > entry.MaxDepth {
		return fmt.Errorf("%w: there are more than %d changes, or more than %d nested directories", fault.ResourceExhausted, maxChangedPaths, entry.MaxDepth)
	}
	for _, e := range entries {
		at := path.Join(rel, e.Name())
		if !e.IsDir() {
			t.list = append(t.list, driver.ChangedPath{Path: at, Replaced: true})
			continue
		}
		sub, err := unix.Openat(fd, e.Name(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil { // gone, replaced or not readable
			t.list = append(t.list, driver.ChangedPath{Path: at, Replaced: true})
			continue
		}
		t.list = append(t.list, driver.ChangedPath{Path: at, Replaced: isOpaque(sub)})
		if err := t.walkDir(sub, at, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// isOpaque reports whether a directory of an upper layer hides the one in the lower layer.
func isOpaque(fd int) bool {
	var value [8]byte
	n, err := unix.Fgetxattr(fd, "user.overlay.opaque", value[:])
	return err == nil && n > 0 && value[0] == 'y'
}
