package eval

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/eval/agent"
	"github.com/croft-run/croft/internal/host/toolchain"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// An Env is the environment of one execution: a workspace, and the host directories that
// its processes see at their paths on the host.
type Env struct {
	Workspace *workspace.Workspace

	dir          string                          // the workspace, as its processes see it
	env          map[string]string               // of every command
	sandboxed    bool                            // its processes are isolated from the host
	loopback     *LoopbackServer                 // serves its processes; nil for none, except without a sandbox
	onHost       bool                            // dir is the directory of the workspace on the host
	transport    http.RoundTripper               // sends requests through the egress proxy; nil if there is none
	waitRequests func(ctx context.Context) error // waits until all requests were emitted to Requests; nil if none are emitted
	destroy      func(ctx context.Context) error

	noHostMounts bool   // no host directory is mounted
	template     string // without host mounts: the directory that was copied in
	home         string // without host mounts: the home of programs; "" if no directory is writable
}

// Dir returns the path of the workspace, which is the same inside and outside.
func (p *Env) Dir() string { return p.dir }

// runCommand runs a command to its end. All processes that it started have ended then,
// too.
func (p *Env) runCommand(ctx context.Context, c agent.Invocation) (driver.Result, error) {
	name, err := filepath.Rel(p.dir, c.Dir)
	if err != nil || !filepath.IsLocal(name) {
		return driver.Result{}, fmt.Errorf("eval: run %s in %s: %w: it is not in the workspace %s", c.Argv[0], c.Dir, fault.InvalidArgument, p.dir)
	}
	argv, more := p.translatePaths(c.Argv, c.Env)
	env := maps.Clone(p.env)
	maps.Copy(env, more)
	cmd := driver.Command{Argv: argv, Dir: filepath.ToSlash(name), Env: env, Timeout: c.Timeout, Stdin: c.Stdin, MaxOutput: 1 << 16}
	cmd.OnStdout, cmd.OnStderr = outputFunc(c.Stdout), outputFunc(c.Stderr)
	return p.Workspace.Run(ctx, cmd)
}

func outputFunc(w io.Writer) func([]byte) error {
	if w == nil {
		return nil
	}
	return func(p []byte) error {
		_, err := w.Write(p)
		return err
	}
}

// Run makes an Env an agent.Runner.
func (p *Env) Run(ctx context.Context, inv agent.Invocation) (agent.Exit, error) {
	res, err := p.runCommand(ctx, inv)
	if err != nil {
		return agent.Exit{}, err
	}
	return agent.Exit{Code: res.ExitCode, Signal: res.Signal, Cause: res.Cause, Duration: res.Duration, PeakMemory: res.Usage.MaxRSS}, nil
}

// close ends the processes of the environment and removes what was made for it. A
// workspace in place stays.
func (p *Env) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	return p.destroy(ctx)
}

// closeTime bounds closing an environment.
const closeTime = 30 * time.Second

// An EnvFactory opens environments.
type EnvFactory interface {
	// Kind names the kind of the environments.
	Kind() string

	// Sandboxed reports whether the processes in them are isolated from the host.
	Sandboxed() bool

	// Ready returns an error if no environment can be opened on this host.
	Ready(ctx context.Context) error

	// Open makes an environment. req.Dir does not exist, or with InPlace is the directory
	// to work in.
	Open(ctx context.Context, req EnvSpec) (*Env, error)
}

// An EnvSpec describes an environment. All paths are absolute and without symlinks.
type EnvSpec struct {
	Dir      string   // where the workspace is
	Template string   // initial content; "" is empty
	InPlace  bool     // Dir itself is the workspace, with its content
	Write    []string // host directories that are mounted writable
	Read     []string // host directories that are mounted read-only
	Programs []string // those of Read that are installations of programs: their credential files are masked
	Hide     string   // a directory below one of Read that is masked, except for the directories above; "" for none
	Tools    []toolchain.Toolchain
	Hosts    []string // allowed hosts, as "host" or "host:port"
	Limits   driver.Limits
	Policy   driver.Policy // further policy; Hosts are added to it, and its limits are replaced by Limits
}

// envMap returns environment variables as a map.
func envMap(list []string) map[string]string {
	env := make(map[string]string, len(list))
	for _, kv := range list {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "" {
			env[name] = value
		}
	}
	return env
}
