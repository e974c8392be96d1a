package keep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/guest"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/flockfile"
	"github.com/croft-run/croft/workspace/driver"
)

// Names in the directory of a workspace.
const (
	SocketName = "sock"       // where the guest listens
	RecordName = "guest"      // which process it is: a Record, as JSON
	LockName   = "guest.lock" // held by who finds, starts or ends the guest
)

// Prepare makes a directory one that can have a guest.
func Prepare(dir string) error {
	return os.WriteFile(filepath.Join(dir, LockName), nil, 0o600)
}

// Lock takes the guest of a workspace for whoever finds, starts or ends it. It
// is fs.ErrNotExist where the workspace is gone.
func Lock(ctx context.Context, dir string) (*flock.Flock, error) {
	return flockfile.Lock(ctx, filepath.Join(dir, LockName), flock.SetFlag(os.O_RDWR)) // without O_CREATE: it must not come back after the workspace
}

// A Record says which process a guest is. The host wrote it: the guest itself is
// not asked.
type Record struct {
	Key   string `json:"key"`   // of how it runs: who wants another ends it
	PID   int    `json:"pid"`   // on this host; 0 while it is about to start
	Start string `json:"start"` // when that process started, as the kernel tells it: numbers are used again
	Token string `json:"token"` // what it wants to hear from who connects: a workload of the same user may reach its socket

	Mount  uint64   `json:"mount,omitempty"`  // id of the mount of the workspace inside, where files are reached through it
	Groups []string `json:"groups,omitempty"` // directories of its control groups, made or about to be
	Made   []string `json:"made,omitempty"`   // files and directories of the host that were made for it and go with it
}

// Read returns the record in dir; nil without an error for one that a power
// loss, which no guest outlives, has torn.
func Read(dir string) (*Record, error) {
	data, err := os.ReadFile(filepath.Join(dir, RecordName))
	if err != nil {
		return nil, err
	}
	rec := new(Record)
	if err := driver.DecodeStrict(data, rec); err != nil {
		return nil, nil //nolint:nilerr // see above
	}
	return rec, nil
}

// Write puts the record into dir.
func (r *Record) Write(dir string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, RecordName)
	return atomicfile.Write(path, data, atomicfile.Options{Temp: path + ".new"})
}

// Adopt attaches to a guest that runs under key, if there is one, and returns
// its record. The lock is held.
func Adopt(ctx context.Context, dir, key, version, workspace string) (*guest.Client, *Record) {
	rec, err := Read(dir)
	if err != nil || rec == nil || rec.Key != key {
		return nil, nil
	}
	c, err := guest.Dial(ctx, filepath.Join(dir, SocketName), rec.Token, version, workspace)
	if err != nil {
		return nil, nil
	}
	return c, rec
}

// Start starts a guest and notes in rec, and on disk, which process it is, before
// it does anything. The lock is held, and End was called.
func Start(ctx context.Context, dir string, l *guest.Launch, rec *Record) (*guest.Running, error) {
	if l.Socket != "" {
		rec.Token = driver.NewID()
		l.Serving().Token = rec.Token
	}
	l.Started = func(pid int) error {
		rec.PID = pid
		rec.Start, _ = StartTime(pid) // "" is no process's
		return rec.Write(dir)
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
	After  func(r *Record) error // an error leaves the record, for a second try
}

// EndTimeout bounds the end of a guest, on a machine under load.
const EndTimeout = 60 * time.Second

// EndIn ends the guest of the workspace in dir, if it has one, and whatever ran
// in it.
func EndIn(ctx context.Context, dir string, hooks *Hooks) error {
	if _, err := os.Lstat(dir); err != nil {
		return nil //nolint:nilerr // there is no workspace, so there is no guest
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), EndTimeout)
	defer cancel()
	alone, err := Lock(ctx, dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("lock the guest: %w", err)
	}
	defer alone.Close() //nolint:errcheck // the lock ends with the descriptor, whatever it answers
	return End(ctx, dir, hooks)
}

// patience is how long a guest that was asked to end may take.
const patience = 10 * time.Second

// End ends the guest: by asking, and then by force. The lock is held.
func End(ctx context.Context, dir string, hooks *Hooks) error {
	rec, err := Read(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read the record of the guest: %w", err)
	}
	if rec != nil && hooks != nil && hooks.Before != nil {
		hooks.Before(ctx, rec)
	}
	ask, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	token := ""
	if rec != nil {
		token = rec.Token
	}
	socket := filepath.Join(dir, SocketName)
	_, missing := os.Lstat(socket)
	asked := missing == nil && guest.Stop(ask, socket, token) == nil
	driver.Step(ctx, "guest asked to end")
	if rec != nil {
		wait := time.Duration(0)
		if asked {
			wait = patience
		}
		if err := rec.Kill(ctx, wait); err != nil {
			return err
		}
		if hooks != nil && hooks.After != nil {
			if err := hooks.After(rec); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{SocketName, RecordName} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
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
