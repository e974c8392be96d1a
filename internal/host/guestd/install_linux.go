package guestd

import (
	"fmt"
	"io"
	"os"

	"github.com/croft-run/croft/internal/atomicfile"
)

// installMain prepares the workload's container of a pod, from an init container that has
// another user: it copies this program to a path, and creates the guest's directory, which the
// user of guest and workload can't list or change the mode of.
func installMain(program, dir string) int {
	if err := install(program, dir); err != nil {
		fmt.Fprintln(os.Stderr, "croft-guest: install:", err)
		return 1
	}
	return 0
}

func install(program, dir string) error {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer f.Close()
	// Any user runs it, and none but its owner reads it. The kernel then makes its processes
	// undumpable when they start: "croft-guest connect" is started while the workload runs, by the
	// same user, and without the workload's seccomp filter.
	err = atomicfile.WriteTo(program, atomicfile.Options{Mode: 0o511}, func(w io.Writer) error {
		_, err := io.Copy(w, f)
		return err
	})
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.Chmod(dir, 0o733|os.ModeSticky)
}
