package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/wsdir"
)

const (
	freezeCheckInterval = time.Second
	freezeErrorInterval = time.Minute // after an error, which is logged
)

// A FreezeWatch thaws a workspace that another process froze, such as for a snapshot, and
// left frozen when it died. A process that connects thaws the workspace first; the watch
// is for processes that are connected already.
type FreezeWatch struct {
	Dir wsdir.Dir
	Log *slog.Logger

	// Frozen reports whether the workspace may be frozen. It is called each second, so it
	// must be cheap.
	Frozen func() bool

	// Thaw is called with guest.lock while Frozen is true. It leaves a paused workspace,
	// and the freeze of a process that lives, as they are.
	Thaw func(ctx context.Context) error
}

// Run watches until the connection or ctx ends.
func (w *FreezeWatch) Run(ctx context.Context, c Connection) {
	wait := freezeCheckInterval
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.Gone():
			return
		case <-time.After(wait):
		}
		wait = freezeCheckInterval
		if !w.Frozen() {
			continue
		}
		if err := w.tryThaw(ctx); err != nil {
			w.Log.Warn(w.Dir.Kind+": a workspace stays frozen", "workspace", filepath.Base(w.Dir.Path), "error", err)
			wait = freezeErrorInterval
		}
	}
}

// tryThaw calls Thaw, unless another process has guest.lock.
func (w *FreezeWatch) tryThaw(ctx context.Context) error {
	lock := flock.New(filepath.Join(w.Dir.Path, lockName), flock.SetFlag(os.O_RDWR))
	locked, err := lock.TryLock()
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	switch {
	case errors.Is(err, fs.ErrNotExist): // the workspace was removed
		return nil
	case err != nil:
		return fmt.Errorf("lock the guest: %w: %w", fault.Of(err), err)
	case !locked:
		return nil
	}
	return w.Thaw(ctx)
}
