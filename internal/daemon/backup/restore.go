package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/daemon/datadir"
	"github.com/croft-run/croft/registry"
)

// Restored is the result of Restore.
type Restored struct {
	Data string `json:"data"`
	Header
	Contents
}

// Restore writes a backup into an empty data directory, or none. A croft.yaml that is there
// stays. The directory gets its version last: before that, no program uses it, and another
// Restore replaces what a killed one left. storeURL returns the URL of the store by the
// configuration file of the backup, which is "" if there is none or another one counts.
func Restore(ctx context.Context, r io.Reader, dir string, storeURL func(file string) (string, error)) (_ *Restored, err error) {
	abs, err := datadir.Abs(dir)
	if err != nil {
		return nil, err
	}
	_, missing := os.Lstat(abs)
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, fmt.Errorf("backup: make data directory: %w", err)
	}
	if _, err := datadir.CheckOwner(abs); err != nil {
		return nil, err
	}
	lock := flock.New(abs, flock.SetFlag(os.O_RDONLY))
	if ok, err := lock.TryLock(); err != nil || !ok {
		return nil, errors.Join(err, fmt.Errorf("backup: restore into %s: %w: another restore is writing it", abs, fault.AlreadyExists))
	}
	defer lock.Close() //nolint:errcheck // closing releases the flock in any case
	if err := clearForRestore(abs); err != nil {
		return nil, err
	}
	x := &restore{dir: abs, temp: filepath.Join(abs, restoreTemp)}
	if err := os.Mkdir(x.temp, 0o700); err != nil {
		return nil, fmt.Errorf("backup: restore: %w", err)
	}
	defer func() {
		err = errors.Join(err, os.RemoveAll(x.temp))
		if err != nil && missing != nil {
			_ = os.Remove(abs) // it was made here, and is empty
		}
	}()
	out, err := x.extract(r)
	if err != nil {
		return nil, err
	}
	if err := x.restoreVolumes(); err != nil {
		return nil, err
	}
	if err := x.restoreStore(ctx, storeURL); err != nil {
		return nil, err
	}
	if _, err := datadir.Token(x.temp); err != nil {
		return nil, err
	}
	return out, x.publish()
}

// clearForRestore refuses a directory with files, and removes what a killed restore left.
func clearForRestore(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("backup: data directory: %w", err)
	}
	interrupted := false
	for _, e := range entries {
		interrupted = interrupted || e.Name() == restoreTemp
	}
	var left []string
	for _, e := range entries {
		switch name := e.Name(); {
		case name == config.FileName || strings.HasPrefix(name, ".") || name == "lost+found":
		case name == datadir.VersionFile || !interrupted || !isRestored(name):
			return fault.Advise(fmt.Errorf("backup: restore into %s: %w: it is not empty (it has %q)", dir, fault.AlreadyExists, name),
				"name an empty or new directory with --data")
		default:
			left = append(left, name)
		}
	}
	var errs []error
	for _, name := range left {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

// isRestored reports whether a restore makes an entry of that name in the data directory.
func isRestored(name string) bool {
	return name == restoreTemp || strings.HasPrefix(name, datadir.StoreFile) || isBackedUp(name) || isBackedUp(name+"/x")
}

type restore struct {
	dir  string
	temp string // in dir
}

func (x *restore) extract(r io.Reader) (*Restored, error) {
	root, err := os.OpenRoot(x.temp)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // it was only used to create files
	head, contents, err := extractFiles(r, root, func(h Header) error {
		if h.Layout != datadir.Layout {
			return fmt.Errorf("backup: restore: %w: the backup is of a data directory of version %d, made by croft %.40q, and this croft needs version %d",
				fault.Unsupported, h.Layout, h.Croft, datadir.Layout)
		}
		return nil
	}, isBackedUp)
	if err != nil {
		return nil, err
	}
	if _, err := root.Lstat(datadir.StoreFile); err != nil {
		return nil, fmt.Errorf("backup: restore: %w: the backup has no %s", fault.InvalidArgument, datadir.StoreFile)
	}
	return &Restored{Data: x.dir, Header: *head, Contents: *contents}, nil
}

// restoreStore moves the records into another store than the default one, if the
// configuration names one.
func (x *restore) restoreStore(ctx context.Context, storeURL func(file string) (string, error)) error {
	file := filepath.Join(x.temp, config.FileName)
	_, inBackup := os.Lstat(file)
	_, inDir := os.Lstat(filepath.Join(x.dir, config.FileName))
	if inBackup != nil || inDir == nil {
		file = ""
	}
	url, err := storeURL(file)
	if err != nil {
		return fmt.Errorf("backup: restore: the configuration in the backup: %w", err)
	}
	url = datadir.StoreURL(x.temp, url)
	db := filepath.Join(x.temp, datadir.StoreFile)
	if url == "sqlite:"+db {
		store, err := registry.OpenStore(ctx, url) // migrates its schema
		if err != nil {
			return err
		}
		return store.Close()
	}
	return errors.Join(registry.Restore(ctx, db, url), os.Remove(db))
}

// publish moves the files to their places, and then writes the version.
func (x *restore) publish() error {
	entries, err := os.ReadDir(x.temp)
	if err != nil {
		return fmt.Errorf("backup: restore: %w", err)
	}
	for _, e := range entries {
		to := filepath.Join(x.dir, e.Name())
		if _, err := os.Lstat(to); err == nil && e.Name() == config.FileName {
			continue
		}
		if err := os.Rename(filepath.Join(x.temp, e.Name()), to); err != nil {
			return fmt.Errorf("backup: restore: %w", err)
		}
	}
	if err := os.Chmod(x.dir, 0o700); err != nil {
		return fmt.Errorf("backup: restore: %w", err)
	}
	if err := datadir.Mark(x.dir); err != nil {
		return fmt.Errorf("backup: restore: %w", err)
	}
	return atomicfile.SyncDir(x.dir)
}
