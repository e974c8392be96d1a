package sandbox

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

	"github.com/croft-run/croft/egress"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/guest"
	"github.com/croft-run/croft/posix/boundary"
	"github.com/croft-run/croft/posix/plot"
	"github.com/croft-run/croft/workspace/driver"
)

// A plan is how the guest of a workspace is to run.
type plan struct {
	level   *level
	unit    unit
	version string // of the guest
	key     string // equal for equal plans: what runs under another is to be replaced
}

// plan says how the guest of m runs at a level.
func (p *Provider) plan(l *level, m *plot.Meta, opts options) (*plan, error) {
	bin, err := p.binary()
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	u := unit{id: m.ID, files: p.ground.Files(m), inside: inside, policy: m.Policy, throwaway: opts.Throwaway, template: opts.Template}
	if m.Dir != "" {
		u.inside, u.inPlace = m.Dir, true
	}
	if l.plain {
		u.inside, u.tmp = u.files, p.ground.Path(m.ID, tmpName)
	}
	key, err := json.Marshal([]any{bin.Version, l.name, u.inside, u.throwaway, m.Policy.Durable, m.Policy.Env, m.Policy.ReadOnly, m.Policy.Limits, m.Policy.Network.None(), credentialed(m.Policy.Network)})
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w: %w", fault.Internal, err)
	}
	sum := sha256.Sum256(key)
	return &plan{level: l, unit: u, version: bin.Version, key: hex.EncodeToString(sum[:8])}, nil
}

// adopt attaches to a guest that runs as planned, if there is one. The lock of
// the guest is held.
func (p *Provider) adopt(ctx context.Context, dir string, want *plan) *live {
	rec, err := readRecord(dir)
	if err != nil || rec == nil || rec.Key != want.key {
		return nil
	}
	c, err := guest.Dial(ctx, filepath.Join(dir, socketName), want.version, want.unit.id)
	if err != nil {
		return nil // start ends what is left of it
	}
	g := &live{Client: c}
	if want.unit.mounted() {
		if err := p.reach(g, rec, want.unit); err != nil {
			p.log.Warn("sandbox: the mount of a guest can't be reached; it is replaced", "workspace", want.unit.id, "error", err)
			g.close()
			return nil
		}
	}
	return g
}

// A live guest.
type live struct {
	*guest.Client
	root  *boundary.Root // of the workspace as the guest sees it, where files are reached so
	files *driver.FS     // on root
}

func (g *live) close() {
	g.Client.Close() //nolint:errcheck // whether it hears of it or not
	if g.root != nil {
		g.root.Close() //nolint:errcheck // nothing was written through the descriptor
	}
}

// start starts the guest, after the end of any that is there. The lock of the
// guest is held.
func (p *Provider) start(ctx context.Context, dir string, want *plan, proxy *egress.Proxy) (*live, error) {
	if err := p.end(ctx, dir); err != nil {
		return nil, err
	}
	u := want.unit
	u.log = filepath.Join(dir, logName)
	if !u.throwaway {
		u.socket = filepath.Join(dir, socketName)
	}
	if err := p.giveLogs(want.level, u.log); err != nil {
		return nil, fmt.Errorf("sandbox: start the guest: %w: %w", fault.Failed, err)
	}
	if u.tmp != "" {
		if err := os.Mkdir(u.tmp, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("sandbox: start the guest: %w: %w", fault.Failed, err)
		}
	}
	if u.template != "" {
		u.layer = filepath.Join(dir, layerName)
		if err := p.freshLayer(dir); err != nil {
			return nil, fmt.Errorf("sandbox: start the guest: make its layer: %w: %w", fault.Failed, err)
		}
	}
	l, open, err := want.level.launch(p, u)
	if err != nil {
		return nil, fmt.Errorf("sandbox: start the guest: %w: %w", fault.Failed, err)
	}
	defer func() { closeAll(open) }()
	if proxy != nil {
		out, err := p.connect(l, u, proxy)
		if out != nil {
			open = append(open, out)
		}
		if err != nil {
			return nil, fmt.Errorf("sandbox: start the guest: %w: %w", fault.Failed, err)
		}
	}
	l.Config.Version = want.version
	l.Config.Limits = u.policy.Limits
	if !u.throwaway {
		l.Config.Lease = p.cfg.Lease
	}
	rec := &record{Key: want.key, Groups: groupDirs(u)}
	if err := rec.write(dir); err != nil { // before there is anything that only it tells of
		return nil, fmt.Errorf("sandbox: start the guest: %w: %w", fault.Failed, err)
	}
	more, err := groups(l, u)
	defer closeAll(more)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: start the guest: %w: %w", fault.Failed, err), p.end(ctx, dir))
	}
	driver.Step(ctx, "groups made")
	l.Started = func(pid int) error {
		rec.PID = pid
		rec.Start, _ = startTime(pid) //nolint:errcheck // "" is no process's
		return rec.write(dir)
	}
	r, err := l.Start(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: %w", err), p.end(context.WithoutCancel(ctx), dir))
	}
	driver.Step(ctx, "guest started")
	g := &live{Client: r.Client}
	if r.Root != nil {
		if rec.Mount, err = mountID(int(r.Root.Fd())); err == nil {
			err = errors.Join(rec.write(dir), g.use(r.Root, p.ids, u))
		}
		r.Root.Close()
		if err != nil {
			g.close()
			return nil, errors.Join(fmt.Errorf("sandbox: reach the files: %w: %w", fault.Failed, err), p.end(context.WithoutCancel(ctx), dir))
		}
	}
	return g, nil
}

