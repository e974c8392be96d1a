package supervise

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/guest"
	"github.com/croft-run/croft/host/wsdir"
	"github.com/croft-run/croft/internal/flockfile"
	"github.com/croft-run/croft/workspace/driver"
)

// Names in the directory of a workspace.
const (
	SocketName = "sock"       // where the guest listens
	lockName   = "guest.lock" // flock of the process that finds, starts or ends the guest
)

// record is the section of the state that says which process the guest is.
const record = wsdir.Section[Record]("guest")

// Lock takes the lock under which the guest of a workspace is found, started or
// ended, which may take seconds. It is fs.ErrNotExist where the workspace is gone.
func Lock(ctx context.Context, dir string) (*flock.Flock, error) {
	return flockfile.Lock(ctx, filepath.Join(dir, lockName))
}

// A Record says which process a guest is. The host wrote it: the guest itself is
// not asked.
type Record struct {
	Key   string `json:"key"`   // of how it runs, see Key: a provider that needs another ends it
	PID   int    `json:"pid"`   // on this host; 0 while it is about to start, and in a container
	Start string `json:"start"` // when that process started, as the kernel tells it: numbers are used again
	Token string `json:"token"` // what it wants to hear from a client: a workload of the same user may reach its socket

	Mount  uint64   `json:"mount,omitempty"`  // id of the mount of the workspace inside, where files are reached through it
	Groups []string `json:"groups,omitempty"` // directories of its control groups, made or about to be
	Paused bool     `json:"paused,omitempty"` // its workload is frozen until it is resumed
	Made   []string `json:"made,omitempty"`   // files and directories of the host that were made for it and go with it

	Container string `json:"container,omitempty"` // of an engine, by name, that the guest runs in: the engine knows its process
}

// Key is short, and equal for equal parts: what says how a guest is to run.
func Key(parts ...any) (string, error) {
	data, err := json.Marshal(parts)
	if err != nil {
		return "", fmt.Errorf("%w: %w", fault.Internal, err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8]), nil
}

// ReadRecord returns the record of the guest; nil where there is none, also where the
// state is not readable: a power loss, which no guest outlives, has torn it.
func ReadRecord(d wsdir.Dir) *Record {
	m, err := d.Read()
	if err != nil {
		return nil
	}
	return RecordIn(m)
}

// RecordIn returns the record of the guest that a state holds.
func RecordIn(m *wsdir.State) *Record {
	rec, err := record.Get(m)
	if err != nil {
		return nil
	}
	return rec
}

// Write notes the record in the state.
func (r *Record) Write(ctx context.Context, d wsdir.Dir) error {
	_, err := d.Update(ctx, false, r.PutIn)
	return err
}

// PutIn puts the record into a state that is being changed; nil removes it.
func (r *Record) PutIn(m *wsdir.State) error { return record.Set(m, r) }

// Adopt attaches to a guest that runs under key, if there is one, and returns
// its record. The lock is held.
func Adopt(ctx context.Context, d wsdir.Dir, key, version, workspace string) (*guest.Client, *Record) {
	rec := ReadRecord(d)
	if rec == nil || rec.Key != key {
		return nil, nil
	}
	c, err := guest.Dial(ctx, filepath.Join(d.Path, SocketName), rec.Token, version, workspace)
	if err != nil {
		return nil, nil
	}
	return c, rec
}

// Start starts a guest and notes in rec, and on disk, which process it is, before
// it does anything. The lock is held, and End was called.
func Start(ctx context.Context, d wsdir.Dir, l *guest.Launch, rec *Record) (*guest.Running, error) {
	if l.Socket != "" {
		rec.Token = driver.NewID()
		l.ServingConfig().Token = rec.Token
	}
	l.Started = func(pid int) error {
		rec.PID = pid
		rec.Start, _ = StartTime(pid) // "" is no process's
		return rec.Write(context.WithoutCancel(ctx), d)
	}
	r, err := l.Start(ctx)
	if err != nil {
		return nil, err
	}
	driver.Step(ctx, "guest started")
	return r, nil
}

// Hooks are called around the end of a guest that has a record. Nil is none.
type Hooks struct {
	Before func(ctx context.Context, r *Record)
	After  func(ctx context.Context, r *Record) error // an error leaves the record, for a second try
}

// EndTimeout bounds the end of a guest, on a machine under load.
const EndTimeout = 60 * time.Second

// LockAndEnd ends the guest of a workspace, if it has one, and whatever ran in it.
func LockAndEnd(ctx context.Context, d wsdir.Dir, hooks *Hooks) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), EndTimeout)
	defer cancel()
	// Without a lock no guest was ever started, or the workspace is gone.
	lock, err := flockfile.Lock(ctx, filepath.Join(d.Path, lockName), flock.SetFlag(os.O_RDWR))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("lock the guest: %w", err)
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	return End(ctx, d, hooks)
}

// shutdownTimeout is how long a guest that was asked to end may take.
const shutdownTimeout = 10 * time.Second

// End ends the guest: by asking, and then by force. The lock is held.
func End(ctx context.Context, d wsdir.Dir, hooks *Hooks) error {
	rec := ReadRecord(d)
	if rec != nil && hooks != nil && hooks.Before != nil {
		hooks.Before(ctx, rec)
	}
	ask, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	token := ""
	if rec != nil {
		token = rec.Token
	}
	socket := filepath.Join(d.Path, SocketName)
	_, missing := os.Lstat(socket)
	asked := missing == nil && guest.Stop(ask, socket, token) == nil
	driver.Step(ctx, "guest asked to end")
	if rec != nil {
		if err := rec.endProcess(ctx, d, asked, hooks); err != nil {
			return err
		}
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// endProcess waits for the end of the process, kills it where it takes too long, and
// forgets it.
func (r *Record) endProcess(ctx context.Context, d wsdir.Dir, asked bool, hooks *Hooks) error {
	wait := time.Duration(0)
	if asked {
		wait = shutdownTimeout
	}
	if err := r.Kill(ctx, wait); err != nil {
		return err
	}
	if hooks != nil && hooks.After != nil {
		if err := hooks.After(ctx, r); err != nil {
			return err
		}
	}
	// The directory may be gone by now. A full disk must not keep a workspace from
	// being removed: a record that stays names a process that has ended.
	err := (*Record)(nil).Write(ctx, d)
	if errors.Is(err, os.ErrNotExist) || fault.Of(err) == fault.ResourceExhausted {
		return nil
	}
	return err
}

// StartTime is when a process started, in the kernel's words.
func StartTime(pid int) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field, the name in parentheses, may hold anything.
	_, rest, _ := strings.Cut(string(data[max(0, strings.LastIndex(string(data), ")")):]), " ")
	fields := strings.Fields(rest)
	const startField = 22 - 3 // counted from 1; rest begins with the third
	if len(fields) <= startField {
		return "", fmt.Errorf("/proc/%d/stat has %d fields: %w", pid, len(fields), fault.Internal)
	}
	return fields[startField], nil
}
