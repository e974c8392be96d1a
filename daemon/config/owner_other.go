//go:build !unix

package config

import "io/fs"

// ours reports whether a file belongs to this user, which is not told here.
func ours(fs.FileInfo) bool { return true }