// endTimeout bounds the end of a guest, on a machine under load.
const endTimeout = 60 * time.Second

// endGuest ends the guest of the workspace in dir, if it has one, and whatever
// ran in it.
func (p *Provider) endGuest(ctx context.Context, dir string) error {
	if _, err := os.Lstat(dir); err != nil {
		return nil //nolint:nilerr // there is no workspace, so there is no guest
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	alone, err := lockGuest(ctx, filepath.Join(dir, lockName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("lock the guest: %w", err)
	}
	defer alone.Close() //nolint:errcheck // the lock ends with the descriptor, whatever it answers
	return p.end(ctx, dir)
}

// patience is how long a guest that was asked to end may take.
const patience = 10 * time.Second

// end ends the guest: by asking, and then by force. The lock of the guest is
// held.
func (p *Provider) end(ctx context.Context, dir string) error {
	rec, err := readRecord(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read the record of the guest: %w", err)
	}
	if rec != nil {
		rec.thaw(ctx)
	}
	ask, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	asked := guest.Stop(ask, filepath.Join(dir, socketName)) == nil
	driver.Step(ctx, "guest asked to end")
	if rec != nil {
		wait := time.Duration(0)
		if asked {
			wait = patience
		}
		if err := rec.end(ctx, wait); err != nil {
			return err
		}
		if err := removeGroups(rec.Groups); err != nil {
			return err
		}
	}
	for _, name := range []string{socketName, recordName} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// A record says which process a guest is. This process wrote it: the guest
// itself is not asked.
type record struct {
	Key   string `json:"key"`   // of the plan that it runs as
	PID   int    `json:"pid"`   // on this host; 0 while it is about to start
	Start string `json:"start"` // when that process started, as the kernel tells it: numbers are used again

	Mount uint64 `json:"mount,omitempty"` // id of the mount of the workspace inside, where files are reached through it

	Groups []string `json:"groups,omitempty"` // directories of its control groups, made or about to be
}

// thaw lets go on what is frozen: what is frozen can't die.
func (r *record) thaw(ctx context.Context) {
	if dir, ok := freezer(r.Groups); ok {
		setFrozen(ctx, dir, false) //nolint:errcheck // then it is killed, and that tells
	}
}

func readRecord(dir string) (*record, error) {
	data, err := os.ReadFile(filepath.Join(dir, recordName))
	if err != nil {
		return nil, err
	}
	rec := new(record)
	if err := driver.DecodeStrict(data, rec); err != nil {
		return nil, nil //nolint:nilerr // torn by a power loss, which no guest outlived
	}
	return rec, nil
}

func (r *record) write(dir string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	temp := filepath.Join(dir, recordName+".new")
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, filepath.Join(dir, recordName))
}

// startTime is when a process started, in the kernel's words.
func startTime(pid int) (string, error) {
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
