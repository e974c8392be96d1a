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

	"github.com/croft-run/croft/eval/agent"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// An Env is the environment of one execution: a workspace whose processes see it, and
// the directories that they need besides, at the paths that these have on the
// host.
type Env struct {
	Workspace *workspace.Workspace

	dir          string                          // the workspace, as its processes see it
	env          map[string]string               // of every command
	sandboxed    bool                            // what runs here can't reach the host
	loopback     *LoopbackServer                 // answers what runs here; nil is nothing, unless it is not fenced
	onHost       bool                            // dir is a directory of the host with the very files
	transport    http.RoundTripper               // asks hosts as what runs here would; nil is that nothing is in between
	waitRequests func(ctx context.Context) error // waits until all requests were passed to Requests; nil is that none are
	destroy      func(ctx context.Context) error

	noHostMounts bool   // nothing of the host is shown inside
	template     string // of an environment without host mounts: what was copied to it
	home         string // of an environment without host mounts: where programs keep files of their own; "" is nowhere
}

// Dir returns the path of the workspace, which is the same inside and outside.
func (p *Env) Dir() string { return p.dir }

// runCommand runs a command to its end. Whatever it started has ended then, too.
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

// close ends what runs here, and removes what was made for it. A directory of the
// host stays.
func (p *Env) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	return p.destroy(ctx)
}

// closeTime bounds the end of an environment.
const closeTime = 30 * time.Second

// An EnvFactory opens environments.
type EnvFactory interface {
	// Kind names what they are.
	Kind() string

	// Sandboxed reports whether what runs in them can't reach the host.
	Sandboxed() bool

	// Ready says why no environment can be opened on this host, if that is so.
	Ready(ctx context.Context) error

	// Open makes an environment. At req.Dir there is nothing, or it is the directory to
	// work in, in place.
	Open(ctx context.Context, req EnvSpec) (*Env, error)
}

// An EnvSpec says which environment is wanted. All paths are absolute and without
// symlinks.
type EnvSpec struct {
	Dir      string   // where the workspace is
	Template string   // what it starts with; "" is nothing
	InPlace  bool     // Dir itself is the workspace, with what is in it
	Write    []string // directories of the host that are shown, writable
	Read     []string // and read-only
	Hide     string   // a directory in one of Read of which nothing is shown but what is asked for above; "" is none
	Hosts    []string // that may be reached, as "host" or "host:port"
	Limits   driver.Limits
	Policy   driver.Policy // what else is asked for; Hosts are allowed besides, and its limits do not count
}

// envMap is the environment of this process as a map.
func envMap(list []string) map[string]string {
	env := make(map[string]string, len(list))
	for _, kv := range list {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "" {
			env[name] = value
		}
	}
	return env
}
