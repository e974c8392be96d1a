package testenv

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver
)

// A teller is a test that only tells whether it was skipped, and why.
type teller struct {
	*testing.T
	reason string
}

type skipped struct{}

func (t *teller) Skip(args ...any) { t.Skipf("%s", args...) }

func (t *teller) Skipf(format string, args ...any) {
	t.reason = strings.TrimSpace(fmt.Sprintf(format, args...))
	panic(skipped{})
}

func TestMissingProgramIsNamed(t *testing.T) {
	tell := &teller{T: t}
	func() {
		defer func() {
			if p := recover(); p != any(skipped{}) {
				t.Errorf("NeedsProgram ends with %v, want a skip", p)
			}
		}()
		NeedsProgram(tell, "no-such-program-of-croft")
	}()
	if !strings.Contains(tell.reason, "no-such-program-of-croft") {
		t.Errorf("the reason is %q and does not name the program", tell.reason)
	}
	if path := NeedsProgram(t, "sh"); !filepath.IsAbs(path) {
		t.Errorf("sh is at %q", path)
	}
}

func TestTmpfsFillsUp(t *testing.T) {
	dir := NeedsTmpfs(t, 1<<20)
	err := os.WriteFile(filepath.Join(dir, "f"), bytes.Repeat([]byte("x"), 2<<20), 0o600)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("two megabytes into one: %v, want %v", err, syscall.ENOSPC)
	}
}

func TestPostgresHasDatabasesApart(t *testing.T) {
	p := NeedsPostgres(t)
	open := func() *sql.DB {
		db, err := sql.Open("pgx", p.Database(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db
	}
	first, second := open(), open()
	if _, err := first.ExecContext(t.Context(), "create table t (n int)"); err != nil {
		t.Fatal(err)
	}
	if _, err := second.ExecContext(t.Context(), "select * from t"); err == nil {
		t.Error("the second database has the table of the first")
	}
}
