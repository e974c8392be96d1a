//go:build !linux

package guestd

import (
	"fmt"
	"os"
)

// Main reports that croft-guest needs Linux. It returns the exit status.
func Main() int {
	fmt.Fprintln(os.Stderr, "croft-guest: this program runs on Linux only")
	return 2
}
