package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/croft-run/croft/internal/history"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace/driver"
)

// editsDir is the directory of the records of edits in a data directory.
const editsDir = "edits"

// records says where the edits of a workspace are recorded: by its directory if that is
// used in place, so that the next workspace there finds them, and else by its id.
func (s *System) records(ctx context.Context, id string) (tool.Records, error) {
	rec, err := s.Registry.Lookup(ctx, "", id)
	if err != nil {
		return tool.Records{}, err
	}
	if rec.Spec.Dir == "" {
		return tool.Records{Edits: filepath.Join(s.Dir, editsDir, id)}, nil
	}
	real, err := filepath.EvalSymlinks(rec.Spec.Dir)
	if err != nil {
		return tool.Records{}, fmt.Errorf("app: record edits: %w", err)
	}
	digest := driver.DigestBytes([]byte(rec.Owner + "\x00" + real))
	return tool.Records{Edits: filepath.Join(s.Dir, editsDir, "dir-"+digest[len(driver.DigestPrefix):][:32]), Opened: true}, nil
}

// sweepEdits removes the records of edits of workspaces that do not exist, and of
// directories in which nothing was edited for long.
func sweepEdits(data string, live []string) error {
	list, err := os.ReadDir(filepath.Join(data, editsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range list {
		info, ierr := e.Info()
		isOld := ierr == nil && time.Since(info.ModTime()) > history.DefaultAge
		if driver.ValidID(e.Name()) && !slices.Contains(live, e.Name()) || isOld {
			err = errors.Join(err, os.RemoveAll(filepath.Join(data, editsDir, e.Name())))
		}
	}
	return err
}

// removeRecords returns a function that removes the record of edits of a workspace that was destroyed.
func removeRecords(data string) func(ctx context.Context, id string) error {
	return func(_ context.Context, id string) error { return os.RemoveAll(filepath.Join(data, editsDir, id)) }
}

// sweepRecords removes what is recorded of workspaces that do not exist.
func (s *System) sweepRecords(ctx context.Context, live []string) error {
	return errors.Join(s.staging.Sweep(ctx, live), sweepEdits(s.Dir, live))
}
