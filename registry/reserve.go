package registry

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/croft-run/croft/internal/diskreserve"
)

// reserveSize is enough for the write-ahead log of some hundred small transactions
// and its index, without which SQLite can't even read.
const reserveSize = 1 << 20

// diskReserve is the disk reserve, a file that is removed when the disk is full, so
// that workspaces can still be removed. The store works without one until then.
func (s *sqliteStore) diskReserve() diskreserve.Reserve {
	return diskreserve.Reserve{Path: s.path + ".reserve", Size: reserveSize}
}

// migrateWithReserve migrates the schema; on a full disk after it released the disk
// reserve, which Close makes again.
func (s *sqliteStore) migrateWithReserve(ctx context.Context) error {
	err := s.migrateSchema(ctx)
	if err != nil && s.full(err) && s.diskReserve().Release() {
		return s.migrateSchema(ctx)
	}
	if err == nil {
		_ = s.diskReserve().Make() // see diskReserve
	}
	return err
}

// Close closes the database. SQLite removes the log when the last process closes
// it.
func (s *sqliteStore) Close() error {
	err := s.db.Close()
	_ = s.diskReserve().Make() // see diskReserve
	return err
}

// isFull reports whether err means that the disk is full. SQLite returns SQLITE_FULL
// only if a write of pages fails. If the disk has no space for SQLite's own files, such
// as the index of the WAL, SQLite returns a general error; then isFull tries a write.
func (s *sqliteStore) isFull(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff { // the low byte is the primary code
	case sqlite3.SQLITE_FULL:
		return true
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
		return isDiskFull(filepath.Dir(s.path))
	}
	return false
}

// isDiskFull reports whether a file of 32 KiB, the size of the index of the WAL, can't
// be written to dir for lack of space.
func isDiskFull(dir string) bool {
	f, err := os.CreateTemp(dir, ".room-*")
	if err == nil {
		defer os.Remove(f.Name())
		_, err = f.Write(make([]byte, 32<<10))
		err = errors.Join(err, f.Close())
	}
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// isDamaged reports whether err means that the file is damaged, or not a database.
func isDamaged(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	code := e.Code() & 0xff
	return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}
