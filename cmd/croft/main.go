// Croft opens workspaces for agents, keeps them, and serves them. See croft help.
package main

import (
	"os"

	"github.com/croft-run/croft/daemon"
)

func main() { os.Exit(daemon.Main()) }
