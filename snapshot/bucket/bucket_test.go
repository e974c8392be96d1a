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
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/snapshot"
)

func TestBuckets(t *testing.T) {
	file, err := fileblob.OpenBucket(t.TempDir(), &fileblob.Options{NoTempDir: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*blob.Bucket{"memory": memblob.OpenBucket(nil), "file": file} {
		t.Run(name, func(t *testing.T) { exercise(t, b, 2*time.Millisecond) })
	}
}

// exercise takes, restores, damages and collects. tick is longer than a step of
// the clock of the bucket.
func exercise(t *testing.T, b *blob.Bucket, tick time.Duration) {
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
		time.Sleep(tick)
	}
	left, _, err := b.ListPage(ctx, blob.FirstPageToken, 100, &blob.ListOptions{Prefix: "croft/"})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range left {
		t.Errorf("gc left %s", o.Key)
	}
}

// TestS3 keeps a store on a server that speaks S3, by the URL that users write.
func TestS3(t *testing.T) {
	address := testenv.NeedsS3(t)
	b, err := Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("store", func(t *testing.T) { exercise(t, b, 1100*time.Millisecond) })

	dir := t.TempDir()
	for name, text := range map[string]string{"a.txt": "text\n", "big": strings.Repeat("0123456789abcdef", 600_000), ".env": "TOKEN=1"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	local := snapshot.Open(snapshot.Dir(t.TempDir()), nil)
	m, err := local.Take(t.Context(), snapshot.HostDir(dir, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	there, err := Open(t.Context(), address+"&prefix=team/")
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	far := snapshot.Open(New(there, ""), nil)
	copied, err := local.Copy(t.Context(), m.ID, far, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(copied.LeftOut) != 1 || copied.LeftOut[0] != ".env" {
		t.Errorf("left out %q, want .env", copied.LeftOut)
	}
	again := snapshot.Open(New(there, ""), nil)
	tree, _, err := again.Tree(t.Context(), copied.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := snapshot.Digest(t.Context(), tree); err != nil || got != copied.Digest {
		t.Errorf("what is in the bucket has the digest %s, %v, want %s", got, err, copied.Digest)
	}
	report, err := again.Check(t.Context())
	if err != nil || !report.OK() {
		t.Errorf("fsck: %v, %+v", err, report)
	}
	if err := again.Delete(t.Context(), copied.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := far.Tree(t.Context(), copied.ID); fault.Of(err) != fault.NotFound {
		t.Errorf("after it was deleted: %v, want NotFound", err)
	}
}
