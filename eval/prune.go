package eval

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/diskreserve"
)

// Artifacts are on the host's disk, where no limit applies to an agent. After a session
// the largest files beyond these bounds are removed, so that a full disk does not stop
// later sessions or the results.
const (
	maxArtifacts        = 1 << 30  // bytes of the artifacts of a session
	lowDiskBytes        = 64 << 20 // free bytes below which a disk counts as full
	maxArtifactsLowDisk = 1 << 20  // maxArtifacts on a full disk
)

// boundedLogs have their own bounds and are kept.
var boundedLogs = []string{"stdout.log", "stderr.log", "session.stream.jsonl"}

// pruneArtifacts removes files from the artifacts of a session, and returns a message
// about them, "" if none was removed.
func pruneArtifacts(dir string) (removed string, err error) {
	most, why := int64(maxArtifacts), "they took more than is kept"
	if free, err := diskreserve.Free(dir); err == nil && free < lowDiskBytes {
		most, why = maxArtifactsLowDisk, "the disk is full"
	}
	files, room, err := removeLargest(dir, most)
	if files > 0 {
		removed = fmt.Sprintf("%d files of its artifacts were removed, with %d MiB: %s", files, room>>20, why)
	}
	return removed, err
}

// removeLargest removes the largest files of a directory until the rest is at most max
// bytes.
func removeLargest(dir string, most int64) (files int, room int64, err error) {
	type file struct {
		path string
		size int64
	}
	var all []file
	total := int64(0)
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // an entry without stat stays
		}
		info, err := e.Info()
		if err != nil {
			return nil
		}
		size := info.Size()
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			size = st.Blocks * 512
		}
		if total += size; filepath.Dir(path) != dir || !slices.Contains(boundedLogs, e.Name()) {
			all = append(all, file{path, size})
		}
		return nil
	})
	if err != nil || total <= most {
		return 0, 0, err
	}
	slices.SortFunc(all, func(a, b file) int { return int(min(1, max(-1, b.size-a.size))) })
	for _, f := range all {
		if total <= most {
			break
		}
		if err := os.Remove(f.path); err != nil {
			return files, room, fmt.Errorf("eval: remove artifacts: %w: %w", fault.Of(err), err)
		}
		files, room, total = files+1, room+f.size, total-f.size
	}
	return files, room, nil
}
