package filestore

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/croft-run/croft/fault"
)

const (
	// checkpointPages triggers the checkpoint of the write-ahead log: at 2 MB, so
	// that the disk reserve can be small.
	checkpointPages = 500

	// reserveSize is enough for a checkpoint, which frees the log: the log's 2 MB and
	// the largest content in a row.
	reserveSize = 4 << 20
)

// changeFreeing is change for removals: on a full disk it releases the disk reserve.
func (s *store) changeFreeing(ctx context.Context, durable bool, f func(*tx) error) error {
	err := s.change(ctx, durable, f)
	if fault.Of(withCode(err)) != fault.ResourceExhausted {
		return err
	}
	if !s.reserve.Release() {
		return err
	}
	// The log first, because nothing can be removed while the log is full.
	if err := s.vacuum(ctx); err != nil {
		s.log.Warn("filestore: the disk is full", "error", err)
	}
	err = s.change(ctx, durable, f)
	s.tryVacuum(ctx)
	return err
}

// vacuum returns free pages to the file system (incremental vacuum): in steps,
// because each page first needs as much of the log.
func (s *store) vacuum(ctx context.Context) error {
	before := int64(math.MaxInt64)
	for {
		if err := s.runPragma(ctx, "wal_checkpoint(truncate)"); err != nil {
			return err
		}
		free, err := s.freePages(ctx)
		if err != nil || free == 0 || free >= before {
			return err
		}
		before = free
		if err := s.runPragma(ctx, fmt.Sprintf("incremental_vacuum(%d)", checkpointPages)); err != nil {
			return errors.Join(err, s.runPragma(ctx, "wal_checkpoint(truncate)"))
		}
	}
}

func (s *store) freePages(ctx context.Context) (n int64, err error) {
	err = s.readers.QueryRowContext(ctx, "PRAGMA freelist_count").Scan(&n)
	return n, err
}

// runPragma runs a pragma to its end: some do a part of their work per row.
func (s *store) runPragma(ctx context.Context, text string) error {
	select {
	case s.writeSem <- struct{}{}:
		defer func() { <-s.writeSem }()
	case <-ctx.Done():
		return ctx.Err()
	}
	rows, err := s.fast.QueryContext(ctx, "PRAGMA "+text)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
	}
	return rows.Err()
}

// tryVacuum is shrink after a change, if there are enough free pages: an error only costs
// space and is logged.
func (s *store) tryVacuum(ctx context.Context) {
	free, err := s.freePages(ctx)
	if err == nil && free >= checkpointPages {
		err = s.vacuum(ctx)
	}
	if fault.Of(withCode(err)) == fault.ResourceExhausted && s.reserve.Release() {
		err = s.vacuum(ctx)
	}
	if err = errors.Join(err, s.reserve.Make()); err != nil {
		s.log.Warn("filestore: the disk is full, or free pages stay in the database", "error", err)
	}
}
