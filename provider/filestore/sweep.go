package filestore

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"gocloud.dev/blob"

	"github.com/croft-run/croft/workspace/driver"
)

// removeWorkspace removes a workspace in one transaction: its rows are deleted, and its
// objects become garbage, also those that are being written: their writers can't
// commit any more.
func (s *store) removeWorkspace(ctx context.Context, id string) error {
	var pending []string
	err := s.changeFreeing(ctx, true, func(t *tx) (err error) {
		if pending, err = t.queryStrings("SELECT object FROM pending WHERE ws = ?", id); err != nil {
			return err
		}
		for _, query := range []string{
			"INSERT OR IGNORE INTO garbage SELECT object FROM pending WHERE ws = ?",
			"DELETE FROM pending WHERE ws = ?",
			"DELETE FROM node WHERE ws = ?",
			"DELETE FROM workspace WHERE id = ?",
		} {
			if err := t.exec(query, id); err != nil {
				return err
			}
		}
		return nil
	})
	driver.Step(ctx, "rows removed")
	if err != nil || len(pending) == 0 {
		return err
	}
	return s.removeTemps(pending)
}

// removeTemps removes the temporary files of objects that will not be finished. Only
// a bucket in a directory has them.
func (s *store) removeTemps(keys []string) error {
	if s.bucketDir == "" {
		return nil
	}
	entries, err := os.ReadDir(s.bucketDir)
	for _, e := range entries {
		key, _, ours := s.ownerOf(e.Name())
		if ours && key != e.Name() && slices.Contains(keys, key) {
			os.Remove(filepath.Join(s.bucketDir, e.Name()))
		}
	}
	return err
}

// reapPending turns announced objects of dead writers into garbage.
func (s *store) reapPending(ctx context.Context) error {
	var writers []string
	err := s.view(ctx, func(t *tx) (err error) {
		writers, err = t.queryStrings("SELECT DISTINCT writer FROM pending")
		return err
	})
	if err != nil {
		return err
	}
	for _, writer := range writers {
		dead, err := s.isWriterDead(writer)
		if err != nil {
			return err
		}
		if !dead {
			continue
		}
		err = s.change(ctx, false, func(t *tx) error {
			if err := t.exec("INSERT OR IGNORE INTO garbage SELECT object FROM pending WHERE writer = ?", writer); err != nil {
				return err
			}
			return t.exec("DELETE FROM pending WHERE writer = ?", writer)
		})
		if err != nil {
			return err
		}
		driver.Step(ctx, "writer reaped")
	}
	return nil
}

// sweepBucket deletes the objects of this store without a row. It lists an object
// first and looks it up in the database afterwards. An object is announced before it
// is created, so one without a row then has no owner.
func (s *store) sweepBucket(ctx context.Context) error {
	var found []string
	for it := s.bucket.List(&blob.ListOptions{Prefix: s.id + "."}); ; {
		obj, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if _, _, ours := s.ownerOf(obj.Key); ours {
			found = append(found, obj.Key)
		}
	}
	if len(found) == 0 {
		return nil
	}
	var orphans []string
	err := s.view(ctx, func(t *tx) error {
		orphans = nil
		for _, name := range found {
			key, _, _ := s.ownerOf(name)
			var known bool
			err := t.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM node WHERE object = ?1)
				OR EXISTS (SELECT 1 FROM pending WHERE object = ?1)`, key).Scan(&known)
			if err != nil {
				return err
			}
			if !known {
				orphans = append(orphans, name)
			}
		}
		return nil
	})
	for _, name := range orphans {
		err = errors.Join(err, s.deleteObject(ctx, name))
		driver.Step(ctx, "orphan deleted")
	}
	return err
}

// sweepWriters removes the flock files of dead writers.
func (s *store) sweepWriters() error {
	entries, err := os.ReadDir(s.writers)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if driver.ValidID(e.Name()) {
			_, dead := s.isWriterDead(e.Name())
			err = errors.Join(err, dead)
		}
	}
	return err
}
