// Package evalcmd implements croft eval.
package evalcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/daemon/evals"
	"github.com/croft-run/croft/internal/host/toolchain"
	"github.com/croft-run/croft/internal/locktmp"
	"github.com/croft-run/croft/internal/server/mcpserver"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace"
)

// A command is what the commands of this package have.
type command struct{ *console.Console }

// Command returns croft eval.
func Command(c *console.Console) *cobra.Command {
	a := &command{c}
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Measure agents in fresh workspaces",
		Long: `Run the cases of a suite on the runners of its configuration, each execution in a fresh
workspace, and report what the agents did. Suites and configurations are those of skillgym,
unchanged, or YAML; see docs/eval.md.`,
	}
	cmd.AddCommand(runCommand(a), listCommand(a), rerunCommand(a), diffCommand(a), explainCommand(a), schemaCommand(a), skillsCommand(a))
	return cmd
}

// Exit statuses of croft eval run and rerun.
const (
	exitCasesFailed = 1
	exitNotRun      = 2
)

// envFlags are the flags for the environments of executions.
type envFlags struct {
	provider  string
	isolation string
	allowNet  []string
	noModel   bool
	host      console.HostDirFlags
	tools     string
	policy    console.PolicyFlags
}

func (p *envFlags) registerFlags(f *pflag.FlagSet) {
	f.StringVar(&p.provider, "provider", "", "environment of agents: sandbox, isolated; local, the host without isolation; or another kind of workspace with a shell, such as docker, for agents of type command and acp (default croft.provider of the suite's configuration, else sandbox)")
	f.StringVar(&p.isolation, "isolation", "", "minimum level of isolation of the sandbox (default the provider's)")
	f.StringArrayVar(&p.allowNet, "allow-net", nil, "allow HOST[:PORT] or a named rule such as @npm, besides what the agents' models need; may be given several times")
	f.BoolVar(&p.noModel, "no-model-net", false, "allow the hosts of the agents' models only if --allow-net or croft.allowNet names them")
	p.host.RegisterFlags(f, "", "")
	f.StringVar(&p.tools, "toolset", "", "also give agents Croft's tools for their workspace, over MCP: default, full, codegen, workspace or both, which are sets of names (default croft.tools, else none)")
	p.policy.RegisterLimits(f, " (each workspace)")
}

// apply sets the options of the flags.
func (p *envFlags) apply(opts *eval.Options) error {
	opts.AllowNet, opts.NoModelNet = p.allowNet, p.noModel
	for _, x := range []struct {
		flag string
		dirs []string
		to   *[]string
	}{{"--ro", p.host.RO, &opts.Read}, {"--rw", p.host.RW, &opts.Write}} {
		for _, dir := range x.dirs {
			abs, err := filepath.Abs(dir)
			if err == nil {
				_, err = os.Stat(abs)
			}
			if err != nil {
				return fmt.Errorf("eval: %s %s: %w: %w", x.flag, dir, fault.Of(err), err)
			}
			*x.to = append(*x.to, abs)
		}
	}
	opts.Limits = p.policy.RequestedLimits()
	return nil
}

