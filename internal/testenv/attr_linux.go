package testenv

import "syscall"

// dieWithParent sets the parent-death signal of a child.
func dieWithParent(sig syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: sig}
}
