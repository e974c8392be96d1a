// Package proxies runs the egress proxies of a provider: one per workspace, shared by all
// handles of this process, on a Unix socket that the workspace's guest reaches. Of several
// processes that have a workspace open, the first one serves; another one takes over when
// that one ends.
//
// Programs inside trust the root certificates of the system and, if the proxy adds
// credentials, the certificate authority of the workspace. Both are in one file, which is
// mounted inside and replaced when the authority changes.
package proxies

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/workspace/driver"
)

// BundleName is the name of the certificate bundle, in Paths.Roots.
const BundleName = "roots.pem"

// Paths are the paths of the files of a workspace's proxy.
type Paths struct {
	Socket    string // Unix socket; its directory is created
	Authority string // keys of the certificate authorities: must not be readable inside
	Roots     string // directory of the bundle, created if the policy allows a host

	// Network returns the present policy, which another process may have changed. It is
	// called for each connection; nil if no other process changes it.
	Network func() (driver.Network, error)
}

// lockPath is the file whose flock the process has that serves.
func (p Paths) lockPath() string { return filepath.Join(filepath.Dir(p.Authority), "proxy.lock") }

// takeoverInterval is how often a process tries to take over from one that serves.
const takeoverInterval = 100 * time.Millisecond

// A Set has the proxies of a provider, by workspace.
type Set struct {
	ctx    context.Context // of all proxies
	common egress.Options
	log    *slog.Logger

	mu   sync.Mutex
	open map[string]*workspaceProxy // guarded by mu
}

// New returns a set whose proxies serve until ctx ends. common has their options, except
// Workspace, Policy, AuthorityFile and Refused.
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
	giveUp  context.CancelFunc // ends the wait for the lock

	mu      sync.Mutex
	network driver.Network // guarded by mu; the policy of proxy
}

// Acquire adds a reference on the proxy of a workspace and sets its policy. It starts the
// proxy if this process has none. Release drops the reference.
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

// Release drops a reference. The last one closes the proxy.
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
	one.giveUp()
	err := one.proxy.Close(ctx)
	one.serve.Wait()
	return err
}

// A Ref is the reference of one handle on the proxy of its workspace. The zero value is no
// reference. It is not safe for concurrent use.
type Ref struct {
	set *Set
	id  string
}

// Acquire replaces the reference by one on the proxy of a workspace: see Set.Acquire.
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

// Release drops the reference, if there is one.
func (p *Ref) Release(ctx context.Context) {
	o := p.set
	if o == nil {
		return
	}
	p.set = nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := o.Release(ctx, p.id); err != nil {
		o.log.Warn("proxies: the proxy of a workspace does not end", "workspace", p.id, "error", err)
	}
}

// Update sets the policy of the proxy of a workspace, if it runs.
func (o *Set) Update(id string, n driver.Network) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if one := o.open[id]; one != nil {
		return one.setPolicy(n)
	}
	return nil
}

// Dial connects to the proxy of a workspace, for a guest that can't reach its socket. It
// returns NotFound if this process has no proxy for the workspace.
func (o *Set) Dial(ctx context.Context, id string) (net.Conn, error) {
	o.mu.Lock()
	one := o.open[id]
	o.mu.Unlock()
	if one == nil {
		return nil, fmt.Errorf("proxies: workspace %s has no proxy in this process: %w", id, fault.NotFound)
	}
	dir, err := os.Open(filepath.Dir(one.socket))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var d net.Dialer
	return d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(one.socket)))
}

// WaitIdle waits until the proxy of a workspace, if this process has one, is idle; see
// egress.Proxy.
func (o *Set) WaitIdle(ctx context.Context, id string) error {
	o.mu.Lock()
	one := o.open[id]
	o.mu.Unlock()
	if one == nil {
		return nil
	}
	return one.proxy.WaitIdle(ctx)
}

// Refused returns the recent refusals of a workspace, nil if this process has no proxy for it.
func (o *Set) Refused(id string) *Refusals {
	o.mu.Lock()
	defer o.mu.Unlock()
	if one := o.open[id]; one != nil {
		return &one.refused
	}
	return nil
}

