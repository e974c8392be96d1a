package snapshot

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestLeasesAreRoots: gc of another process does not remove the state of a workspace that is
// being read, such as by a long apply, however long that takes; and does afterwards.
func TestLeasesAreRoots(t *testing.T) {
	dir, backend := t.TempDir(), t.TempDir()
	must0(t, os.WriteFile(filepath.Join(dir, "a"), []byte("one"), 0o600))
	now := time.Now()
	store := Open(Dir(backend), &Options{Now: func() time.Time { return now }})
	a := &Adapter{Store: store, Workspace: "w", Now: func(context.Context) (View, error) { return View{Tree: HostDir(dir, nil)}, nil }}
	files, err := a.snapshotFiles(t.Context(), "", nil)
	must0(t, err)
	must0(t, os.WriteFile(filepath.Join(dir, "a"), []byte("two"), 0o600))

	age := func() { // as if an hour had passed
		now = now.Add(leaseTime)
		leases, err := filepath.Glob(filepath.Join(backend, kindLeases, "*"))
		must0(t, err)
		for _, lease := range leases {
			info, err := os.Stat(lease)
			must0(t, err)
			must0(t, os.Chtimes(lease, time.Time{}, info.ModTime().Add(-leaseTime)))
		}
	}
	for range 3 {
		if _, err := Open(Dir(backend), nil).GC(t.Context()); err != nil {
			t.Fatal(err)
		}
		r, _, err := OpenFile(t.Context(), Files(files), "a")
		if err != nil {
			t.Fatalf("after gc: %v", err)
		}
		r.Close()
		age()
		if _, err := Files(files).Root(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	age()
	res, err := Open(Dir(backend), nil).GC(t.Context())
	if err != nil || res.Removed != 1 || res.Packs != 0 {
		t.Errorf("gc without a lease: %+v, %v; want one pack removed", res, err)
	}
	if left, err := filepath.Glob(filepath.Join(backend, kindLeases, "*")); err != nil || len(left) > 0 {
		t.Errorf("leases are left: %q, %v", left, err)
	}
}
