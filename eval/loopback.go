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

// A LoopbackServer serves requests of workspaces to a loopback address inside the
// sandbox. The provider that opens the workspaces has the same value, and forwards the
// requests; none of them leaves the sandbox.
type LoopbackServer struct {
	Base string // its URL inside, such as http://127.0.0.1:3128

	mu       sync.Mutex
	handlers map[string]http.Handler // guarded by mu; by workspace
}

// Handler returns the handler of a workspace, nil if there is none.
func (i *LoopbackServer) Handler(workspace string) http.Handler {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.handlers[workspace]
}

// setHandler sets the handler of a workspace until stop is called.
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

// serve lets h answer the processes of the environment, at the URL that it returns, until
// stop is called.
func (p *Env) serve(ctx context.Context, h http.Handler) (base string, stop func(), err error) {
	switch {
	case p.loopback != nil:
		return p.loopback.Base, p.loopback.setHandler(p.Workspace.ID(), h), nil
	case !p.sandboxed:
		return serveOnHost(ctx, h)
	}
	return "", nil, fmt.Errorf("eval: serve the workspace: %w: its provider forwards no requests; use the sandbox", fault.Unsupported)
}

// serveOnHost serves h at a loopback address of the host, below a random path.
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
