// Command scratch-croft is croft with one more provider.
package main

import (
	"os"
	"path/filepath"

	"github.com/croft-run/croft/daemon"
	"github.com/croft-run/croft/examples/scratch"
)

func main() {
	root := os.Getenv("SCRATCH_ROOT")
	if root == "" {
		root = filepath.Join(os.TempDir(), "scratch-croft")
	}
	os.Exit(daemon.Main(&scratch.Provider{Root: root}))
}
