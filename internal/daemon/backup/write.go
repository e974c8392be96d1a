package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/daemon/datadir"
	"github.com/croft-run/croft/internal/flockfile"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// Names in the data directory that belong to backups.
const (
	backupLock  = "backup.lock"     // its flock is held while a backup is made
	backupTemp  = "backup.tmp"      // of the backup that is being made
	partialName = "partial"         // in backupTemp: the path of the incomplete file
	restoreTemp = "restore.partial" // of a restore; while it exists, the directory has no version
	eventsName  = "events.jsonl"    // and its rotated files
)

// backupDirs are the directories that a backup copies file by file. Their files are
// replaced by rename and never changed.
var backupDirs = []string{"artifacts", "prep", "e2b"}

// isBackedUp reports whether a file may be in a backup.
func isBackedUp(name string) bool {
	switch top, rest, _ := strings.Cut(name, "/"); top {
	case "artifacts", "prep", "e2b", "store", volumesDir:
		return rest != ""
	}
	return name == datadir.StoreFile || name == datadir.TokenFile || name == datadir.E2BKeyFile || name == datadir.PageKeyFile || name == config.FileName || strings.HasPrefix(name, eventsName) && !strings.Contains(name, "/")
}

// A Source is a data directory that can be backed up.
type Source struct {
	Dir       string
	Croft     string // version of the program
	HasBucket bool   // snapshots and artifacts are in a bucket

	Records   registry.Store
	Snapshots *snapshot.Store
	Provider  func(kind string) (driver.Provider, error)
	Log       *slog.Logger
}

// Options are the options of Source.Write.
type Options struct {
	Token bool // include the token of the server, and the keys of the access tokens of sandboxes and of the page's cookies

	// Partial is the path of the file that the backup is written to, which is removed after a
	// crash, by the next backup or garbage collection; "" if the backup is not written to a file.
	Partial string
}

// partialSuffix ends the name of a backup that is not complete.
const partialSuffix = ".partial"

// PartialName returns the name of a file that becomes the backup file once it is complete.
func PartialName(file string) string { return file + partialSuffix }

// Write writes a backup of the data directory. Servers and other programs may use the
// directory meanwhile. Each workspace is in the backup as a snapshot of its files. The
// snapshots that Write takes are removed at the end.
func (s *Source) Write(ctx context.Context, w io.Writer, opts Options) (_ *Contents, err error) {
	if s.HasBucket {
		return nil, fmt.Errorf("backup: back up: %w: snapshots, templates and artifacts are in a bucket (store.bucket), which other servers may use; copy the bucket, and dump the database after it", fault.Unsupported)
	}
	lock, err := flockfile.Lock(ctx, filepath.Join(s.Dir, backupLock))
	if err != nil {
		return nil, fmt.Errorf("backup: wait for another backup: %w", err)
	}
	defer lock.Close() //nolint:errcheck // closing releases the flock in any case
	if err := s.removeKilledBackup(ctx, opts.Partial); err != nil {
		return nil, err
	}
	temp := filepath.Join(s.Dir, backupTemp)
	if err := os.Mkdir(temp, 0o700); err != nil {
		return nil, fmt.Errorf("backup: back up: %w", err)
	}
	if opts.Partial != "" {
		if err := os.WriteFile(filepath.Join(temp, partialName), []byte(opts.Partial), 0o600); err != nil {
			return nil, fmt.Errorf("backup: back up: %w", err)
		}
	}
	defer func() { err = errors.Join(err, s.removeBackupLeftovers(context.WithoutCancel(ctx))) }()
	db := filepath.Join(temp, datadir.StoreFile)
	if err := registry.Backup(ctx, s.Records, db); err != nil {
		return nil, err
	}
	c := &Contents{Workspaces: []Workspace{}, LeftOut: []LeftOut{}, Token: opts.Token}
	if err := s.backUpWorkspaces(ctx, db, c); err != nil {
		return nil, err
	}
	out, err := newWriter(w, Header{Format: format, Layout: datadir.Layout, Croft: s.Croft, Created: time.Now().UTC()})
	if err != nil {
		return nil, err
	}
	if err := s.addFiles(ctx, out, db, c); err != nil {
		return nil, err
	}
	return c, out.Finish(*c)
}

