//go:build !linux

package testenv

import "syscall"

// dieWithParent can't be had here: a child ends with its test's context alone.
func dieWithParent(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
