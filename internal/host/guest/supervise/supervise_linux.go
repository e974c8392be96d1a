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
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/flockfile"
	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/workspace/driver"
)

// Names in a workspace directory.
const (
	SocketName = "sock"       // where the guest listens
	lockName   = "guest.lock" // flock of the process that finds, starts or ends the guest
)

// record is the section of the state file with the process of the guest.
const record = wsdir.Section[Record]("guest")

// Lock takes the flock guest.lock, under which a guest is found, started or ended; the wait
// may take seconds. The error is fs.ErrNotExist if the workspace was removed.
func Lock(ctx context.Context, dir string) (*flock.Flock, error) {
	return flockfile.Lock(ctx, filepath.Join(dir, lockName))
}

// A Record identifies the process of a guest. The host wrote it; nothing in it comes from
// the guest.
type Record struct {
	Key   string `json:"key"`   // of the guest's settings, see Key: a provider that needs others ends the guest
	PID   int    `json:"pid"`   // on this host; 0 while it is about to start, and in a container
	Start string `json:"start"` // start time of that process in /proc: process ids are reused
	Token string `json:"token"` // of connections to its socket: a workload of the same user may be able to open it

	Mount  uint64   `json:"mount,omitempty"`  // id of the mount of the workspace inside, where files are reached through it
	Groups []string `json:"groups,omitempty"` // directories of its control groups, made or about to be
	Paused bool     `json:"paused,omitempty"` // its workload is frozen until it is resumed
	Made   []string `json:"made,omitempty"`   // files and directories of the host that were made for it and go with it

	Container string `json:"container,omitempty"` // name of the container that the guest runs in; the engine knows its process
}

// Key is a short digest of the settings that a guest runs with.
func Key(parts ...any) (string, error) {
	data, err := json.Marshal(parts)
	if err != nil {
		return "", fmt.Errorf("%w: %w", fault.Internal, err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8]), nil
}

// ReadRecord returns the record of the guest; nil without one, and nil if the state file
// can't be read: a power loss, which ends every guest, has truncated it.
func ReadRecord(d wsdir.Dir) *Record {
	m, err := d.Read()
	if err != nil {
		return nil
	}
	return RecordIn(m)
}

// RecordIn returns the record of the guest in a state.
func RecordIn(m *wsdir.State) *Record {
	rec, err := record.Get(m)
	if err != nil {
		return nil
	}
	return rec
}

// Write writes the record to the state file.
func (r *Record) Write(ctx context.Context, d wsdir.Dir) error {
	_, err := d.Update(ctx, false, r.PutIn)
	return err
}

// PutIn puts the record into a state that is being changed; nil removes it.
func (r *Record) PutIn(m *wsdir.State) error { return record.Set(m, r) }

// Adopt connects to a guest that runs under key, if there is one, and returns its record.
// The error is that of HostError. The caller holds guest.lock.
func Adopt(ctx context.Context, d wsdir.Dir, key, version, workspace string) (*guest.Client, *Record, error) {
	m, err := d.Read()
	if err != nil {
		return nil, nil, HostError(ctx, err)
	}
	rec := RecordIn(m)
	if rec == nil || rec.Key != key {
		return nil, nil, nil
	}
	c, err := guest.Dial(ctx, filepath.Join(d.Path, SocketName), rec.Token, version, workspace)
	if err != nil {
		return nil, nil, HostError(ctx, err)
	}
	return c, rec, nil
}

// HostError returns an error if err, of an attempt to connect to a guest, has its cause on
// this side: ctx has ended, or the host is out of descriptors or memory. Then the guest may run,
// with sessions, and must not be replaced.
func HostError(ctx context.Context, err error) error {
	// The deadline of a connection may pass before the timer of its context.
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return fmt.Errorf("connect to the guest: %w", context.DeadlineExceeded)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("connect to the guest: %w", err)
	}
	var errno syscall.Errno
	if errors.As(err, &errno) && fault.Of(errno) == fault.ResourceExhausted {
		return fmt.Errorf("connect to the guest: %w: %w", fault.ResourceExhausted, errno)
	}
	return nil
}

// Start starts a guest. It writes rec, with the process id, to the state file before the
// guest does anything. The caller holds guest.lock and has called End.
func Start(ctx context.Context, d wsdir.Dir, l *guest.Launch, rec *Record) (*guest.Running, error) {
	if l.Socket != "" {
		rec.Token = driver.NewID()
		l.ServingConfig().Token = rec.Token
	}
	l.Started = func(pid int) error {
		rec.PID = pid
		rec.Start, _ = StartTime(pid) // no process has the start time ""
		return rec.Write(context.WithoutCancel(ctx), d)
	}
	r, err := l.Start(ctx)
	if err != nil {
		return nil, err
	}
	driver.Step(ctx, "guest started")
	return r, nil
}

// Hooks are called around the end of a guest that has a record. Each may be nil.
type Hooks struct {
	Before func(ctx context.Context, r *Record)
	After  func(ctx context.Context, r *Record) error // an error keeps the record, for another attempt
}

// EndTimeout bounds the end of a guest, on a machine under load.
const EndTimeout = 60 * time.Second

// LockAndEnd takes guest.lock and ends the guest of a workspace, if it has one.
func LockAndEnd(ctx context.Context, d wsdir.Dir, hooks *Hooks) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), EndTimeout)
	defer cancel()
	// Without the file no guest was ever started, or the workspace was removed.
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

// End asks the guest to end, and kills it if necessary. The caller holds guest.lock.
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

// endProcess waits for the end of the process, kills the process after a time-out, and
// removes the record.
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
	// The directory may be removed by now. A full disk must not prevent the removal of a
	// workspace: a stale record names a process that has ended.
	err := (*Record)(nil).Write(ctx, d)
	if errors.Is(err, os.ErrNotExist) || fault.Of(err) == fault.ResourceExhausted {
		return nil
	}
	return err
}

// StartTime returns the start time of a process, field 22 of /proc/PID/stat.
func StartTime(pid int) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field, the name in parentheses, may contain any character.
	_, rest, _ := strings.Cut(string(data[max(0, strings.LastIndex(string(data), ")")):]), " ")
	fields := strings.Fields(rest)
	const startField = 22 - 3 // counted from 1; rest begins with the third
	if len(fields) <= startField {
		return "", fmt.Errorf("/proc/%d/stat has %d fields: %w", pid, len(fields), fault.Internal)
	}
	return fields[startField], nil
}
