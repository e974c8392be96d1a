package filestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// objectKey returns a new key. Keys are flat, so a bucket in a directory has no
// subdirectories to clean up.
func (s *store) objectKey(namespace, ws string) string {
	return strings.Join([]string{s.id, namespace, ws, driver.NewID()}, ".")
}

// ownerOf returns the workspace of a key, and the key itself if name is a temporary
// file of it. It returns false for objects of other owners.
func (s *store) ownerOf(name string) (key, ws string, ok bool) {
	parts := strings.SplitN(name, ".", 5)
	if len(parts) < 4 || parts[0] != s.id || !validNamespace(parts[1]) || !driver.ValidID(parts[2]) || !driver.ValidID(parts[3]) {
		return "", "", false
	}
	return strings.Join(parts[:4], "."), parts[2], true
}

// announceObject inserts a key into the table of objects that are being written.
func (s *store) announceObject(ctx context.Context, key, ws string) error {
	writer, err := s.writerID(ctx)
	if err != nil {
		return err
	}
	return s.change(ctx, false, func(t *tx) error {
		return t.exec("INSERT INTO pending VALUES (?, ?, ?)", key, ws, writer)
	})
}

// uploadObject writes an object from body. On an error nothing is left.
func (s *store) uploadObject(ctx context.Context, key string, body io.Reader, durable bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var file *os.File
	w, err := s.bucket.NewWriter(ctx, key, &blob.WriterOptions{
		ContentType: "application/octet-stream", // otherwise the bucket reads ahead to guess
		BeforeWrite: func(as func(any) bool) error { as(&file); return nil },
	})
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(onlyWriter{w}, body, make([]byte, 256<<10))
	if err == nil && durable && file != nil {
		err = file.Sync()
	}
	if err != nil {
		cancel()  // makes Close discard the object
		w.Close() //nolint:errcheck // it returns that it was canceled
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if durable && s.bucketDir != "" {
		return syncFile(s.bucketDir)
	}
	return nil
}

// onlyWriter hides ReadFrom, which would use its own buffer size.
type onlyWriter struct{ io.Writer }

// syncFile fsyncs a file or directory.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// syncObjects fsyncs the objects of a workspace that were written without fsync. A
// bucket that is not a directory of this provider is durable already.
func (s *store) syncObjects(ctx context.Context, ws string) error {
	if s.bucketDir == "" {
		return nil
	}
	var keys []string
	err := s.view(ctx, func(t *tx) (err error) {
		keys, err = t.queryStrings("SELECT DISTINCT object FROM node WHERE ws = ? AND object IS NOT NULL", ws)
		return err
	})
	for _, key := range keys {
		if err == nil {
			err = syncFile(filepath.Join(s.bucketDir, key))
		}
		if errors.Is(err, os.ErrNotExist) { // replaced meanwhile
			err = nil
		}
	}
	if err == nil && len(keys) > 0 {
		err = syncFile(s.bucketDir)
	}
	return err
}

// queryStrings returns the one column of a query.
func (t *tx) queryStrings(query string, args ...any) ([]string, error) {
	rows, err := t.QueryContext(t.ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, rows.Err()
}

// abandonObject turns an announced object into garbage and deletes it.
func (s *store) abandonObject(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	err := s.change(ctx, false, func(t *tx) error {
		if err := t.exec("INSERT OR IGNORE INTO garbage VALUES (?)", key); err != nil {
			return err
		}
		return t.exec("DELETE FROM pending WHERE object = ?", key)
	})
	if err != nil {
		return err
	}
	return s.collectGarbage(ctx)
}

// cleanupTime bounds cleanup after the context of the caller ended.
const cleanupTime = 30 * time.Second

// collectGarbage deletes garbage objects. An object that can't be deleted now stays in the
// table.
func (s *store) collectGarbage(ctx context.Context) error {
	var keys []string
	err := s.view(ctx, func(t *tx) (err error) {
		keys, err = t.queryStrings("SELECT object FROM garbage")
		return err
	})
	if err != nil || len(keys) == 0 {
		return err
	}
	var deleted []string
	var errs []error
	for _, key := range keys {
		if err := s.deleteObject(ctx, key); err != nil {
			errs = append(errs, err)
			continue
		}
		deleted = append(deleted, key)
	}
	driver.Step(ctx, "objects deleted")
	errs = append(errs, s.change(ctx, false, func(t *tx) error {
		for _, key := range deleted {
			if err := t.exec("DELETE FROM garbage WHERE object = ?", key); err != nil {
				return err
			}
		}
		return nil
	}))
	return errors.Join(errs...)
}

func (s *store) deleteObject(ctx context.Context, key string) error {
	err := s.bucket.Delete(ctx, key)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil
	}
	return err
}

// tryCollectGarbage calls collectGarbage after an acknowledged change: errors are logged and left to the
// next Sweep.
func (s *store) tryCollectGarbage(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	if err := s.collectGarbage(ctx); err != nil {
		s.log.Warn("filestore: garbage stays for the next sweep", "error", err)
	}
}

// A writerLock is a flock that shows other processes that this one is alive. It is
// held until the process ends or the provider is closed.
type writerLock struct {
	id   string
	lock *flock.Flock
}

// writerID returns the name under which this store announces objects.
func (s *store) writerID(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writer != nil {
		return s.writer.id, nil
	}
	if err := os.MkdirAll(s.writers, 0o700); err != nil {
		return "", err
	}
	for ctx.Err() == nil {
		w := &writerLock{id: driver.NewID()}
		path := filepath.Join(s.writers, w.id)
		w.lock = flock.New(path)
		if ok, err := w.lock.TryLock(); err != nil {
			return "", err
		} else if !ok {
			continue // a sweep has it locked
		}
		if _, err := os.Stat(path); err == nil { // a sweep did not remove it before it was locked
			s.writer = w
			return w.id, nil
		}
		if err := w.lock.Close(); err != nil {
			return "", err
		}
	}
	return "", ctx.Err()
}

func (w *writerLock) release() error {
	os.Remove(w.lock.Path())
	return w.lock.Close()
}

// isWriterDead reports whether the writer has ended (its flock is free), and then removes its
// file.
func (s *store) isWriterDead(writer string) (bool, error) {
	if !driver.ValidID(writer) {
		return false, fmt.Errorf("writer %q: %w: the name is not valid", writer, fault.Internal)
	}
	path := filepath.Join(s.writers, writer)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	lock := flock.New(path)
	ok, err := lock.TryLock()
	if err != nil || !ok {
		return false, err
	}
	os.Remove(path)
	return true, lock.Close()
}
