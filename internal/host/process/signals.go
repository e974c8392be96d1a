package process

import (
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
)

// parseSignal parses the name of a signal, with or without "SIG".
func parseSignal(name string) (syscall.Signal, error) {
	full := name
	if !strings.HasPrefix(full, "SIG") {
		full = "SIG" + full
	}
	if sig := unix.SignalNum(full); sig != 0 {
		return sig, nil
	}
	var names []string
	for n := syscall.Signal(1); n < 32; n++ {
		if s := unix.SignalName(n); s != "" {
			names = append(names, s)
		}
	}
	return 0, fmt.Errorf("signal %.40q: %w: the signals are %s", name, fault.InvalidArgument, strings.Join(names, ", "))
}

// signalName returns the name of a signal for results.
func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprintf("SIG%d", int(sig))
}
