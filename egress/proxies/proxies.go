// Package proxies keeps the proxies of workspaces, package egress, for a provider
// whose workspaces are on this host: one for each workspace, shared by all who
// hold it in this process, behind a socket in a directory that the guest of the
// workspace reaches.
//
// Programs inside trust the roots of the system and, where the proxy adds
// credentials, the authority of the workspace. Both are in one file, which is
// shown inside and written anew when the authority changes.
package proxies

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/croft-run/croft/egress"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/workspace/driver"
)

// BundleName is the name of the file with the roots, in Places.Roots.
const BundleName = "roots.pem"

// Paths says where the proxy of a workspace keeps what is its own.
type Paths struct {
	Socket    string // where it listens; its directory is made
	Authority string // keys of the workspace's authorities: nothing inside may read it
	Roots     string // directory of the bundle, made where a policy allows something
}

// Set are the proxies of a provider, by workspace.
type Set struct {
	ctx    context.Context // of what they serve
	common egress.Options
	log    *slog.Logger

	mu   sync.Mutex
	open map[string]*workspaceProxy // guarded by mu
}

// New returns outlets that serve until ctx ends. common is what their proxies
// share: all but Workspace, Policy, AuthorityFile and Refused.
func New(ctx context.Context, common egress.Options, log *slog.Logger) *Set {
	return &Set{ctx: ctx, common: common, log: log, open: map[string]*workspaceProxy{}}
}

// An workspaceProxy is the proxy of one workspace.
type workspaceProxy struct {
	proxy   *egress.Proxy
	refused Refusals
	socket  string
	roots   string
	refs    int
	serve   sync.WaitGroup
}

// Acquire makes the proxy of a workspace obey a policy, and starts it if this process
// has none. What is held is given back by Release.
func (o *Set) Acquire(id string, at Paths, n driver.Network) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if one := o.open[id]; one != nil {
		if err := one.setPolicy(n); err != nil {
			return err
		}
		one.refs++
		return nil
	}
	one, err := o.startProxy(id, at, n)
	if err != nil {
		return err
	}
	one.refs = 1
	o.open[id] = one
	return nil
}

// Release gives back what Hold gave; the last one closes the proxy.
func (o *Set) Release(ctx context.Context, id string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	one := o.open[id]
	if one == nil {
		return nil
	}
	if one.refs--; one.refs > 0 {
		return nil
	}
	delete(o.open, id)
	err := one.proxy.Close(ctx)
	one.serve.Wait()
	return err
}

// A Ref is what one handle holds of the proxy of its workspace. The zero value holds
// nothing. It is not safe for concurrent use.
type Ref struct {
	set *Set
	id  string
}

// Acquire holds the proxy of a workspace, see Outlets.Hold, in place of what was held.
func (p *Ref) Acquire(ctx context.Context, o *Set, id string, at Paths, n driver.Network) error {
	if err := o.Acquire(id, at, n); err != nil {
		return fmt.Errorf("start the proxy: %w: %w", fault.Of(err), err)
	}
	p.Release(ctx)
	p.set, p.id = o, id
	return nil
}

// closeTimeout bounds the end of a proxy.
const closeTimeout = 10 * time.Second

// Release gives back what was held, if anything was.
func (p *Ref) Release(ctx context.Context) {
	o := p.set
	if o == nil {
		return
	}
	p.set = nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := o.Release(ctx, p.id); err != nil {
		o.log.Warn("outlet: the proxy of a workspace does not end", "workspace", p.id, "error", err)
	}
}

// Update makes the proxy of a workspace obey a policy, if it is open.
func (o *Set) Update(id string, n driver.Network) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if one := o.open[id]; one != nil {
		return one.setPolicy(n)
	}
	return nil
}

// Dial reaches the proxy of a workspace, for a guest that can't: NotFound where
// this process has none.
func (o *Set) Dial(ctx context.Context, id string) (net.Conn, error) {
	o.mu.Lock()
	one := o.open[id]
	o.mu.Unlock()
	if one == nil {
		return nil, fmt.Errorf("outlet: workspace %s has no proxy here: %w", id, fault.NotFound)
	}
	dir, err := os.Open(filepath.Dir(one.socket))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var d net.Dialer
	return d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(one.socket)))
}

// Settle waits until nothing goes through the proxy of a workspace, if this process
// has one; see egress.Proxy.
func (o *Set) Settle(ctx context.Context, id string) error {
	o.mu.Lock()
	one := o.open[id]
	o.mu.Unlock()
	if one == nil {
		return nil
	}
	return one.proxy.Settle(ctx)
}

// Refused returns what remembers the refusals of a workspace, nil where this
// process has no proxy for it.
func (o *Set) Refused(id string) *Refusals {
	o.mu.Lock()
	defer o.mu.Unlock()
	if one := o.open[id]; one != nil {
		return &one.refused
	}
	return nil
}

func (o *Set) startProxy(id string, at Paths, n driver.Network) (*workspaceProxy, error) {
	const passable = 0o711 // whoever is inside may reach the socket by its name
	if err := os.Mkdir(filepath.Dir(at.Socket), passable); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	one := &workspaceProxy{socket: at.Socket, roots: at.Roots}
	opts := o.common
	opts.Refused = one.refused.add
	opts.Workspace, opts.Policy, opts.AuthorityFile = id, n, at.Authority
	var err error
	if one.proxy, err = egress.New(&opts); err != nil {
		return nil, err
	}
	l, err := listenUnix(at.Socket)
	if err != nil {
		return nil, err
	}
	if !n.None() {
		if err := one.writeBundle(); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	one.serve.Go(func() {
		// One that is given back at once is closed before it could begin.
		if err := one.proxy.Serve(o.ctx, l); err != nil && fault.Of(err) != fault.WrongState {
			o.log.Error("outlet: the proxy of a workspace ended", "workspace", id, "error", err)
		}
	})
	return one, nil
}

// setPolicy makes the proxy obey a policy, and programs inside trust what it then signs
// for.
func (one *workspaceProxy) setPolicy(n driver.Network) error {
	if err := one.proxy.SetPolicy(n); err != nil {
		return err
	}
	if n.None() {
		return nil
	}
	return one.writeBundle()
}

// writeBundle writes the roots of the system with the authorities of the workspace,
// atomically.
func (one *workspaceProxy) writeBundle() error {
	if err := os.Mkdir(one.roots, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	roots, err := egress.SystemRoots()
	if err != nil && len(one.proxy.CAPEM()) > 0 {
		return err // what a program then trusts must not depend on who is asked
	}
	return atomicfile.Write(filepath.Join(one.roots, BundleName), one.proxy.Bundle(roots), atomicfile.Options{Mode: 0o644}) // everyone inside reads it
}

// listenUnix listens on a socket that takes the place of any that is there.
func listenUnix(path string) (net.Listener, error) {
	// Whoever is inside may be this very user, and have put a link there.
	dir, err := os.OpenFile(filepath.Dir(path), os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	// The address of a socket holds 108 bytes, so it goes through the descriptor.
	there := fmt.Sprintf("/proc/self/fd/%d/", dir.Fd())
	at := there + driver.NewID()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(at, 0o666), os.Rename(at, there+filepath.Base(path))); err != nil { // the directory above is 0700
		return nil, errors.Join(err, l.Close(), os.Remove(at))
	}
	return l, nil
}