// withEnvs runs f with opts.Envs set, and closes the environments afterwards. own are the directories
// of the evaluation, which it may use besides hostRoots.
func (a *command) withEnvs(ctx context.Context, p *envFlags, cfg *suite.Config, own []string, opts *eval.Options, f func() error) (err error) {
	if a.Server != "" {
		return fault.Advise(fmt.Errorf("eval: %w: evaluations run on this host", fault.Unsupported), "leave out --server and CROFT_SERVER")
	}
	settings, err := a.Settings()
	if err != nil {
		return err
	}
	if opts.Tools, opts.Toolset, err = a.tools(p, cfg, settings); err != nil {
		return err
	}
	if opts.AllowNet, err = settings.ExpandHosts(opts.AllowNet); err != nil {
		return err
	}
	if cfg.Croft.AllowNet, err = settings.ExpandHosts(cfg.Croft.AllowNet); err != nil {
		return err
	}
	if opts.Toolchains, err = toolchain.Find(toolchain.Options{}, p.host.Toolchains...); err != nil {
		return err
	}
	kind := p.provider
	if kind == "" {
		kind = cfg.Croft.Provider
	}
	if kind != "" && kind != sandbox.Kind && (len(opts.Write) > 0 || p.host.WantsToolchains()) {
		return console.Usagef("--rw and --toolchain are for the provider %s", sandbox.Kind)
	}
	switch kind {
	case local.Kind:
		opts.Envs = eval.Host{}
		return f()
	case "", sandbox.Kind:
	default:
		return a.withProvider(ctx, kind, opts, f)
	}
	requests, inside := new(eval.Requests), &eval.LoopbackServer{Base: evals.LocalURL}
	sys, err := evals.Open(ctx, evals.Config{Settings: settings, Own: own, Events: requests, LocalHandler: inside.Handler, Log: a.NewLogger(slog.LevelError)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sys.Close(ctx)) }()
	envs := &eval.Sandbox{Provider: sys.Provider, Isolation: workspace.Isolation(p.isolation), Loopback: inside}
	if err := envs.Ready(ctx); err != nil {
		return err
	}
	opts.Requests, opts.Envs = requests, envs
	return f()
}

// withProvider runs f with workspaces of any provider as environments.
func (a *command) withProvider(ctx context.Context, kind string, opts *eval.Options, f func() error) error {
	return a.WithSystem(ctx, "eval", func(sys *app.System) error {
		c := app.NewLocal(sys)
		if _, err := sys.Mux.Provider(kind); err != nil {
			return fmt.Errorf("eval: --provider: %w", err)
		}
		if _, err := sys.Discard(ctx, console.EvalLabel, nil); err != nil {
			a.Note("croft: remove leftovers of an earlier run: %v", err)
		}
		opts.Envs = &eval.ProviderEnvs{Provider: kind, OpenWorkspace: func(ctx context.Context, spec workspace.Spec) (*workspace.Workspace, func(context.Context) error, error) {
			spec.Labels = map[string]string{console.EvalLabel: "true"}
			rec, err := c.CreateWith(ctx, spec, "")
			if err != nil {
				return nil, nil, err
			}
			ws, err := c.Open(ctx, rec.ID)
			return ws, func(ctx context.Context) error { return c.Destroy(ctx, rec.ID) }, err
		}}
		return f()
	})
}

// absDirs returns directories as absolute paths, without empty ones.
func absDirs(dirs ...string) ([]string, error) {
	var list []string
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, fmt.Errorf("eval: %s: %w: %w", dir, fault.Of(err), err)
		}
		list = append(list, abs)
	}
	return list, nil
}

// tools makes the tools for agents, nil if none are requested.
func (a *command) tools(p *envFlags, cfg *suite.Config, settings *config.Config) (tools eval.Tools, name string, err error) {
	if name = p.tools; name == "" {
		name = cfg.Croft.Tools
	}
	if name == "" {
		return nil, "", nil
	}
	set, err := mcpserver.ParseToolset(name)
	if err != nil {
		return nil, "", err
	}
	return evals.Tools{Settings: settings, Toolset: set, Version: console.Version(), Log: a.NewLogger(slog.LevelError)}.Serve, name, nil
}

// A loadedSuite is a suite with its temporary directory, which the configuration, the
// suite and the agents share.
type loadedSuite struct {
	*suite.Suite
	tmp string
}

// Close closes the suite and removes its temporary directory.
func (s *loadedSuite) Close() error { return errors.Join(s.Suite.Close(), locktmp.Remove(s.tmp)) }

// nodeStarter returns a function that starts Node in a sandbox. On a host that has none it fails,
// unless the user named another provider than the sandbox: then Node runs without one.
func (a *command) nodeStarter(provider string) func(context.Context, suite.NodeStart) (*suite.NodeProcess, error) {
	return func(ctx context.Context, start suite.NodeStart) (*suite.NodeProcess, error) {
		p, lacking, err := a.startSandboxedNode(ctx, start)
		if lacking == nil {
			return p, err
		}
		return a.startNodeWithout(ctx, provider, start, err)
	}
}

