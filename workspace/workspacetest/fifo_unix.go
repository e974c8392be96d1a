//go:build unix

package workspacetest

import "syscall"

func mkfifo(path string) error { return syscall.Mkfifo(path, 0o600) }