// removeKilledBackup removes what a backup of a killed process left, the incomplete file
// included unless it is kept: the next backup writes to a file of the same name. The caller
// holds the lock of backups.
func (s *Source) removeKilledBackup(ctx context.Context, keep string) error {
	file, err := os.ReadFile(filepath.Join(s.Dir, backupTemp, partialName))
	if partial := string(file); err == nil && partial != keep && filepath.IsAbs(partial) && strings.HasSuffix(partial, partialSuffix) {
		if err := os.Remove(partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.Log.WarnContext(ctx, "the incomplete file of a backup stays", "file", partial, "error", err)
		}
	}
	return s.removeBackupLeftovers(ctx)
}

// removeBackupLeftovers removes the temporary files and snapshots of a backup. The caller holds
// the lock of backups.
func (s *Source) removeBackupLeftovers(ctx context.Context) error {
	_, err := s.Snapshots.RemoveBackups(ctx)
	return errors.Join(err, os.RemoveAll(filepath.Join(s.Dir, backupTemp)))
}

// Collect removes what a backup of a killed process left, unless one is being made,
// and reports whether there was one.
func (s *Source) Collect(ctx context.Context) (found bool, err error) {
	// A restore that was killed after its last step leaves its empty directory.
	_ = os.Remove(filepath.Join(s.Dir, restoreTemp))
	if _, err := os.Stat(filepath.Join(s.Dir, backupTemp)); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	try, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	lock, err := flockfile.Lock(try, filepath.Join(s.Dir, backupLock))
	if err != nil {
		return false, ctx.Err() // a backup is being made
	}
	defer lock.Close() //nolint:errcheck // closing releases the flock in any case
	return true, s.removeKilledBackup(ctx, "")
}

// backUpWorkspaces takes a snapshot of each workspace in a copy of the records, and writes
// into the copy that the workspace starts from that snapshot.
func (s *Source) backUpWorkspaces(ctx context.Context, db string, c *Contents) (err error) {
	records, err := registry.OpenStore(ctx, "sqlite:"+db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	list, err := records.List(ctx, registry.Filter{States: registry.States()})
	if err != nil {
		return err
	}
	for _, rec := range list {
		info, err := s.backUpWorkspace(ctx, &rec)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && s.isGone(ctx, rec.ID):
			if err := records.Delete(ctx, rec.ID, rec.Version); err != nil {
				return err
			}
			continue
		case err != nil:
			reason := fault.Encode(fmt.Errorf("its files are not in the backup: %w", err))
			rec.Ref, rec.State, rec.Error = nil, registry.Failed, &reason
			c.LeftOut = append(c.LeftOut, LeftOut{ID: rec.ID, Name: rec.Name, Reason: err.Error()})
		default:
			c.Workspaces = append(c.Workspaces, Workspace{ID: rec.ID, Name: rec.Name, Kind: rec.Kind, Snapshot: info.ID})
			if rec.Spec.Dir != "" {
				c.LeftOut = append(c.LeftOut, LeftOut{ID: rec.ID, Name: rec.Name, Reason: "its files are the directory " + rec.Spec.Dir + " of the host, which is not in the backup"})
			}
			if info.MissingTotal > 0 {
				c.LeftOut = append(c.LeftOut, LeftOut{ID: rec.ID, Name: rec.Name, Reason: fmt.Sprintf("%d of its files can't be read, such as %.200q", info.MissingTotal, info.Missing[0].Path)})
			}
		}
		rec.Worker, rec.Attempts = "", 0
		if _, err := records.Put(ctx, rec); err != nil {
			return err
		}
	}
	return nil
}