func (o *Set) startProxy(id string, at Paths, n driver.Network) (*workspaceProxy, error) {
	const passable = 0o711 // any uid inside may open the socket by its name
	if err := os.Mkdir(filepath.Dir(at.Socket), passable); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	one := &workspaceProxy{socket: at.Socket, roots: at.Roots, network: n}
	opts := o.common
	opts.Refused = one.refused.add
	opts.Workspace, opts.Policy, opts.AuthorityFile = id, n, at.Authority
	var err error
	if one.proxy, err = egress.New(&opts); err != nil {
		return nil, err
	}
	if !n.None() {
		if err := one.writeBundle(); err != nil {
			return nil, err
		}
	}
	lock := flock.New(at.lockPath(), flock.SetPermissions(0o600))
	first, err := lock.TryLock()
	var l net.Listener
	if err == nil && first {
		l, err = listenUnix(at.Socket)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	ctx, giveUp := context.WithCancel(o.ctx)
	one.giveUp = giveUp
	one.serve.Go(func() {
		defer lock.Close() //nolint:errcheck // it unlocks; nothing was written
		if l == nil {
			if l, err = takeOver(ctx, lock, at.Socket); l == nil {
				if err != nil {
					o.log.Error("proxies: take over the proxy of a workspace", "workspace", id, "error", err)
				}
				return
			}
		}
		if at.Network != nil {
			l = &refreshListener{l, func() { one.refresh(at.Network) }}
		}
		// A proxy that is released at once is closed before Serve begins.
		if err := one.proxy.Serve(o.ctx, l); err != nil && fault.Of(err) != fault.WrongState {
			o.log.Error("proxies: the proxy of a workspace ended", "workspace", id, "error", err)
		}
	})
	return one, nil
}

// takeOver waits for the end of the process that serves, and listens in its place. The
// listener is nil if ctx ends first.
func takeOver(ctx context.Context, lock *flock.Flock, socket string) (net.Listener, error) {
	ok, err := lock.TryLockContext(ctx, takeoverInterval)
	switch {
	case ctx.Err() != nil:
		return nil, nil
	case err != nil || !ok:
		return nil, err
	}
	return listenUnix(socket)
}

// A refreshListener calls a function after each connection that it accepts.
type refreshListener struct {
	net.Listener
	refresh func()
}

// Accept waits for the next connection.
func (l *refreshListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.refresh()
	}
	return c, err
}

// refresh sets the policy that another process may have changed. If it can't be read, the
// workspace is being removed.
func (one *workspaceProxy) refresh(network func() (driver.Network, error)) {
	if n, err := network(); err == nil {
		_ = one.setPolicy(n) // a policy that was stored is valid
	}
}

// setPolicy sets the policy of the proxy, and updates the certificates that programs inside
// trust.
func (one *workspaceProxy) setPolicy(n driver.Network) error {
	one.mu.Lock()
	defer one.mu.Unlock()
	if reflect.DeepEqual(n, one.network) {
		return nil
	}
	if err := one.proxy.SetPolicy(n); err != nil {
		return err
	}
	one.network = n
	if n.None() {
		return nil
	}
	return one.writeBundle()
}

// writeBundle writes the root certificates of the system and the certificate authorities of
// the workspace, atomically.
func (one *workspaceProxy) writeBundle() error {
	if err := os.Mkdir(one.roots, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	roots, err := egress.SystemRoots()
	if err != nil && len(one.proxy.CAPEM()) > 0 {
		return err // a bundle without the system's roots would break all other hosts
	}
	return atomicfile.Write(filepath.Join(one.roots, BundleName), one.proxy.Bundle(roots), atomicfile.Options{Mode: 0o644}) // readable for every uid inside
}

// listenUnix listens on a Unix socket, and replaces one that exists.
func listenUnix(path string) (net.Listener, error) {
	// O_NOFOLLOW: the workload may be this user, and could have put a symlink there.
	dir, err := os.OpenFile(filepath.Dir(path), os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	// A socket address has at most 108 bytes, so the path goes through the descriptor.
	prefix := fmt.Sprintf("/proc/self/fd/%d/", dir.Fd())
	at := prefix + driver.NewID()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(at, 0o666), os.Rename(at, prefix+filepath.Base(path))); err != nil { // the directory above is 0700
		return nil, errors.Join(err, l.Close(), os.Remove(at))
	}
	return l, nil
}
