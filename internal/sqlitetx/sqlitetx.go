// Package sqlitetx begins SQLite transactions whose wait for other writers ends
// with the context.
//
// SQLite's own wait (PRAGMA busy_timeout) does not end with a context, so it is
// short here, and Begin repeats it.
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

	busyTimeout = 500 * time.Millisecond // bounds the delay after which a canceled context is noticed
)

// BusyTimeout is the pragma that Begin needs in the data source name of a database.
func BusyTimeout() string { return fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()) }

// Begin is db.BeginTx with a wait of up to MaxWait for another writer, which ends
// with the context. The database must be opened with BusyTimeout and, for
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
