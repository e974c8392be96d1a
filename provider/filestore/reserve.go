package filestore

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/croft-run/croft/fault"
)

const (
	// checkpointPages is when the write-ahead log is copied into the database:
	// at 2 MB, so that the reserve can be small.
	checkpointPages = 500

	// reserveSize is enough for the database to take in the whole log, which
	// then becomes free: the log's 2 MB and the largest content in a row.
	reserveSize = 4 << 20
)

// freeing is change for what removes something: on a full disk it releases the
// reserve.
func (s *store) freeing(ctx context.Context, durable bool, f func(*tx) error) error {
	err := s.change(ctx, durable, f)
	if fault.Of(coded(err)) != fault.ResourceExhausted {
		return err
	}
	if !s.reserve.Release() {
		return err
	}
	// The log first, since nothing can be removed while there is no room in it.
	if err := s.shrink(ctx); err != nil {
		s.log.Warn("filestore: the disk is full", "error", err)
	}
	err = s.change(ctx, durable, f)
	s.trim(ctx)
	return err
}

// shrink gives pages that are free back to the file system: in steps, because
// each page costs as much of the log as it gives back later.
func (s *store) shrink(ctx context.Context) error {
	before := int64(math.MaxInt64)
	for {
		if err := s.pragma(ctx, "wal_checkpoint(truncate)"); err != nil {
			return err
		}
		free, err := s.freePages(ctx)
		if err != nil || free == 0 || free >= before {
			return err
		}
		before = free
		if err := s.pragma(ctx, fmt.Sprintf("incremental_vacuum(%d)", checkpointPages)); err != nil {
			return errors.Join(err, s.pragma(ctx, "wal_checkpoint(truncate)"))
		}
	}
}

func (s *store) freePages(ctx context.Context) (n int64, err error) {
	err = s.readers.QueryRowContext(ctx, "PRAGMA freelist_count").Scan(&n)
	return n, err
}

// pragma runs a pragma to its end: some do a part of their work with every row.
func (s *store) pragma(ctx context.Context, text string) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
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

// trim is shrink after the work is done, where that is worth its while: what
// goes wrong costs space, and is not the caller's concern.
func (s *store) trim(ctx context.Context) {
	free, err := s.freePages(ctx)
	if err == nil && free >= checkpointPages {
		err = s.shrink(ctx)
	}
	if fault.Of(coded(err)) == fault.ResourceExhausted && s.reserve.Release() {
		err = s.shrink(ctx)
	}
	if err = errors.Join(err, s.reserve.Make()); err != nil {
		s.log.Warn("filestore: the disk is full, or free pages stay in the database", "error", err)
	}
}
