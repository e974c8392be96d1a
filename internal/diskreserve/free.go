package diskreserve

import "syscall"

// Free returns the free bytes of the file system of a directory, for this user.
func Free(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil // the types differ between systems
}
