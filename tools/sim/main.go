// Command sim simulates a large installation of Croft on Kubernetes, with discrete events: up
// to 1,000 opens a second and 100,000 live workspaces.
//
//	go run -C tools ./sim -o ../docs/scale
//
// writes diagrams and tables. The same seed gives the same bytes. Parameters are measured here,
// read from the code, or assumptions; params.go says which. docs/scale.md has the conclusions.
package main

import (
	"flag"
	"log"
	"os"
	"path/filepath"
)

func main() {
	dir := flag.String("o", "docs/scale", "directory for the diagrams and tables")
	seed := flag.Uint64("seed", 1, "seed of the random numbers")
	flag.Parse()
	if err := os.MkdirAll(*dir, 0o755); err != nil {
		log.Fatal(err)
	}
	for name, text := range outputs(*seed) {
		if err := os.WriteFile(filepath.Join(*dir, name), []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
