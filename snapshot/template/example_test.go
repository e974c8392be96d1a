package template_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/snapshot/template"
)

// A template of a directory, from which workspaces start.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	project := filepath.Join(dir, "project")
	if err := os.MkdirAll(project, 0o700); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(project, "main.py"), []byte("print(1)\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	catalog := &template.Catalog{Store: snapshot.Open(snapshot.Dir(filepath.Join(dir, "store")), nil), Roots: []string{dir}, Temp: dir}
	t, err := catalog.Create(ctx, "python", template.Source{Dir: project})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.Name, t.Files)
	// Output: python 1
}
