package bucket_test

import (
	"context"
	"fmt"
	"log"

	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/snapshot/bucket"
)

// Snapshots in a bucket, here of the memory: s3://NAME?region=REGION is one of Amazon, or of another server.
func Example() {
	ctx := context.Background()
	b, err := bucket.Open(ctx, "mem://")
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	store := snapshot.Open(bucket.New(b, "croft"), nil)
	list, err := store.List(ctx)
	fmt.Println(len(list), err)
	// Output: 0 <nil>
}
