package sqlitetx_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/croft-run/croft/internal/sqlitetx"
)

func TestBegin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	open := func() *sql.DB {
		q := url.Values{"_txlock": {"immediate"}, "_pragma": {sqlitetx.BusyTimeout(), "journal_mode(WAL)"}}
		db, err := sql.Open("sqlite", "file:"+path+"?"+q.Encode())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db
	}
	first, second := open(), open()
	held, err := sqlitetx.Begin(t.Context(), first, nil)
	if err != nil {
		t.Fatal(err)
	}
	// A context that ends is noticed long before MaxWait.
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := sqlitetx.Begin(short, second, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Begin beside another writer: %v", err)
	}
	if took := time.Since(began); took > sqlitetx.MaxWait/2 {
		t.Errorf("Begin took %v to notice that its context ended", took)
	}
	// The wait is longer than SQLite's own.
	time.AfterFunc(1200*time.Millisecond, func() { held.Rollback() })
	tx, err := sqlitetx.Begin(t.Context(), second, nil)
	if err != nil {
		t.Fatalf("Begin did not wait for the other writer: %v", err)
	}
	tx.Rollback()
}
