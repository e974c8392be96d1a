package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/toolchain"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Sandbox opens environments in kernel sandboxes. The template is the lower directory of
// an overlayfs: nothing is copied.
type Sandbox struct {
	Provider driver.Provider // of kind "sandbox"

	// Isolation is the least level; "" is the provider's default.
	Isolation driver.Isolation

	// Loopback serves requests of agents to a loopback address inside. The provider must
	// have the same value. Nil is none: no tools are given, and no tapes played.
	Loopback *LoopbackServer

	mu     sync.Mutex
	proven bool // guarded by mu; Ready has succeeded
}

// Kind returns the kind of the provider.
func (s *Sandbox) Kind() string { return s.Provider.Kind() }

// Sandboxed returns true.
func (s *Sandbox) Sandboxed() bool { return true }

// Ready opens and destroys a workspace, which fails on a host without kernel isolation.
// It does so once.
func (s *Sandbox) Ready(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proven {
		return nil
	}
	d, err := s.Provider.Open(ctx, driver.Spec{ID: driver.NewID(), Kind: s.Provider.Kind(), Config: json.RawMessage(`{"throwaway":true}`), Policy: driver.Policy{Isolation: s.Isolation}})
	if err != nil {
		return err
	}
	s.proven = true
	return d.Life.Destroy(context.WithoutCancel(ctx))
}

// Open opens a throwaway workspace.
func (s *Sandbox) Open(ctx context.Context, req EnvSpec) (*Env, error) {
	policy, err := policyOf(req)
	if err != nil {
		return nil, err
	}
	if s.Isolation != "" {
		policy.Isolation = s.Isolation
	}
	cfg := sandbox.Options{Throwaway: true, Template: req.Template, Binds: bindMounts(req)}
	addToolchains(&cfg, req)
	spec := driver.Spec{ID: driver.NewID(), Kind: s.Provider.Kind(), Policy: policy}
	if req.InPlace {
		spec.Dir = req.Dir
	} else {
		cfg.At = req.Dir
		if slices.ContainsFunc(cfg.Binds, func(b sandbox.Bind) bool { return paths.Inside(b.Dir, req.Dir) }) { // the mount point lies in a bind mount: it is made on the host
			if err := os.MkdirAll(req.Dir, 0o755); err != nil {
				return nil, fmt.Errorf("eval: make the workspace: %w: %w", fault.Of(err), err)
			}
		}
	}
	if spec.Config, err = json.Marshal(cfg); err != nil {
		return nil, err
	}
	d, err := s.Provider.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	ws, err := workspace.New(spec.ID, d, nil, nil)
	if err != nil {
		return nil, errors.Join(err, d.Life.Destroy(context.WithoutCancel(ctx)))
	}
	// Starting the guest is part of the preparation, not of the agent's time.
	if _, err := ws.Sessions(ctx); err != nil {
		return nil, errors.Join(err, ws.Destroy(context.WithoutCancel(ctx)))
	}
	env := sandboxEnv(os.Environ())
	maps.Copy(env, req.Policy.Env)
	p := &Env{Workspace: ws, dir: req.Dir, env: env, sandboxed: true, loopback: s.Loopback, onHost: req.InPlace, destroy: ws.Destroy}
	if t, ok := s.Provider.(egressProvider); ok {
		p.transport = lazyTransport{t, spec.ID}
		p.waitRequests = func(ctx context.Context) error { return t.WaitIdle(ctx, spec.ID) }
	}
	return p, nil
}

// An egressProvider sends requests through the egress proxy of a workspace.
type egressProvider interface {
	Transport(workspace string) (http.RoundTripper, error)

	// WaitIdle waits until the events of requests that have ended were emitted.
	WaitIdle(ctx context.Context, workspace string) error
}

// lazyTransport gets the egress transport of a workspace at each request: most sessions
// send none.
type lazyTransport struct {
	provider  egressProvider
	workspace string
}

// RoundTrip sends a request on a connection of its own, without keep-alive.
func (l lazyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	t, err := l.provider.Transport(l.workspace)
	if err != nil {
		return nil, err
	}
	if one, ok := t.(*http.Transport); ok {
		one.DisableKeepAlives = true
	}
	return t.RoundTrip(r)
}

// policyOf is the policy of an environment: that of the configuration, with the requested
// hosts and limits.
func policyOf(req EnvSpec) (driver.Policy, error) {
	rules, err := netRules(req.Hosts)
	if err != nil {
		return driver.Policy{}, err
	}
	p := req.Policy
	p.Limits = req.Limits
	p.Network.Allow = slices.Concat(p.Network.Allow, rules)
	return p, nil
}

