package process

import (
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
)

// parseSignal understands a signal's name, with or without "SIG".
func parseSignal(name string) (syscall.Signal, error) {
	full := name
	if !strings.HasPrefix(full, "SIG") {
		full = "SIG" + full
	}
	if sig := unix.SignalNum(full); sig != 0 {
		return sig, nil
	}
	return 0, fmt.Errorf("process: signal %.40q: %w: want a name such as \"SIGINT\"", name, fault.InvalidArgument)
}

// signalName is the name that results use.
func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprintf("SIG%d", int(sig))
}
