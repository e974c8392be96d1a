package snapshot_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/croft-run/croft/snapshot"
)

// Take a snapshot of a directory, see what changed since, and go back to it.
func Example() {
	ctx := context.Background()
	tmp, err := os.MkdirTemp("", "snapshot")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	dir, file := filepath.Join(tmp, "project"), filepath.Join(tmp, "project", "a.txt")
	if err := os.Mkdir(dir, 0o700); err != nil {
		log.Fatal(err)
	}
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			log.Fatal(err)
		}
	}

	store := snapshot.Open(snapshot.Dir(filepath.Join(tmp, "store")), nil)
	write("one\n")
	m, err := store.Take(ctx, snapshot.HostDir(dir, nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	write("two\n")

	before, _, err := store.Tree(ctx, m.ID)
	if err != nil {
		log.Fatal(err)
	}
	diff, err := snapshot.Diff(ctx, before, snapshot.HostDir(dir, nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range diff.Changes {
		fmt.Println(c.Kind, c.Path)
	}
	if _, err := snapshot.Restore(ctx, before, dir, nil); err != nil {
		log.Fatal(err)
	}
	text, err := os.ReadFile(file)
	fmt.Printf("%s%v\n", text, err)
	// Output:
	// modified a.txt
	// one
	// <nil>
}
