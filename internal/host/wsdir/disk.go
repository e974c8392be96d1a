package wsdir

import (
	"context"
	"io/fs"
	"path/filepath"
	"sync"
	"time"
)

// diskAge is how old the measured disk space of a workspace may be: it takes a walk over all its
// files.
const diskAge = 30 * time.Second

// maxDiskEntries bounds the files of that walk. Of a workspace with more, disk space is not
// measured.
const maxDiskEntries = 200_000

// DiskUse measures the disk space of a workspace in the background: metrics of many workspaces
// must not wait for walks over all their files. The zero value is ready for use.
type DiskUse struct {
	walks sync.WaitGroup

	mu      sync.Mutex
	at      time.Time          // guarded by mu; of the last measurement
	bytes   *int64             // guarded by mu; nil is not known
	cancel  context.CancelFunc // guarded by mu; of the walk that is under way, else nil
	stopped bool               // guarded by mu
}

// Bytes returns the disk space of a workspace's directory, which has its files, its layer and its
// logs, as it was last measured, and measures it again if that is long ago. It returns nil while
// nothing is known.
func (u *DiskUse) Bytes(ctx context.Context, dir string) *int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.stopped || u.cancel != nil || !u.at.IsZero() && time.Since(u.at) < diskAge {
		return u.bytes
	}
	ctx, u.cancel = context.WithCancel(context.WithoutCancel(ctx))
	u.walks.Go(func() {
		bytes, ok := diskSpace(ctx, dir)
		u.mu.Lock()
		defer u.mu.Unlock()
		u.cancel()
		u.cancel, u.at = nil, time.Now()
		if u.bytes = nil; ok {
			u.bytes = &bytes
		}
	})
	return u.bytes
}

// Stop ends the walk that is under way, and begins no other.
func (u *DiskUse) Stop() {
	u.mu.Lock()
	u.stopped = true
	if u.cancel != nil {
		u.cancel()
	}
	u.mu.Unlock()
	u.walks.Wait()
}

// diskSpace sums up the blocks of a tree; ok is false if there are too many files.
func diskSpace(ctx context.Context, dir string) (sum int64, ok bool) {
	entries := 0
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if entries++; entries > maxDiskEntries || ctx.Err() != nil {
			return fs.SkipAll
		}
		if err != nil {
			return nil // removed meanwhile, or not readable
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // removed meanwhile
		}
		sum += allocated(info)
		return nil
	})
	return sum, err == nil && entries <= maxDiskEntries && ctx.Err() == nil
}
