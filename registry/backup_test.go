package registry

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func backUpAndRestore(t *testing.T, from, to string) {
	t.Helper()
	store, err := OpenStore(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	now := time.Now().UTC()
	id := driver.NewID()
	rec, err := store.Insert(t.Context(), Record{
		ID: id, Name: "web", Tenant: "red", Kind: "memory", State: Intended, Spec: workspace.Spec{ID: id, Kind: "memory"}, CreatedAt: now, UpdatedAt: now, LastUsed: now,
		Attributes: Attributes{EndAt: now.Add(time.Hour), Annotations: map[string]string{"a": "é'\n"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	held, err := store.Hold(t.Context(), id, Holder{ID: driver.NewID(), Host: "h", PID: 1}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "copy.db")
	if err := Backup(t.Context(), store, file); err != nil {
		t.Fatal(err)
	}
	if err := Restore(t.Context(), file, to); err != nil {
		t.Fatal(err)
	}
	restored, err := OpenStore(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	defer restored.Close()
	got, err := restored.Get(t.Context(), rec.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(held, got); diff != "" {
		t.Errorf("the record (-want +got):\n%s", diff)
	}
	if holders, err := restored.Holders(t.Context(), rec.ID); err != nil || len(holders) > 0 {
		t.Errorf("holders %v, %v; want none: they are processes", holders, err)
	}
	if err := Restore(t.Context(), file, to); fault.Of(err) != fault.AlreadyExists {
		t.Errorf("a restore into a store with workspaces: %v, want AlreadyExists", err)
	}
}

func TestBackupOfSQLite(t *testing.T) {
	dir := t.TempDir()
	backUpAndRestore(t, "sqlite:"+filepath.Join(dir, "a.db"), "sqlite:"+filepath.Join(dir, "b.db"))
}

func TestBackupOfPostgres(t *testing.T) {
	pg := testenv.NeedsPostgres(t)
	backUpAndRestore(t, pg.Database(t), pg.Database(t))
}
