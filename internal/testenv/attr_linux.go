package testenv

import "syscall"

// dieWithParent makes a child get a signal when this process ends, however that is.
func dieWithParent(sig syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: sig}
}
