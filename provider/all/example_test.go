package all_test

import (
	"fmt"
	"log"
	"os"

	"github.com/croft-run/croft/provider/all"
	"github.com/croft-run/croft/workspace"
)

// All of Croft's providers over one data directory.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	providers, err := all.Providers(all.Config{Data: dir, Snapshots: all.Snapshots(all.Config{Data: dir})})
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range providers {
		defer p.Close()
	}
	mux := workspace.NewMux(providers...)
	_, err = mux.Provider("memory")
	fmt.Println(err)
	isolates, known := all.Isolates("local")
	fmt.Println(isolates, known)
	// Output:
	// <nil>
	// false true
}
