package bucket

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/memblob"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
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
	if err := snapshot.Extract(ctx, tree, out, nil); err != nil {
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
	for i := range 2 {
		if _, err := s.GC(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(tick)
		if due, err := long.RemovalDue(ctx); err != nil || due {
			t.Errorf("removal is due before a day has passed: %v, %v", due, err)
		}
		if due, err := s.RemovalDue(ctx); err != nil || due != (i == 0) {
			t.Errorf("after gc %d removal is due: %v, %v", i+1, due, err)
		}
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

// counting counts the manifests that are read.
type counting struct {
	snapshot.Backend
	reads int
}

func (c *counting) ReadRange(ctx context.Context, name string, off, n int64) ([]byte, error) {
	if strings.HasPrefix(name, "snapshots/") {
		c.reads++
	}
	return c.Backend.ReadRange(ctx, name, off, n)
}

// TestHostsShareABucket whose clocks differ: a list is in the order in which the snapshots were
// taken, and reads each manifest once.
func TestHostsShareABucket(t *testing.T) {
	b := memblob.OpenBucket(nil)
	defer b.Close()
	ahead := snapshot.Open(New(b, ""), &snapshot.Options{CacheDir: t.TempDir(), Now: func() time.Time { return time.Now().Add(time.Hour) }})
	backend := &counting{Backend: New(b, "")}
	behind := snapshot.Open(backend, &snapshot.Options{CacheDir: t.TempDir()})
	dir := t.TempDir()
	var want []string
	for _, s := range []*snapshot.Store{behind, ahead, behind, ahead, behind} {
		m, err := s.Take(t.Context(), snapshot.HostDir(dir, nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		want = append([]string{m.ID}, want...)
	}
	for range 3 {
		backend.reads = 0
		list, err := behind.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range list {
			got = append(got, m.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the list is %v, want %v", got, want)
		}
	}
	if backend.reads != 0 {
		t.Errorf("the third list read %d manifests again", backend.reads)
	}
	// What another host changes is seen.
	if err := ahead.Delete(t.Context(), want[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := behind.Get(t.Context(), want[0]); fault.Of(err) != fault.NotFound {
		t.Errorf("a snapshot that another host deleted: %v, want NotFound", err)
	}
}

// TestLayersAreOfOneNode: a snapshot over directories of a host, or of one in place, is of its node.
func TestLayersAreOfOneNode(t *testing.T) {
	b := memblob.OpenBucket(nil)
	defer b.Close()
	base, upper := t.TempDir(), t.TempDir()
	open := func(node string) *snapshot.Store { return snapshot.Open(New(b, ""), &snapshot.Options{Node: node}) }
	m, err := open("a").Take(t.Context(), snapshot.HostDir(upper, nil), &snapshot.TakeOptions{Base: snapshot.DirsBase([]string{base})})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := open("a").Whole(t.Context(), m.ID); err != nil {
		t.Errorf("at its node: %v", err)
	}
	_, _, tree := open("b").Tree(t.Context(), m.ID)
	_, _, whole := open("b").Whole(t.Context(), m.ID)
	_, copied := open("b").Copy(t.Context(), m.ID, snapshot.Open(snapshot.Dir(t.TempDir()), nil), nil)
	for what, err := range map[string]error{"tree": tree, "whole": whole, "copy": copied} {
		if fault.Of(err) != fault.Unavailable || !strings.Contains(err.Error(), "node a") {
			t.Errorf("%s at another node: %v; want Unavailable that names node a", what, err)
		}
	}
	if list, err := open("b").List(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("another node lists %d, %v", len(list), err)
	}

	adapter := func(node string) *driver.Snapshots {
		return (&snapshot.Adapter{Store: open(node), Workspace: driver.NewID(), Dir: upper, Now: func(context.Context) (snapshot.View, error) {
			return snapshot.View{Tree: snapshot.HostDir(upper, nil)}, nil
		}}).Module()
	}
	if _, err := adapter("a").Snapshot(t.Context(), &driver.SnapshotOptions{}); err != nil {
		t.Fatal(err)
	}
	for node, want := range map[string]int{"a": 1, "b": 0} {
		if list, err := adapter(node).List(t.Context(), &driver.ListSnapshotsOptions{}); err != nil || len(list) != want {
			t.Errorf("the directory at node %s has %d snapshots, %v; want %d", node, len(list), err, want)
		}
	}
}
