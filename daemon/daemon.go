// Package daemon is the croft program as a function, for those who build one
// with providers of their own:
//
//	func main() { os.Exit(daemon.Main(new(mine.Provider))) }
//
// What the program is made of is in daemon/app, and its commands are in
// daemon/cli.
package daemon

import (
	"github.com/croft-run/croft/daemon/cli"
	"github.com/croft-run/croft/workspace/driver"
)

// Main runs the croft program with the arguments of the process and returns its
// exit status. providers are known beside Croft's own.
func Main(providers ...driver.Provider) int { return cli.Main(providers...) }
