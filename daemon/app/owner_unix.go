//go:build unix

package app

import (
	"io/fs"
	"os"
	"syscall"
)

// isOwnedByUser reports whether a file belongs to the user that the program runs as, and
// to whom it does otherwise. To root everything is open, so that a mode says
// nothing of who may have written what it reads.
func isOwnedByUser(info fs.FileInfo) (owner uint32, ok bool) {
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return 0, true
	}
	return stat.Uid, int64(stat.Uid) == int64(os.Geteuid())
}