// startNodeWithout starts Node on a host without a sandbox, which the error says.
func (a *command) startNodeWithout(ctx context.Context, provider string, start suite.NodeStart, err error) (*suite.NodeProcess, error) {
	if provider == "" || provider == sandbox.Kind {
		return nil, fmt.Errorf("%w (with --provider local Node runs without a sandbox)", err)
	}
	a.Note("croft: the suite's Node runs without a sandbox: %v", err)
	return suite.StartNode(ctx, start)
}

// startSandboxedNode starts Node in a sandbox. lacking is why this host has none.
func (a *command) startSandboxedNode(ctx context.Context, start suite.NodeStart) (p *suite.NodeProcess, lacking, err error) {
	if _, err := suite.FindNode(); err != nil {
		return nil, nil, err
	}
	settings, err := a.Settings()
	if err != nil {
		return nil, nil, err
	}
	own, err := absDirs(append(slices.Clone(start.Dirs), start.Tmp)...)
	if err != nil {
		return nil, nil, err
	}
	sys, err := evals.Open(ctx, evals.Config{Settings: settings, Own: own, Log: a.NewLogger(slog.LevelError)})
	if err != nil {
		return nil, nil, err
	}
	closeSystem := func() error { return sys.Close(context.WithoutCancel(ctx)) }
	envs := &eval.Sandbox{Provider: sys.Provider}
	p, err = eval.NodeIn(envs)(ctx, start)
	if err != nil {
		return nil, envs.Ready(ctx), errors.Join(err, closeSystem())
	}
	closeNode := p.Close
	p.Close = sync.OnceValue(func() error { return errors.Join(closeNode(), closeSystem()) })
	return p, nil, nil
}

// loadSuite reads a suite and its configuration. provider is the one that the user named.
func (a *command) loadSuite(ctx context.Context, path, config, provider string) (_ *loadedSuite, _ *suite.Config, err error) {
	if _, err := os.Stat(path); err != nil { // first, so that the error is not that of its configuration
		return nil, nil, fmt.Errorf("eval: suite: %w: %w", fault.Of(err), err)
	}
	tmp, err := locktmp.Make(suite.ScratchPrefix)
	if err != nil {
		return nil, nil, fmt.Errorf("eval: make a temporary directory: %w: %w", fault.Of(err), err)
	}
	l := suite.Loader{TmpDir: tmp, Node: a.nodeStarter(provider)}
	s, cfg, err := l.LoadBoth(ctx, path, config)
	if err != nil {
		return nil, nil, errors.Join(console.Say(err, "croft eval schema suite and croft eval schema config have the keys; "+
			"croft eval skills get core explains how to write a suite"), locktmp.Remove(tmp))
	}
	return &loadedSuite{s, tmp}, cfg, nil
}

// splitValues splits values at commas, except those of the known names.
func splitValues(flag string, values, known []string) ([]string, error) {
	var list []string
	for _, v := range values {
		for parts := strings.Split(v, ","); len(parts) > 0; {
			n := len(parts) // the longest known name
			for n > 1 && !slices.Contains(known, strings.Join(parts[:n], ",")) {
				n--
			}
			name := strings.Join(parts[:n], ",")
			if !slices.Contains(known, name) {
				name = strings.TrimSpace(name)
			}
			if name == "" {
				return nil, console.Usagef("CLI option --%s requires non-empty comma-separated values.", flag)
			}
			list, parts = append(list, name), parts[n:]
		}
	}
	return list, nil
}

// notRun gives an error the exit status of a suite that could not be run.
func notRun(err error) error {
	if passed := new(console.Outcome); err == nil || errors.As(err, &passed) || fault.Of(err) == fault.Canceled {
		return err
	}
	return &console.Outcome{Status: exitNotRun, Err: err}
}

// userHome is the directory from which agents get credentials and settings, or "".
func userHome() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return home
}
