package eval

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A LoopbackServer answers what the processes of workspaces ask at a loopback address
// inside: no request leaves the fence. It is given to the provider that opens them,
// which passes on what is asked there.
type LoopbackServer struct {
	Base string // where it is reached inside, such as http://127.0.0.1:3128

	mu       sync.Mutex
	handlers map[string]http.Handler // guarded by mu; by workspace
}

// Handler returns what answers a workspace, nil where nothing does.
func (i *LoopbackServer) Handler(workspace string) http.Handler {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.handlers[workspace]
}

// setHandler lets h answer a workspace until stop is called.
func (i *LoopbackServer) setHandler(workspace string, h http.Handler) (stop func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.handlers == nil {
		i.handlers = map[string]http.Handler{}
	}
	i.handlers[workspace] = h
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.handlers, workspace)
	}
}

// serve lets h answer what runs in the environment, at the URL that it returns, until
// stop is called.
func (p *Env) serve(ctx context.Context, h http.Handler) (base string, stop func(), err error) {
	switch {
	case p.loopback != nil:
		return p.loopback.Base, p.loopback.setHandler(p.Workspace.ID(), h), nil
	case !p.sandboxed:
		return serveOnHost(ctx, h)
	}
	return "", nil, fmt.Errorf("eval: answer what runs in the workspace: %w: its provider passes nothing on; use the sandbox", fault.Unsupported)
}

// serveOnHost lets h answer at an address of this host, below a path that is
// random.
func serveOnHost(ctx context.Context, h http.Handler) (base string, stop func(), err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("eval: listen: %w: %w", fault.Unavailable, err)
	}
	path := "/" + driver.NewID()
	mux := http.NewServeMux()
	mux.Handle(path+"/", http.StripPrefix(path, h))
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	return "http://" + l.Addr().String() + path, func() {
		cancel()
		srv.Close() //nolint:errcheck // no request is expected any more
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			return // it had ended before
		}
	}, nil
}
