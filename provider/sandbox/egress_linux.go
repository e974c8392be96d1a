package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/croft-run/croft/egress"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/guest"
	"github.com/croft-run/croft/workspace/driver"
)

// A workspace reaches the hosts that its policy allows through a proxy, package
// egress, in the process that holds it. The proxy listens on a socket in
// <root>/<id>/egress, a descriptor of which the guest has; the guest passes a
// loopback port inside on to it. Where the policy allows nothing the proxy is
// there as well, to say so and to leave an event.
//
// The roots that programs inside trust are a file in <root>/<id>/roots, which is
// shown inside: it is written anew when the authority of the workspace changes,
// while what runs goes on.

const (
	egressName    = "egress"        // directory of the socket
	proxyName     = "proxy.sock"    // the socket, as package guest knows it
	authorityName = "authority.pem" // keys of the workspace's authorities: beside, not in, that directory
	relayPort     = 3128
	rootsName     = "roots" // directory of the bundle
	bundleName    = "roots.pem"
	bundleDir     = "/run/croft" // that directory inside
)

// A wayOut is the proxy of one workspace, shared by the handles of this process.
type wayOut struct {
	proxy *egress.Proxy
	roots string // directory of the bundle
	held  int
	serve sync.WaitGroup

	refused refused
}

// waysOut are those of a provider, by workspace.
type waysOut struct {
	mu   sync.Mutex
	open map[string]*wayOut
}

// hold returns the proxy of a workspace under a policy, and starts it if this
// process has none.
func (w *waysOut) hold(p *Provider, id string, n driver.Network) (*egress.Proxy, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	way := w.open[id]
	if way == nil {
		var err error
		if way, err = p.wayOut(id, n); err != nil {
			return nil, err
		}
		if w.open == nil {
			w.open = map[string]*wayOut{}
		}
		w.open[id] = way
	} else if err := way.set(n); err != nil {
		return nil, err
	}
	way.held++
	return way.proxy, nil
}

// release gives back what hold gave; the last one closes the proxy.
func (w *waysOut) release(ctx context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	way := w.open[id]
	if way == nil {
		return nil
	}
	if way.held--; way.held > 0 {
		return nil
	}
	delete(w.open, id)
	err := way.proxy.Close(ctx)
	way.serve.Wait()
	return err
}

// update makes the proxy of a workspace obey a policy, if it is open.
func (w *waysOut) update(id string, n driver.Network) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if way := w.open[id]; way != nil {
		return way.set(n)
	}
	return nil
}

// set makes the proxy obey a policy, and programs inside trust what it then signs
// for.
func (w *wayOut) set(n driver.Network) error {
	if err := w.proxy.SetPolicy(n); err != nil {
		return err
	}
	if n.None() {
		return nil
	}
	return writeBundle(w.roots, w.proxy)
}

// writeBundle writes the roots of the system with the authorities of a workspace
// into a directory, atomically.
func writeBundle(dir string, proxy *egress.Proxy) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	roots, err := egress.SystemRoots()
	if err != nil && len(proxy.CAPEM()) > 0 {
		return err // what a program then trusts must not depend on who is asked
	}
	tmp := filepath.Join(dir, "."+driver.NewID())
	if err := os.WriteFile(tmp, proxy.Bundle(roots), 0o644); err != nil { //nolint:gosec // everyone inside reads it
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, bundleName))
}

// wayOut starts a proxy.
func (p *Provider) wayOut(id string, n driver.Network) (*wayOut, error) {
	dir := p.ground.Path(id, egressName)
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	way := &wayOut{roots: p.ground.Path(id, rootsName)}
	proxy, err := egress.New(&egress.Options{
		Workspace: id, Policy: n, Refused: way.refused.add, Secrets: p.cfg.Secrets, Credentials: p.cfg.Credentials, Events: p.cfg.Events,
		AuthorityFile: p.ground.Path(id, authorityName), Resolver: p.cfg.Resolver, RootCAs: p.cfg.RootCAs,
	})
	if err != nil {
		return nil, err
	}
	l, err := listenAt(filepath.Join(dir, proxyName))
	if err != nil {
		return nil, err
	}
	way.proxy = proxy
	if !n.None() {
		if err := writeBundle(way.roots, proxy); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	way.serve.Go(func() {
		if err := proxy.Serve(p.ctx, l); err != nil {
			p.log.Error("sandbox: the proxy of a workspace ended", "workspace", id, "error", err)
		}
	})
	return way, nil
}

// listenAt listens on a socket that takes the place of any that is there.
func listenAt(path string) (net.Listener, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	// The address of a socket holds 108 bytes, so it goes through the descriptor.
	fresh := driver.NewID()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), fresh), Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	at := filepath.Join(filepath.Dir(path), fresh)
	if err := errors.Join(os.Chmod(at, 0o666), os.Rename(at, path)); err != nil { //nolint:gosec // the directory above is 0700
		return nil, errors.Join(err, l.Close(), os.Remove(at))
	}
	return l, nil
}

// connect gives a guest that is to be launched its way out.
func (p *Provider) connect(l *guest.Launch, u unit) (*os.File, error) {
	dir, err := os.Open(p.ground.Path(u.id, egressName))
	if err != nil {
		return nil, err
	}
	if l.Config.Kernel == nil {
		l.Files = append(l.Files, guest.Named{Name: "egress", File: dir})
	}
	cfg := serving(l)
	cfg.Relay = relayPort
	bundle := ""
	if u.roots != "" {
		bundle = bundleDir + "/" + bundleName
	}
	for name, value := range egress.Env(relayPort, bundle) {
		if _, set := cfg.Env[name]; !set {
			cfg.Env[name] = value
		}
	}
	return dir, nil
}

// closeTimeout bounds the end of a proxy.
const closeTimeout = 10 * time.Second

// checkNetwork refuses what no level gives.
func checkNetwork(n driver.Network) error {
	if n.Open {
		return fmt.Errorf("open network: %w: name the hosts that may be reached", fault.Unsupported)
	}
	return nil
}
