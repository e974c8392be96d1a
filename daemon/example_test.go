package daemon_test

import (
	"os"

	"github.com/croft-run/croft/daemon"
	"github.com/croft-run/croft/provider/memory"
)

// The croft program with a provider of one's own beside Croft's. One of a kind that Croft has says in
// its features that it replaces that one.
func Example() {
	os.Exit(daemon.Main(new(memory.Provider)))
}
