// Command croft opens, stores and serves workspaces for agents. See croft help.
package main

import (
	"os"

	"github.com/croft-run/croft/daemon"
)

func main() { os.Exit(daemon.Main()) }
