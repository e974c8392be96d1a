// Package sqlitetx begins transactions on SQLite databases that several processes
// write. SQLite's own wait for another writer (PRAGMA busy_timeout) does not end
// with a context, so that wait is short here, and Begin repeats it.
package sqlitetx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// MaxWait is how long Begin waits for another writer.
	MaxWait = 30 * time.Second

	busyTimeout = 500 * time.Millisecond // so late a canceled context is noticed
)

// BusyTimeout is the pragma for the data source name of a database that Begin is
// used with.
func BusyTimeout() string { return fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()) }

// Begin is db.BeginTx with a wait of up to MaxWait for another writer, which ends with
// the context. The database must have been opened with BusyTimeout and, for
// transactions that write, with "_txlock=immediate".
func Begin(ctx context.Context, db *sql.DB, opts *sql.TxOptions) (*sql.Tx, error) {
	for deadline := time.Now().Add(MaxWait); ; {
		tx, err := db.BeginTx(ctx, opts)
		switch {
		case err == nil:
			return tx, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !isBusy(err) || time.Now().After(deadline):
			return nil, err
		}
	}
}

func isBusy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_BUSY // without the extended part
}
