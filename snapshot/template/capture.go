package template

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// causeCapture is the cause of the snapshot of a captured directory.
const causeCapture = "template"

// captureAge is the age from which a capture without a workspace may be deleted. A
// younger one may be that of a workspace which is being opened.
const captureAge = time.Hour

// keptCaptures is how many earlier captures of a directory are kept: a workspace of the
// next one needs only what has changed since.
const keptCaptures = 8

// Capture takes a snapshot of a directory of this host, from which a workspace
// starts. If the directory has not changed since the last capture, it returns the
// same snapshot, and reads no file. Of older captures of the directory that no
// workspace needs, only the newest are kept. Credential files are left out unless credentials is
// set, and so is what this user may not read; the manifest lists both.
func (c *Catalog) Capture(ctx context.Context, dir string, credentials bool) (*snapshot.Manifest, error) {
	if err := auth.RequireOperator(ctx, "a directory of the server's host"); err != nil {
		return nil, err
	}
	tree, err := c.Dir(dir)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("template: %q: %w: it is not a directory", dir, fault.InvalidArgument)
	}
	source := "dir:" + dir
	m, release, err := c.Store.Store(ctx, tree, &snapshot.TakeOptions{
		Info:          driver.SnapshotInfo{Labels: map[string]string{snapshot.CauseLabel: causeCapture, sourceLabel: source}},
		NoCredentials: !credentials, SkipDenied: true, Cache: fmt.Sprintf("template-3:%t:%s", credentials, dir),
	})
	if err != nil {
		return nil, err
	}
	defer release()
	all, err := c.Store.List(ctx)
	if err != nil && fault.CauseOf(err) != fault.CauseCorrupt {
		return nil, err
	}
	var found *snapshot.Manifest
	earlier := 0
	for _, old := range all { // newest first
		switch {
		case old.Labels[snapshot.CauseLabel] != causeCapture || old.Labels[sourceLabel] != source:
		case old.Root == m.Root && len(old.LeftOut) == len(m.LeftOut) && slices.Equal(old.Missing, m.Missing):
			found = old
		case earlier < keptCaptures:
			earlier++
		case time.Since(old.Created) > captureAge:
			_ = c.Store.Delete(ctx, old.ID) // WrongState if a workspace needs it
		}
	}
	if found != nil {
		return found, nil
	}
	return c.Store.Publish(ctx, *m)
}
