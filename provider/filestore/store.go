package filestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/diskreserve"
	"github.com/croft-run/croft/internal/sqlitetx"
	"github.com/croft-run/croft/workspace/driver"
)

// A store is the open database with its bucket. It has three connection pools for one
// file, because the sync mode of a commit is a property of a connection.
type store struct {
	id      string // prefix of the keys of all its objects
	readers *sql.DB
	fast    *sql.DB // commits survive the death of the process
	durable *sql.DB // commits survive power loss

	bucket    *blob.Bucket
	bucketDir string // set if the bucket is a directory of this provider
	ownBucket bool
	threshold int64
	writers   string // directory of the flock files of live writers
	reserve   diskreserve.Reserve
	log       *slog.Logger

	// writeSem is the semaphore of the one writer of this process: it is fair and
	// respects the context, whereas SQLite polls.
	writeSem chan struct{}

	mu     sync.Mutex
	writer *writerLock // taken by the first large write
}

// dbPath is the path of the database.
func dbPath(cfg *Config) string { return filepath.Join(cfg.Dir, "filestore.db") }

// openStore opens or creates the database and the bucket below cfg.Dir.
func openStore(ctx context.Context, cfg *Config) (*store, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	s := &store{
		bucket: cfg.Bucket, threshold: cfg.InlineThreshold, log: cfg.Log, writeSem: make(chan struct{}, 1),
		writers: filepath.Join(cfg.Dir, "filestore", "writers"), reserve: diskreserve.Reserve{Path: filepath.Join(cfg.Dir, "filestore", "reserve"), Size: reserveSize},
	}
	if s.threshold == 0 {
		s.threshold = DefaultInlineThreshold
	}
	if err := s.openBucket(cfg.Dir); err != nil {
		return nil, err
	}
	path := dbPath(cfg)
	if err := makePrivate(path); err != nil {
		return nil, err
	}
	s.readers = openPool(path, "NORMAL", max(4, runtime.GOMAXPROCS(0)))
	s.fast = openPool(path, "NORMAL", 1)
	s.durable = openPool(path, "FULL", 1)
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.reserve.Make(); err != nil {
		s.log.Warn("filestore: there is no room for a reserve", "error", err)
	}
	return s, nil
}

// makePrivate creates the database file with mode 0600 before SQLite does; SQLite
// gives its other files the same mode. It removes permissions of other users from
// existing files. It never opens an existing file, because closing it would release
// this process's POSIX locks on it.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		return f.Close()
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Chmod(path+suffix, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func openPool(path, synchronous string, conns int) *sql.DB {
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {
		sqlitetx.BusyTimeout(),
		"auto_vacuum(incremental)", // effective only for a new database
		"journal_mode(wal)",
		"synchronous(" + synchronous + ")",
		fmt.Sprintf("wal_autocheckpoint(%d)", checkpointPages),
		"foreign_keys(on)",
	}}
	// The name is a path in a URI, so all its characters are escaped.
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		panic(err) // only if the driver is not linked in
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db
}

func (s *store) openBucket(dir string) error {
	if s.bucket != nil {
		return os.MkdirAll(filepath.Join(dir, "filestore"), 0o700)
	}
	s.bucketDir = filepath.Join(dir, "filestore", "objects")
	if err := os.MkdirAll(s.bucketDir, 0o700); err != nil {
		return err
	}
	bucket, err := fileblob.OpenBucket(s.bucketDir, &fileblob.Options{
		NoTempDir: true, // the rename must not cross file systems
		Metadata:  fileblob.MetadataDontWrite,
	})
	s.bucket, s.ownBucket = bucket, true
	return err
}

// migrate creates missing tables and refuses a later version. Several processes may
// run it at once.
func (s *store) migrate(ctx context.Context) error {
	till := time.Now().Add(sqlitetx.MaxWait)
	for { // the switch to WAL returns busy without waiting
		err := s.tryMigrate(ctx)
		var db *sqlite.Error
		if err == nil || time.Now().After(till) || !errors.As(err, &db) || db.Code()&0xff != sqlite3.SQLITE_BUSY {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s *store) tryMigrate(ctx context.Context) error {
	return s.change(ctx, true, func(t *tx) error {
		var version int
		if err := t.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
			return err
		}
		if version == 1 {
			if err := t.exec(fromVersion1); err != nil {
				return err
			}
			version = 2
		}
		switch version {
		case schemaVersion:
			return t.QueryRowContext(ctx, "SELECT id FROM store").Scan(&s.id)
		case 0:
			s.id = driver.NewID()
			if err := t.exec(schema); err != nil {
				return err
			}
			if err := t.exec("INSERT INTO store VALUES (?)", s.id); err != nil {
				return err
			}
			return t.exec(fmt.Sprintf("PRAGMA user_version = %d", schemaVersion))
		}
		return fmt.Errorf("the database has version %d: %w: this program supports %d", version, fault.Failed, schemaVersion)
	})
}

func (s *store) close() error {
	errs := []error{s.readers.Close(), s.fast.Close(), s.durable.Close()}
	if s.ownBucket {
		errs = append(errs, s.bucket.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writer != nil {
		errs = append(errs, s.writer.release())
	}
	return errors.Join(errs...)
}

// A tx is a running transaction with its context.
type tx struct {
	*sql.Tx
	ctx context.Context
}

func (t *tx) exec(query string, args ...any) error {
	_, err := t.ExecContext(t.ctx, query, args...)
	return err
}

// view runs f in a read transaction.
func (s *store) view(ctx context.Context, f func(*tx) error) error {
	return runTx(ctx, s.readers, &sql.TxOptions{ReadOnly: true}, f)
}

// change runs f in a write transaction: all or nothing.
func (s *store) change(ctx context.Context, durable bool, f func(*tx) error) error {
	select {
	case s.writeSem <- struct{}{}:
		defer func() { <-s.writeSem }()
	case <-ctx.Done():
		return ctx.Err()
	}
	db := s.fast
	if durable {
		db = s.durable
	}
	return runTx(ctx, db, nil, f)
}

func runTx(ctx context.Context, db *sql.DB, opts *sql.TxOptions, f func(*tx) error) error {
	sqltx, err := sqlitetx.Begin(ctx, db, opts)
	if err != nil {
		return contextError(ctx, err)
	}
	defer sqltx.Rollback()
	if err := f(&tx{Tx: sqltx, ctx: ctx}); err != nil {
		return contextError(ctx, err)
	}
	return contextError(ctx, sqltx.Commit())
}

// contextError returns the error of the context instead of that of a canceled statement.
func contextError(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && fault.Of(err) == fault.Internal {
		return ctx.Err()
	}
	return err
}
