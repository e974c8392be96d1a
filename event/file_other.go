//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package event

const openFlags = 0
