package bucket

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/memblob"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/snapshot"
)

func TestBuckets(t *testing.T) {
	file, err := fileblob.OpenBucket(t.TempDir(), &fileblob.Options{NoTempDir: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*blob.Bucket{"memory": memblob.OpenBucket(nil), "file": file} {
		t.Run(name, func(t *testing.T) { exercise(t, b) })
	}
}

// exercise takes, restores, damages and collects.
func exercise(t *testing.T, b *blob.Bucket) {
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx := t.Context()
	dir, out := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte(strings.Repeat("content\n", 300_000)), 0o640); err != nil {
		t.Fatal(err)
	}
	s := snapshot.Open(New(b, "croft"), &snapshot.Options{Grace: time.Nanosecond * 2})
	m, release, err := s.Store(ctx, snapshot.HostDir(dir, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	release()
	long := snapshot.Open(New(b, "croft"), nil)
	m, err = long.Publish(ctx, *m)
	if err != nil {
		t.Fatal(err)
	}
	tree, got, err := long.Tree(ctx, m.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got.Digest != m.Digest {
		t.Errorf("the manifest has the digest %s, want %s", got.Digest, m.Digest)
	}
	if err := snapshot.Fill(ctx, tree, out, nil); err != nil {
		t.Fatal(err)
	}
	if now, err := snapshot.Digest(ctx, snapshot.HostDir(out, nil)); err != nil || now != m.Digest {
		t.Errorf("what was restored has the digest %s (%v), want %s", now, err, m.Digest)
	}
	if r, err := long.Check(ctx); err != nil || !r.OK() || r.Snapshots != 1 {
		t.Errorf("check: %+v, %v", r, err)
	}
	if err := long.Delete(ctx, m.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := long.Get(ctx, m.ID); fault.Of(err) != fault.NotFound {
		t.Errorf("a snapshot that was deleted: %v, want NotFound", err)
	}
	for range 2 {
		if _, err := s.GC(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
	}
	left, _, err := b.ListPage(ctx, blob.FirstPageToken, 100, &blob.ListOptions{Prefix: "croft/"})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range left {
		t.Errorf("gc left %s", o.Key)
	}
}
