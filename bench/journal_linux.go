package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// journals reports whether a directory's file system is none of ext4, or one that has
// a journal.
func journals(dir string) (bool, error) {
	var fs unix.Statfs_t
	var st unix.Stat_t
	if err := errors.Join(unix.Statfs(dir, &fs), unix.Stat(dir, &st)); err != nil {
		return false, err
	}
	if fs.Type != unix.EXT4_SUPER_MAGIC {
		return true, nil
	}
	device, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		return false, err
	}
	found, err := filepath.Glob("/proc/fs/jbd2/" + filepath.Base(device) + "-*")
	return len(found) > 0, err
}
