package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/host/cmdpolicy"
	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// A Machine is the place of one workspace on another machine. An error that is an
// UnreachableError means that the machine does not answer, and nothing is known about it.
type Machine interface {
	// Name is the name of the machine, for messages.
	Name() string

	// Root is the path of the files on it.
	Root() string

	// Version is the version of the guest's program for the machine.
	Version() (string, error)

	// Connect connects to the guest that runs there. It fails if there is none.
	Connect(ctx context.Context, token, version, workspace string) (*guest.Client, error)

	// Start starts a guest and connects to it. With isNew it first creates the directory of
	// the workspace; without, it fails with NotFound if that is gone.
	Start(ctx context.Context, cfg guestproto.Config, isNew bool) (*guest.Client, error)

	// End ends the guest, if there is one.
	End(ctx context.Context, token string) error

	// Remove ends the guest and removes all that the workspace has there, if anything.
	Remove(ctx context.Context, token string) error
}

// An UnreachableError says why a machine can't be reached.
type UnreachableError struct{ Err error }

// Error returns the text of the cause.
func (e *UnreachableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

func isUnreachable(err error) bool {
	var u *UnreachableError
	return errors.As(err, &u)
}

// A Provider has what the workspaces of a provider share.
type Provider struct {
	Store     *wsdir.Store
	Kind      string
	Lease     time.Duration   // how long a guest lives while no process has its workspace open
	Snapshots *snapshot.Store // nil means no snapshots
	Traits    driver.Traits   // of every workspace; Root is added

	// Commands checks commands before they are sent.
	Commands *cmdpolicy.Checker

	// Find returns the machine of the workspace whose directory on this host is dir. The
	// error is fs.ErrNotExist if none is recorded, and so nothing is on a machine.
	Find func(dir string) (Machine, error)
}

// Capabilities returns the capabilities of a workspace.
func (p *Provider) Capabilities() driver.Capabilities {
	return driver.NewCapabilities(driver.CapFS, driver.CapShell).With(driver.CapSnapshot, p.Snapshots != nil)
}

// CheckSpec refuses a spec that no such provider can fulfil.
func (p *Provider) CheckSpec(spec driver.Spec) error {
	switch {
	case spec.Dir != "":
		return fmt.Errorf("%s: open: a directory in place: %w: the files are on another machine", p.Kind, fault.Unsupported)
	case spec.From.Template != "":
		return fmt.Errorf("%s: open: template %q: %w: it is not a snapshot", p.Kind, spec.From.Template, fault.Unsupported)
	}
	if err := spec.Policy.Check(p.Traits); err != nil {
		return fmt.Errorf("%s: open: %w", p.Kind, err)
	}
	return nil
}

// made is set in the state once the files of the workspace exist on the machine.
const made = wsdir.Section[bool]("made")

// Ensure creates the directory of a workspace on this host, or updates an existing one. own
// is the provider's part of the state. record writes the file that names the machine, on
// stable storage, to the directory of a new workspace.
func (p *Provider) Ensure(ctx context.Context, spec driver.Spec, own []byte, record func(dir string) error) (*wsdir.State, error) {
	m, err := p.Store.Ensure(ctx, spec, own, record)
	if err != nil || made.In(m) {
		return m, err
	}
	// From here on things may exist on the machine, which only this directory names.
	return m, atomicfile.SyncDir(p.Store.Path())
}

func (p *Provider) newRef(m *wsdir.State) (driver.Ref, error) {
	return driver.NewRef(p.Kind, driver.RefID{ID: m.ID}, p.Capabilities(), m.Revision)
}

// Resolve attaches to the workspace that ref names, if its machine answers.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	var pl driver.RefID
	m, err := p.Store.Resolve(ctx, ref, &pl, &pl.ID, p.Capabilities())
	if err != nil {
		return nil, err
	}
	if !made.In(m) {
		return nil, p.Store.Gone()
	}
	ws, err := p.Attach(ctx, m, nil)
	return ws.Only(ref.Capabilities), err
}

// Attach connects to a workspace, for Open and Resolve. from is the snapshot that a new one
// starts from, or nil.
func (p *Provider) Attach(ctx context.Context, m *wsdir.State, from snapshot.Tree) (*driver.Workspace, error) {
	h := &handle{p: p, id: m.ID, from: from}
	var err error
	if h.machine, err = p.Find(p.Store.Path(m.ID)); errors.Is(err, os.ErrNotExist) {
		err = p.Store.Gone()
	}
	if err != nil {
		return nil, p.Store.OpenFailed(ctx, "attach", err)
	}
	if h.dir, err = p.Store.Attach(ctx, m, wsdir.OpenDirectory); err != nil {
		return nil, err
	}
	h.dir.Via = h.filesModule
	h.att = supervise.NewAttachment(h.dir, p.Store.Dir(m.ID), h.connectGuest)
	ref, err := p.newRef(m)
	if err == nil {
		_, err = h.att.Guest(ctx)
	}
	if err != nil {
		return nil, errors.Join(p.Store.OpenFailed(ctx, "attach", err), h.close(ctx))
	}
	life := driver.Life{Close: h.close, Destroy: h.destroy, Update: h.update}
	if p.Snapshots != nil {
		life.Snapshot = h.snapshotAdapter(m).Module()
	}
	t := p.Traits
	t.Root = h.machine.Root()
	return &driver.Workspace{Ref: ref, Traits: t, Life: life, FS: h.dir.FS(), Shell: p.Commands.Module(driver.ForwardShell(driver.Ask(h.shell)))}, nil
}

// Sweep removes workspaces that are not in live, here and on their machines, and leftovers of
// crashes. A machine that can't be reached is tried once; what is on it stays for the next
// sweep.
func (p *Provider) Sweep(ctx context.Context, live []string) error {
	down := map[string]error{}
	return p.Store.Sweep(ctx, live, func(ctx context.Context, dir string) error {
		at, err := p.Find(dir)
		if err == nil && down[at.Name()] != nil {
			return down[at.Name()]
		}
		err = p.removeOnMachine(ctx, dir)
		if isUnreachable(err) {
			down[at.Name()] = err
		}
		return err
	})
}

// removeOnMachine removes what the workspace whose directory on this host is dir has on its
// machine.
func (p *Provider) removeOnMachine(ctx context.Context, dir string) error {
	at, err := p.Find(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), supervise.EndTimeout)
	defer cancel()
	lock, err := supervise.Lock(ctx, dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil // another call has removed it
	}
	if err != nil {
		return fmt.Errorf("%s: lock the guest: %w", p.Kind, err)
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	token := ""
	if rec := supervise.ReadRecord(wsdir.Dir{Path: dir, Kind: p.Kind}); rec != nil {
		token = rec.Token
	}
	if err := at.Remove(ctx, token); err != nil {
		return fmt.Errorf("%s: remove the workspace on %s: %w", p.Kind, at.Name(), err)
	}
	driver.Step(ctx, "removed on the machine")
	return nil
}
