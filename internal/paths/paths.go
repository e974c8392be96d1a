// Package paths says whether a path is in a directory.
package paths

import (
	"path"
	"path/filepath"
	"strings"
)

// Inside reports whether a path of this host is a directory, or below it. Both are absolute, or both
// relative to one directory. Symlinks are not resolved.
func Inside(dir, name string) bool {
	rel, err := filepath.Rel(dir, name)
	return err == nil && filepath.IsLocal(rel)
}

// InsideName reports whether a clean slash path of a workspace is a directory, or below it. The
// root is "." or "". A name that leaves the root is inside of nothing.
func InsideName(dir, name string) bool {
	if path.IsAbs(name) || name == ".." || strings.HasPrefix(name, "../") {
		return false
	}
	return dir == "." || dir == "" || name == dir || strings.HasPrefix(name, dir+"/")
}
