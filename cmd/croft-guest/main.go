// Command croft-guest runs the processes of one workspace inside its sandbox.
// Croft starts it; see package guestd.
package main

import (
	"os"

	"github.com/croft-run/croft/internal/host/guestd"
)

func main() { os.Exit(guestd.Main()) }
