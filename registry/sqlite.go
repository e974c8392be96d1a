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

// sqliteStore stores records in one SQLite file, in WAL mode with an fsync per
// commit. Lock uses the flocks of two files beside it.
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
		setLastUses: `UPDATE workspaces SET last_used = used.value FROM json_each(?) AS used
			WHERE workspaces.id = used.key AND workspaces.last_used < used.value`,
	}}}
	s.full, s.release = s.isFull, s.diskReserve().Release
	if err := s.prepareSchema(ctx); err != nil {
		db.Close()
		return nil, fmt.Errorf("%w (the store is %s)", err, path)
	}
	return s, nil
}

// makeFile creates the file if it is missing, and fsyncs its directory. Records
// hold user input, so only the owner may read the file; SQLite gives its own files
// the same mode.
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

// restrictMode removes group and other permissions from an existing database and
// SQLite's files beside it. Files of another user are left as they are.
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

// codeOf classifies an error of the host; Unavailable by default.
func codeOf(err error) fault.Code {
	if code := fault.Of(err); code != fault.Internal {
		return code
	}
	return fault.Unavailable
}

func sqliteDSN(path string) string {
	q := url.Values{
		"_txlock": {"immediate"}, // avoids SQLITE_BUSY when a reading transaction first writes
		"_pragma": {
			sqlitetx.BusyTimeout(), "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)",
		},
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

// prepareSchema migrates the schema, one process at a time: switching a new file to
// WAL does not wait for other processes as later writes do.
func (s *sqliteStore) prepareSchema(ctx context.Context) error {
	unlock, err := s.lockFile(ctx, turnstileSuffix, true)
	if err != nil {
		return err
	}
	defer unlock()
	return s.migrateWithReserve(ctx)
}

// Suffixes of the files beside the database that are flocked.
const (
	lockSuffix      = ".lock"      // the lock of Lock
	turnstileSuffix = ".turnstile" // taken before it, so that an exclusive lock does not starve
)

// Lock takes the flock of the lock file, shared or exclusive. flock(2) is not fair: a
// shared lock is granted while another caller waits for the exclusive one. So every
// caller takes the flock of the turnstile file first. A caller for the exclusive lock
// keeps the turnstile until it has the lock, and later callers wait at the turnstile.
func (s *sqliteStore) Lock(ctx context.Context, exclusive bool) (func(), error) {
	unlock, err := s.lockFile(ctx, turnstileSuffix, exclusive)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return s.lockFile(ctx, lockSuffix, exclusive)
}

// LockTenant does nothing: one server uses the data directory of the file, and commands beside it
// are the operator's.
func (s *sqliteStore) LockTenant(context.Context, string) (func(), error) { return func() {}, nil }

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