// bindMounts lists the bind mounts of an environment. A directory inside another mount,
// or inside the workspace, is not mounted again. A read-only mount may contain the
// workspace and writable mounts.
func bindMounts(req EnvSpec) []sandbox.Bind {
	var list []sandbox.Bind
	add := func(dirs []string, readOnly bool) {
		for _, dir := range sortByLength(dirs) {
			shown := req.InPlace && paths.Inside(req.Dir, dir) || slices.ContainsFunc(list, func(b sandbox.Bind) bool { return paths.Inside(b.Dir, dir) })
			if !shown {
				list = append(list, sandbox.Bind{Dir: dir, ReadOnly: readOnly, HideCredentials: readOnly && isProgramDir(req, dir)})
			}
		}
	}
	add(req.Write, false)
	add(req.Read, true)
	holds := func(b sandbox.Bind) bool { return b.ReadOnly && b.Dir != req.Hide && paths.Inside(b.Dir, req.Hide) }
	if req.Hide != "" && slices.ContainsFunc(list, holds) {
		list = append(list, sandbox.Bind{Dir: req.Hide, ReadOnly: true, Empty: true})
	}
	return list
}

// isProgramDir reports whether a directory of req.Read is there for programs alone: it
// contains nothing else that is mounted.
func isProgramDir(req EnvSpec, dir string) bool {
	programs := func(other string) bool { return slices.Contains(req.Programs, other) }
	named := slices.Concat([]string{req.Dir}, req.Write, slices.DeleteFunc(slices.Clone(req.Read), programs))
	return programs(dir) && !slices.ContainsFunc(named, func(other string) bool { return paths.Inside(dir, other) })
}

// addToolchains adds toolchains and their caches, without what overlaps with a directory
// that is mounted anyway.
func addToolchains(c *sandbox.Options, req EnvSpec) {
	taken := []string{req.Dir}
	for _, b := range c.Binds {
		taken = append(taken, b.Dir)
	}
	free := func(dir string) bool {
		return !slices.ContainsFunc(taken, func(other string) bool { return paths.Inside(dir, other) || paths.Inside(other, dir) })
	}
	for _, dir := range toolchain.Dirs(req.Tools) {
		in := slices.ContainsFunc(taken, func(other string) bool { return paths.Inside(other, dir) })
		writable := slices.ContainsFunc(c.Binds, func(b sandbox.Bind) bool { return !b.ReadOnly && paths.Inside(dir, b.Dir) })
		if !in && !writable && !paths.Inside(dir, req.Dir) { // it may contain directories that are read-only, too
			c.Binds = append(c.Binds, sandbox.Bind{Dir: dir, ReadOnly: true, HideCredentials: true})
		}
	}
	for _, x := range toolchain.Caches(req.Tools) {
		if free(x.Dir) && (x.Home == "" || free(x.Home)) {
			c.Caches = append(c.Caches, sandbox.Cache(x))
		}
	}
}

func sortByLength(dirs []string) []string {
	dirs = slices.Clone(dirs)
	slices.SortStableFunc(dirs, func(a, b string) int { return len(a) - len(b) })
	return slices.Compact(dirs)
}

// netRules parses allowed hosts: "host", "host:port", "*.host", an address with or
// without a port.
func netRules(hosts []string) ([]driver.NetRule, error) {
	var rules []driver.NetRule
	for _, h := range hosts {
		rule := driver.NetRule{Host: h}
		if host, port, err := net.SplitHostPort(h); err == nil {
			n, err := strconv.Atoi(port)
			if err != nil || n < 1 || n > 65535 {
				return nil, fmt.Errorf("eval: allowNet %q: %w: a host, or host:port", h, fault.InvalidArgument)
			}
			rule.Host, rule.Ports = host, []int{n}
		}
		rule.Private = rule.Host == "localhost" || strings.HasSuffix(rule.Host, ".localhost")
		rules = append(rules, rule)
	}
	return rules, nil
}

// hostOnlyVars are environment variables of the host that are not passed into a sandbox.
// A name that ends in * is a prefix.
var hostOnlyVars = []string{
	"HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TMP", "TEMP", "PWD", "OLDPWD", "SHLVL", "_", "MAIL", "HOSTNAME", "DISPLAY", "WAYLAND_DISPLAY",
	"XAUTHORITY", "SSH_*", "XDG_*", "DBUS_*", "LD_*", "CROFT_*", "GPG_*", "KRB5*", "DOCKER_*", "KUBECONFIG",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy", "NODE_USE_ENV_PROXY",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE",
	"CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "DENO_CERT", "npm_config_cafile",
}

// sandboxEnv returns the host's environment without hostOnlyVars.
func sandboxEnv(list []string) map[string]string {
	env := envMap(list)
	for name := range env {
		if slices.ContainsFunc(hostOnlyVars, func(p string) bool {
			prefix, is := strings.CutSuffix(p, "*")
			return name == p || is && strings.HasPrefix(name, prefix)
		}) {
			delete(env, name)
		}
	}
	return env
}
