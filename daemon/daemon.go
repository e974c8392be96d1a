// Package daemon is the croft program as a function, for programs with additional
// providers:
//
//	func main() { os.Exit(daemon.Main(new(mine.Provider))) }
//
// Package internal/daemon/app assembles the program; package internal/daemon/cli has its commands.
package daemon

import (
	"github.com/croft-run/croft/internal/daemon/cli"
	"github.com/croft-run/croft/workspace/driver"
)

// Main runs the croft program with the arguments of the process and returns its
// exit status. providers are added to Croft's own. One with a method
// SetSnapshots(*snapshot.Store) is given the store of snapshots of the configuration.
func Main(providers ...driver.Provider) int { return cli.Main(providers...) }
