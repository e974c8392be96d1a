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

// reserveSize is enough for the log of some hundred small transactions, and for
// the index of the log, without which a database can't even be read.
const reserveSize = 1 << 20

// diskReserve is the file that is removed where the disk is full. A store without one
// works as well until then.
func (s *sqliteStore) diskReserve() diskreserve.Reserve {
	return diskreserve.Reserve{Path: s.path + ".reserve", Size: reserveSize}
}

// migrateWithReserve brings the schema up to date, on a full disk after the reserve is
// released, which Close makes again.
func (s *sqliteStore) migrateWithReserve(ctx context.Context) error {
	err := s.migrateSchema(ctx)
	if err != nil && s.full(err) && s.diskReserve().Release() {
		return s.migrateSchema(ctx)
	}
	if err == nil {
		_ = s.diskReserve().Make() // see reserve
	}
	return err
}

// Close lets go of the database, whose log ends with the last one who does.
func (s *sqliteStore) Close() error {
	err := s.db.Close()
	_ = s.diskReserve().Make() // see reserve
	return err
}

// isFull reports whether err says that the disk is full. SQLite tells that by
// many names where it is not the content that finds no room.
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

// isDiskFull tries whether there is room for what SQLite needs to read: 32 KiB.
func isDiskFull(dir string) bool {
	f, err := os.CreateTemp(dir, ".room-*")
	if err == nil {
		defer os.Remove(f.Name())
		_, err = f.Write(make([]byte, 32<<10))
		err = errors.Join(err, f.Close())
	}
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// isDamaged reports whether err says that the file is no database, or none any more.
func isDamaged(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	code := e.Code() & 0xff
	return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}
