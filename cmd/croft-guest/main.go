// Command croft-guest runs the processes of one workspace inside its sandbox.
// Croft starts it; see package guest.
package main

import (
	"os"

	"github.com/croft-run/croft/guest"
)

func main() { os.Exit(guest.Main()) }
