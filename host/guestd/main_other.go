//go:build !linux

package guestd

import (
	"fmt"
	"os"
)

// Main says that there are no guests on this system. It returns the exit status
// of the program.
func Main() int {
	fmt.Fprintln(os.Stderr, "croft-guest: it runs on Linux alone")
	return 2
}
