package event

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
)

// Sync is the fsync policy of a file.
type Sync string

// fsync policies. A crash of the process loses nothing with any of them; a crash of the
// machine may.
const (
	SyncNone     Sync = "none"     // never; the kernel decides
	SyncInterval Sync = "interval" // at most a second after a write
	SyncAlways   Sync = "always"   // before Emit returns
)

// Syncs lists the values of Sync.
var Syncs = []Sync{SyncNone, SyncInterval, SyncAlways}

// Defaults of FileOptions.
const (
	DefaultMaxSize int64 = 64 << 20
	DefaultKeep          = 5
	syncEvery            = time.Second
)

// FileOptions are the options of OpenFile.
type FileOptions struct {
	MaxSize int64 // a file is rotated before it exceeds this size; 0 is DefaultMaxSize
	Keep    int   // number of rotated files; PATH.1 is the newest; 0 is DefaultKeep
	Sync    Sync  // "" is SyncInterval

	// OnError is called with the first error of a series, because Emit returns none. It
	// must not emit to the stream of this file. May be nil.
	OnError func(error)
}

// A File is a sink that appends each event as a JSON line to a file with mode 0600. When
// Emit returns, the event has been passed to the kernel. After a failed write the next
// successful one is preceded by a [Dropped] event with the number of lost events.
//
// Violations, [SandboxViolation], are also appended to PATH.violations, of each workspace
// the first maxKept: a flood of other events, or of one workspace's, does not evict them.
//
// Several processes may append to the same file: O_APPEND keeps lines intact, and the
// process that finds the file full rotates it under a flock.
type File struct {
	path string
	opts FileOptions
	stop chan struct{}
	done sync.WaitGroup

	mu     sync.Mutex
	f      *os.File // nil once closed
	info   fs.FileInfo
	size   int64 // after our last write; -1 if unknown
	dirty  bool  // an fsync is due
	lost   Event // Dropped event for lost events
	failed error // the error of the latest write or sync; nil once one succeeds

	kept   *File          // of violations; nil before the first one
	counts map[string]int // violations by workspace
}

const (
	keptSuffix        = ".violations"
	maxKept           = 1000
	keptSize    int64 = 8 << 20
	keptRotated       = 1
)

// OpenFile opens the file at path for appending, and creates it if it is missing. Its
// directory must exist.
func OpenFile(path string, opts *FileOptions) (*File, error) {
	var o FileOptions
	if opts != nil {
		o = *opts
	}
	if err := o.setDefaults(); err != nil {
		return nil, fmt.Errorf("event: open %s: %w", path, err)
	}
	f := &File{path: path, opts: o, stop: make(chan struct{})}
	if err := f.openLocked(); err != nil {
		return nil, fmt.Errorf("event: open %s: %w", path, err)
	}
	if o.Sync == SyncInterval {
		f.done.Go(f.syncLoop)
	}
	return f, nil
}

func (o *FileOptions) setDefaults() error {
	if o.MaxSize == 0 {
		o.MaxSize = DefaultMaxSize
	}
	if o.Keep == 0 {
		o.Keep = DefaultKeep
	}
	switch {
	case o.MaxSize < 0 || o.Keep < 0:
		return fmt.Errorf("%w: maximal size %d and files to keep %d must not be negative", fault.InvalidArgument, o.MaxSize, o.Keep)
	case o.Sync == "":
		o.Sync = SyncInterval
	case o.Sync != SyncNone && o.Sync != SyncInterval && o.Sync != SyncAlways:
		return fmt.Errorf("%w: sync %q: allowed are %v", fault.InvalidArgument, o.Sync, Syncs)
	}
	return nil
}

