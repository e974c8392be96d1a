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

// objectKey names a fresh object. Keys are flat: a bucket that is a directory
// then has no directories of its own to clean up.
func (s *store) objectKey(namespace, ws string) string {
	return strings.Join([]string{s.id, namespace, ws, driver.NewID()}, ".")
}

// ownerOf returns the workspace of a key, and the key itself where name is that
// of a temporary file of it. It reports false for what is not an object of this
// store.
func (s *store) ownerOf(name string) (key, ws string, ok bool) {
	parts := strings.SplitN(name, ".", 5)
	if len(parts) < 4 || parts[0] != s.id || !validNamespace(parts[1]) || !driver.ValidID(parts[2]) || !driver.ValidID(parts[3]) {
		return "", "", false
	}
	return strings.Join(parts[:4], "."), parts[2], true
}

// announce puts a key on the list of objects that are being written.
func (s *store) announce(ctx context.Context, key, ws string) error {
	writer, err := s.writerID(ctx)
	if err != nil {
		return err
	}
	return s.change(ctx, false, func(t *tx) error {
		return t.exec("INSERT INTO pending VALUES (?, ?, ?)", key, ws, writer)
	})
}

// upload writes an object from body. If that fails nothing of it is left.
func (s *store) upload(ctx context.Context, key string, body io.Reader, durable bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var file *os.File
	w, err := s.bucket.NewWriter(ctx, key, &blob.WriterOptions{
		ContentType: "application/octet-stream", // or the bucket would read ahead to guess
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
		cancel()  // so that Close drops the object
		w.Close() //nolint:errcheck // it answers that it was canceled
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

// onlyWriter hides ReadFrom, which would read the body in pieces of its own.
type onlyWriter struct{ io.Writer }

// syncFile brings a file or directory to stable storage.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// syncObjects brings the objects of a workspace that were written without care
// to stable storage. A bucket that is not a directory of ours has done it.
func (s *store) syncObjects(ctx context.Context, ws string) error {
	if s.bucketDir == "" {
		return nil
	}
	var keys []string
	err := s.view(ctx, func(t *tx) (err error) {
		keys, err = t.strings("SELECT DISTINCT object FROM node WHERE ws = ? AND object IS NOT NULL", ws)
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

// strings collects the one column of a query.
func (t *tx) strings(query string, args ...any) ([]string, error) {
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

// abandon gives up an announced object: it becomes garbage and is deleted.
func (s *store) abandon(ctx context.Context, key string) error {
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
	return s.collect(ctx)
}

// cleanupTime bounds what is done for a caller who has gone.
const cleanupTime = 30 * time.Second

// collect deletes the objects that are garbage. One that can't be deleted now
// stays on the list.
func (s *store) collect(ctx context.Context) error {
	var keys []string
	err := s.view(ctx, func(t *tx) (err error) {
		keys, err = t.strings("SELECT object FROM garbage")
		return err
	})
	if err != nil || len(keys) == 0 {
		return err
	}
	var deleted []string
	var errs []error
	for _, key := range keys {
		if err := s.delete(ctx, key); err != nil {
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

func (s *store) delete(ctx context.Context, key string) error {
	err := s.bucket.Delete(ctx, key)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil
	}
	return err
}

// tidy is collect after a change that is done and acknowledged: what goes wrong
// is work for the next Sweep, not the caller's concern.
func (s *store) tidy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	if err := s.collect(ctx); err != nil {
		s.log.Warn("filestore: garbage stays for the next sweep", "error", err)
	}
}

// A writerLock shows other processes that this one lives. Its file is locked for
// as long as the process, or the provider, is there.
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
			continue // a sweep looks at it just now
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

// dead reports whether the writer of that name has gone, and then removes its file.
func (s *store) dead(writer string) (bool, error) {
	if !driver.ValidID(writer) {
		return false, fmt.Errorf("writer %q: %w: not a name of ours", writer, fault.Internal)
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
