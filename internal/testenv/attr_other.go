//go:build !linux

package testenv

import "syscall"

// dieWithParent does nothing: only Linux has a parent-death signal. A child ends with its
// test's context.
func dieWithParent(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
