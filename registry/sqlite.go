package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/flockfile"
	"github.com/croft-run/croft/internal/sqlitetx"
)

// sqliteStore keeps records in one SQLite file, in WAL mode with every commit
// flushed to disk. Beside it lie two files whose locks are Lock's.
type sqliteStore struct {
	sqlStore
	path string
}

const sqliteConns = 8

func openSQLite(ctx context.Context, path string) (Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("registry: open store %s: %w: %w", path, fault.InvalidArgument, err)
	}
	if err := makeFile(path); err != nil {
		return nil, fmt.Errorf("registry: open store: %w: %w", codeOf(err), err)
	}
	db, err := sql.Open("sqlite", sqliteDSN(path))
	if err != nil {
		return nil, fmt.Errorf("registry: open store %s: %w: %w", path, fault.Unavailable, err)
	}
	db.SetMaxOpenConns(sqliteConns)
	db.SetMaxIdleConns(sqliteConns)
	s := &sqliteStore{path: path, sqlStore: sqlStore{db: db, dialect: dialect{
		name:      goose.DialectSQLite3,
		now:       func(context.Context, querier) (int64, error) { return time.Now().UnixNano(), nil },
		duplicate: sqliteDuplicate,
		begin:     sqlitetx.Begin,
		damaged:   isDamaged,
	}}}
	s.full, s.release = s.isFull, s.diskReserve().Release
	if err := s.prepareSchema(ctx); err != nil {
		db.Close()
		return nil, fmt.Errorf("%w (the store is %s)", err, path)
	}
	return s, nil
}

// makeFile makes the file where it is missing, and its name durable. Records
// hold what people wrote into specs, so it is for its owner alone; what SQLite
// makes beside it takes over the mode.
func makeFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return restrictMode(path)
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), atomicfile.SyncDir(filepath.Dir(path)))
}

// restrictMode takes the rights of others from a file that is there, and from what lies
// beside it, unless they belong to someone else, who has to know.
func restrictMode(path string) error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			err = os.Chmod(path+suffix, 0o600)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

// codeOf classifies an error of the host, Unavailable where it says nothing.
func codeOf(err error) fault.Code {
	if code := fault.Of(err); code != fault.Internal {
		return code
	}
	return fault.Unavailable
}

func sqliteDSN(path string) string {
	q := url.Values{
		"_txlock": {"immediate"}, // a transaction that reads first can't be refused when it writes
		"_pragma": {
			sqlitetx.BusyTimeout(), "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)",
		},
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

// prepareSchema brings the schema up to date, one process at a time: switching a new
// file to WAL does not wait for others as later writes do.
func (s *sqliteStore) prepareSchema(ctx context.Context) error {
	unlock, err := s.lockFile(ctx, ".gate", true)
	if err != nil {
		return err
	}
	defer unlock()
	return s.migrateWithReserve(ctx)
}

// Lock takes the lock file, shared or exclusive. Whoever comes passes the gate
// first, and who wants the exclusive lock keeps the gate while waiting: those
// who come later queue behind.
func (s *sqliteStore) Lock(ctx context.Context, exclusive bool) (func(), error) {
	unlock, err := s.lockFile(ctx, ".gate", exclusive)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return s.lockFile(ctx, ".lock", exclusive)
}

func (s *sqliteStore) lockFile(ctx context.Context, suffix string, exclusive bool) (unlock func(), err error) {
	take := flockfile.RLock
	if exclusive {
		take = flockfile.Lock
	}
	l, err := take(ctx, s.path+suffix)
	if err != nil {
		return nil, fmt.Errorf("registry: lock the store: %w: %w", codeOf(err), err)
	}
	return func() { _ = l.Close() }, nil // closing the file releases the lock in any case
}

func sqliteDuplicate(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) &&
		(e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
}