// backUpWorkspace takes a snapshot of a workspace, whatever state it is in, and makes the
// record that of a workspace which was not opened yet and starts from the snapshot. A
// workspace in place starts from its directory again.
func (s *Source) backUpWorkspace(ctx context.Context, rec *registry.Record) (info driver.SnapshotInfo, err error) {
	if rec.State == registry.Destroyed {
		return info, fmt.Errorf("backup: %w: it is destroyed", fault.NotFound)
	}
	if rec.Ref != nil && rec.Spec.Dir == "" {
		if info, err = s.takeForBackup(ctx, rec); err != nil {
			return info, err
		}
		rec.Spec.From = driver.Source{Snapshot: info.ID, CrossSession: true}
	}
	if rec.Pending != nil {
		rec.Spec.Policy, rec.Pending = *rec.Pending, nil
	}
	if rec.Ref != nil || rec.State != registry.Failed {
		rec.Ref, rec.State, rec.Error = nil, registry.Intended, nil
	}
	return info, nil
}

// takeForBackup takes a snapshot through the provider, so that a paused or closed workspace
// stays so.
func (s *Source) takeForBackup(ctx context.Context, rec *registry.Record) (info driver.SnapshotInfo, err error) {
	p, err := s.Provider(rec.Kind)
	if err != nil {
		return info, err
	}
	if traits, err := p.Probe(ctx); err == nil && !traits.Persists() {
		return info, fmt.Errorf("provider %s: %w: its workspaces end with the process that opened them", rec.Kind, fault.Unsupported)
	}
	ref := *rec.Ref
	ref.Capabilities = maps.Clone(ref.Capabilities)
	ref.Capabilities[driver.CapSnapshot] = true // a workspace that declares no snapshots is backed up, too
	ws, err := p.Resolve(ctx, ref)
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, ws.Life.Close(context.WithoutCancel(ctx))) }()
	if ws.Life.Snapshot == nil {
		return info, fmt.Errorf("provider %s: %w: it has no snapshots", rec.Kind, fault.Unsupported)
	}
	return ws.Life.Snapshot.Snapshot(ctx, &driver.SnapshotOptions{Labels: map[string]string{snapshot.CauseLabel: snapshot.CauseBackup}})
}

// isGone reports whether a workspace was destroyed since the records were copied.
func (s *Source) isGone(ctx context.Context, id string) bool {
	rec, err := s.Records.Get(ctx, id)
	return fault.Of(err) == fault.NotFound || err == nil && rec.State == registry.Destroyed
}

// addFiles adds the files of the data directory to a backup.
func (s *Source) addFiles(ctx context.Context, out *writer, db string, c *Contents) error {
	if err := out.AddFile(datadir.StoreFile, db); err != nil {
		return err
	}
	leftOut, err := s.Snapshots.Backup(ctx, func(name string, size int64, body io.Reader) error {
		if strings.HasPrefix(name, "snapshots/") {
			c.Snapshots++
		}
		return out.Add(path.Join("store", name), size, body)
	})
	if err != nil {
		return err
	}
	for _, id := range leftOut {
		c.LeftOut = append(c.LeftOut, LeftOut{ID: id, Reason: "the snapshot's lower layers, directories of the host, are gone or on another node"})
	}
	if err := s.addVolumes(ctx, out, c); err != nil {
		return err
	}
	for _, dir := range backupDirs {
		if err := addTree(ctx, out, s.Dir, dir); err != nil {
			return err
		}
	}
	files := []string{filepath.Join(s.Dir, config.FileName)}
	if c.Token {
		files = append(files, filepath.Join(s.Dir, datadir.TokenFile), filepath.Join(s.Dir, datadir.E2BKeyFile), filepath.Join(s.Dir, datadir.PageKeyFile))
	}
	events, err := filepath.Glob(filepath.Join(s.Dir, eventsName+"*"))
	if err != nil {
		return err
	}
	for _, file := range append(files, events...) {
		if err := out.AddFile(filepath.Base(file), file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// addTree adds the regular files of a directory. Files that vanish meanwhile are left out,
// as are locks.
func addTree(ctx context.Context, out *writer, data, dir string) error {
	return filepath.WalkDir(filepath.Join(data, dir), func(file string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case !d.Type().IsRegular() || strings.HasSuffix(d.Name(), ".lock"):
			return nil
		}
		name, err := filepath.Rel(data, file)
		if err != nil {
			return err
		}
		if err := out.AddFile(filepath.ToSlash(name), file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}
