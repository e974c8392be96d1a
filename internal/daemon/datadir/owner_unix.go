//go:build unix

package datadir

import (
	"io/fs"
	"os"
	"syscall"
)

// isOwnedByUser reports whether a file belongs to the effective user, and returns the
// owner. Modes alone are not enough: root can read files that another user wrote.
func isOwnedByUser(info fs.FileInfo) (owner uint32, ok bool) {
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return 0, true
	}
	return stat.Uid, int64(stat.Uid) == int64(os.Geteuid())
}