// openLocked opens the file at the path.
func (f *File) openLocked() error {
	if info, err := os.Lstat(f.path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%w: it is not a regular file", fault.InvalidArgument)
	}
	file, err := os.OpenFile(f.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|openFlags, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && info.Mode().Perm()&^0o600 != 0 {
		err = file.Chmod(0o600)
	}
	if err != nil {
		file.Close()
		return err
	}
	if f.f != nil {
		err = f.syncLocked()
		f.f.Close()
	}
	f.f, f.info, f.size = file, info, -1
	return err
}

// Emit appends e.
func (f *File) Emit(e Event) {
	line := append(Marshal(e), '\n')
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.f == nil {
		return
	}
	err := f.appendLocked(line)
	if err != nil {
		f.countLostLocked(e)
	} else if f.opts.Sync == SyncAlways {
		err = f.syncLocked()
	}
	f.noteLocked(err)
	if e.Kind == SandboxViolation && filepath.Ext(f.path) != keptSuffix {
		f.keepLocked(e)
	}
}

// keepLocked appends a violation to the file of violations.
func (f *File) keepLocked(e Event) {
	if f.kept == nil {
		kept, err := OpenFile(f.path+keptSuffix, &FileOptions{MaxSize: keptSize, Keep: keptRotated, Sync: f.opts.Sync, OnError: f.opts.OnError})
		if err != nil {
			f.noteLocked(err)
			return
		}
		f.kept, f.counts = kept, map[string]int{}
	}
	if f.counts[e.Workspace]++; f.counts[e.Workspace] <= maxKept {
		f.kept.Emit(e)
	}
}

func (f *File) appendLocked(line []byte) error {
	var before []byte
	if f.lost.Kind != "" {
		before = append(Marshal(f.lost), '\n')
	}
	if err := f.readyLocked(int64(len(before) + len(line))); err != nil {
		return err
	}
	if f.size < 0 && f.tornLocked() {
		before = append([]byte{'\n'}, before...) // so that a torn line does not corrupt the next one
	}
	n, err := f.f.Write(append(before, line...))
	f.dirty = f.dirty || n > 0
	if n >= len(before) {
		f.lost = Event{} // it was written
	}
	if err != nil {
		f.size = -1
		return err
	}
	f.size += int64(n)
	return nil
}

// readyLocked reopens the file if it was replaced, and rotates it if n bytes would not fit.
// Afterwards size is the file's size if only this process wrote to its end, else -1.
func (f *File) readyLocked(n int64) error {
	for range 3 { // other processes may rotate concurrently
		info, err := os.Lstat(f.path)
		switch {
		case errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(info, f.info):
			if err := f.openLocked(); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		if info.Size() > 0 && info.Size()+n > f.opts.MaxSize {
			rotated, err := f.rotateLocked()
			if err != nil {
				return err
			}
			if rotated {
				continue
			}
		}
		if info.Size() != f.size {
			f.size = -1
		}
		return nil
	}
	return nil // any open file will do for one line
}

// tornLocked sets size, and reports whether the last line is incomplete.
func (f *File) tornLocked() bool {
	info, err := f.f.Stat()
	if err != nil || info.Size() == 0 {
		f.size = 0
		return err != nil
	}
	f.size = info.Size()
	var last [1]byte
	_, err = f.f.ReadAt(last[:], f.size-1)
	return err != nil || last[0] != '\n'
}

// rotateLocked renames the file to PATH.1, that to PATH.2, and so on, under a flock. It
// returns false if another process holds the flock.
func (f *File) rotateLocked() (bool, error) {
	lock := flock.New(f.path, flock.SetFlag(os.O_RDWR|openFlags))
	// TryLock, because a process that is stopped while it holds the lock must not block
	// this one.
	ours, err := lock.TryLock()
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil // another process is rotating, or has rotated
	}
	if err != nil || !ours {
		return false, err
	}
	defer lock.Close() //nolint:errcheck // closing releases the flock
	locked, err := lock.Stat()
	if err != nil {
		return false, err
	}
	if info, err := os.Lstat(f.path); err != nil || !os.SameFile(info, f.info) || !os.SameFile(info, locked) {
		return true, nil // another process has rotated
	}
	if err := f.syncLocked(); err != nil {
		return false, err
	}
	// Oldest first, so that a crash between two renames loses no file.
	for i := f.opts.Keep; i > 0; i-- {
		from := rotatedName(f.path, i-1)
		if err := os.Rename(from, rotatedName(f.path, i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	if f.opts.Sync == SyncNone {
		return true, nil
	}
	return true, atomicfile.SyncDir(filepath.Dir(f.path))
}

func rotatedName(path string, i int) string {
	if i == 0 {
		return path
	}
	return fmt.Sprintf("%s.%d", path, i)
}

// countLostLocked counts e as lost.
func (f *File) countLostLocked(e Event) {
	if f.lost.Kind == "" {
		f.lost = droppedEvent(DropWrite, 1, e)
		return
	}
	f.lost.Sequence, f.lost.Time = e.Sequence, e.Time
	f.lost.Fields[FieldCount] = f.lost.Fields[FieldCount].(uint64) + 1
}

func (f *File) noteLocked(err error) {
	first := f.failed == nil
	f.failed = err
	if err != nil && first && f.opts.OnError != nil {
		f.opts.OnError(fmt.Errorf("event: write %s: %w", f.path, err))
	}
}

func (f *File) syncLocked() error {
	if !f.dirty || f.opts.Sync == SyncNone {
		return nil
	}
	if err := f.f.Sync(); err != nil {
		return err
	}
	f.dirty = false
	return nil
}

func (f *File) syncLoop() {
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		select {
		case <-f.stop:
			return
		case <-tick.C:
			f.syncUnlocked()
		}
	}
}

// syncUnlocked calls fsync without holding the lock, so that Emit is not blocked.
func (f *File) syncUnlocked() {
	f.mu.Lock()
	if f.f == nil || !f.dirty {
		f.mu.Unlock()
		return
	}
	f.dirty = false
	file := f.f
	f.mu.Unlock()
	// A concurrent close has called fsync first.
	if err := file.Sync(); err != nil && !errors.Is(err, os.ErrClosed) {
		f.mu.Lock()
		f.dirty = true
		f.noteLocked(err)
		f.mu.Unlock()
	}
}

// Err returns the error of the latest write or fsync, nil if it succeeded.
func (f *File) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed == nil {
		return nil
	}
	return fmt.Errorf("event: write %s: %w", f.path, f.failed)
}

// Close calls fsync, unless Sync is SyncNone, and closes the file. Later events are
// dropped.
func (f *File) Close() error {
	f.mu.Lock()
	if f.f == nil {
		f.mu.Unlock()
		return nil
	}
	close(f.stop)
	err := f.syncLocked()
	if f.kept != nil {
		err = errors.Join(err, f.kept.Close())
	}
	if cerr := f.f.Close(); err == nil {
		err = cerr
	}
	f.f = nil
	f.mu.Unlock()
	f.done.Wait()
	if err != nil {
		return fmt.Errorf("event: close %s: %w", f.path, err)
	}
	return nil
}
