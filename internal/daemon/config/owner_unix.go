//go:build unix

package config

import (
	"io/fs"
	"os"
	"syscall"
)

// isTrustedOwner reports whether a file belongs to this user or to root.
func isTrustedOwner(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || st.Uid == 0 || int(st.Uid) == os.Geteuid()
}
