package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/history"
	"github.com/croft-run/croft/internal/host/toolchain"
	"github.com/croft-run/croft/internal/server/mcpserver"
	"github.com/croft-run/croft/internal/suggest"
	"github.com/croft-run/croft/internal/tool/snapshots"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// toolFlags are the flags of commands that run tools.
type toolFlags struct {
	dir        string
	dirs       string   // NAME=DIR,NAME=DIR
	names      []string // of existing workspaces
	provider   string
	git        string
	readOnly   bool
	approve    []string
	checkpoint string
	policy     console.PolicyFlags
	host       console.HostDirFlags
	maxText    int
	announce   bool // print the workspaces at the start
	once       bool // the process ends after one answer
	empty      bool // use an empty workspace instead of the current directory
}

func (t *toolFlags) registerFlags(f *pflag.FlagSet) {
	f.StringVar(&t.dir, "dir", "", "directory of the host that is used in place (default the current one)")
	f.StringVar(&t.dirs, "dirs", "", "several directories of the host, NAME=DIR,NAME=DIR; NAME is optional")
	f.StringArrayVar(&t.names, "workspace", nil, "workspace by name or id, instead of a directory; may be given several times")
	f.StringVar(&t.provider, "provider", "", "kind of workspace; see croft provider list (default sandbox)")
	console.RegisterGit(f, &t.git)
	f.BoolVar(&t.readOnly, "read-only", false, "make the workspaces read-only, and offer only tools that change nothing")
	f.StringArrayVar(&t.approve, "approve", nil, "allow, ask or deny calls, such as 'ask:Bash(git push*)' or 'deny:Write(*.env)'; the first rule that matches counts; may be given several times")
	console.RegisterCheckpoints(f, &t.checkpoint)
	f.IntVar(&t.maxText, "max-text", t.maxText, "maximum bytes of the text of an answer; what is left out can be read with an offset; 0 is tools.maxText of the configuration, else 30000")
	t.host.RegisterFlags(f, " beside the workspaces", " beside the workspaces")
	chosen := f.Lookup("toolchain")
	chosen.Usage = strings.Replace(chosen.Usage, "(default none)", "(default auto for directories in the provider sandbox)", 1)
	t.policy.RegisterFlags(f)
}

type mcpOptions struct {
	toolFlags
	http     string
	hosts    []string
	insecure bool
	toolset  string
	tools    []string
	tracker  string
}

func (a *command) mcpCommand() *cobra.Command {
	var opts mcpOptions
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve tools to an agent over the Model Context Protocol",
		Long: `Serve tools for one or several directories to an agent, over standard input and output, or with
--http over HTTP at /mcp (and /sse for older clients).

The directories are used in place. Commands run in a sandbox: they can write only there, see
nothing of the home directories of the host but toolchains and their caches (--toolchain), and have
no network except for the hosts of --allow-net.
Over HTTP every request needs the token: that of --token or CROFT_TOKEN, else that of the data
directory.

With --server, croft relays standard input and output to the MCP endpoint of that server, for
agents that can only start programs. --workspace names one of the server's workspaces.`,
		Example: `  croft mcp --dir ~/src/app
  croft mcp --dirs "app=~/src/app,lib=~/src/lib" --allow-net proxy.golang.org
  croft mcp --http 127.0.0.1:7071 --read-only
  claude mcp add croft -- croft mcp --dir .`,
		Args: cobra.NoArgs,
		RunE: console.RunE(func(ctx context.Context, _ []string) error { return a.runMCP(ctx, opts) }),
	}
	opts.announce = true
	f := cmd.Flags()
	opts.registerFlags(f)
	f.StringVar(&opts.http, "http", "", "serve over HTTP on this HOST:PORT instead of over standard input and output")
	f.StringArrayVar(&opts.hosts, "host", nil, "with --http: a further host name of this server; may be given several times")
	console.RegisterInsecureHTTP(f, &opts.insecure, "with --http: ")
	f.StringVar(&opts.toolset, "toolset", "default", "default (about 20 tools), full (all of them), codegen (those of CodeGen-Sandbox), workspace (workspace_read_file, ...) or both")
	f.StringSliceVar(&opts.tools, "tools", nil, "only these tools, NAME,NAME, instead of a toolset; croft tool lists them")
	f.StringVar(&opts.tracker, "read-tracker", "process", "which clients may change a file after a Read: process (every client of this server) or session (the client that read)")
	return cmd
}

func (a *command) runMCP(ctx context.Context, opts mcpOptions) error {
	toolset, err := mcpserver.ParseToolset(opts.toolset)
	if err != nil {
		return err
	}
	if len(opts.tools) > 0 {
		toolset = mcpserver.ChooseTools(opts.tools)
	}
	scope := tool.ReadScope(opts.tracker)
	if scope != tool.ReadProcess && scope != tool.ReadSession {
		return console.Usagef("--read-tracker %q: give process or session", opts.tracker)
	}
	if a.Server != "" {
		return a.relayMCP(ctx, opts)
	}
	if opts.http == "" && len(opts.hosts) > 0 {
		return console.Usagef("--host needs --http")
	}
	if opts.http != "" {
		if err := app.CheckAddr(opts.http, a.GivenToken() != "", opts.insecure); err != nil {
			return err
		}
	}
	return a.withTools(ctx, opts.toolFlags, scope, func(sys *app.System, env *tool.Env) error {
		if err := checkTools(ctx, env, opts.tools); err != nil {
			return err
		}
		server := mcpserver.New(ctx, mcpserver.Options{
			Env: env, Version: console.Version(), Toolset: toolset, Log: a.NewLogger(slog.LevelError),
			Instructions: instructions(ctx, sys, env),
		})
		defer server.Close()
		if opts.http != "" {
			return a.serveMCP(ctx, sys, server, opts)
		}
		return server.ServeStdio(ctx, a.In, a.Out)
	})
}

// instructions tells a model what commands can reach in the workspaces. It sets the
// programs that no workspace has.
func instructions(ctx context.Context, sys *app.System, env *tool.Env) string {
	list, err := env.Workspaces.List(ctx)
	if err != nil {
		return ""
	}
	var b strings.Builder
	missing := slices.Clone(toolchains)
	for _, e := range list {
		rec, err := sys.Registry.Lookup(ctx, "", e.ID)
		if err != nil || !e.Capabilities.Has(driver.CapShell) {
			continue
		}
		if len(list) > 1 {
			fmt.Fprintf(&b, "In workspace %q: ", e.Name)
		}
		b.WriteString(policyText(rec.Spec.Policy))
		found, err := findPrograms(ctx, env.Workspaces, e.Name)
		if err != nil {
			missing = nil
			continue
		}
		missing = slices.DeleteFunc(missing, func(name string) bool { return slices.Contains(found, name) })
		b.WriteString(toolchainText(found))
	}
	env.Missing = missing
	return b.String()
}

// toolchains are programs that a model or a tool may want to use.
var toolchains = []string{
	"git", "go", "node", "npm", "pnpm", "yarn", "bun", "deno", "python3", "pip", "uv", "poetry", "cargo", "rustc", "java", "mvn", "gradle",
	"gcc", "clang", "make", "cmake", "ruby", "php", "dotnet", "elixir", "rg", "jq", "curl", "pdftotext", "dot", "mmdc",
}

// toolchainTimeout bounds the search for toolchains, which a client waits for.
const toolchainTimeout = 3 * time.Second

// findPrograms returns the toolchains that commands of a workspace find.
func findPrograms(ctx context.Context, workspaces tool.Workspaces, name string) ([]string, error) {
	ws, err := workspaces.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	res, err := ws.Run(ctx, driver.Command{
		Argv: append([]string{"sh", "-c", `for p; do command -v "$p" >/dev/null && echo "$p"; done; true`, "sh"}, toolchains...), Timeout: toolchainTimeout,
	})
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("look for toolchains: %w: exit status %d", fault.Failed, res.ExitCode)
	}
	return strings.Fields(string(res.Stdout)), err
}

// toolchainText names the toolchains, and common ones that are not there.
func toolchainText(found []string) string {
	var missing []string
	for _, name := range []string{"git", "go", "node", "python3", "cargo", "java", "gcc"} {
		if !slices.Contains(found, name) {
			missing = append(missing, name)
		}
	}
	text := "Programs on PATH: " + strings.Join(found, ", ") + ". "
	if len(missing) > 0 {
		text += "Not there: " + strings.Join(missing, ", ") + ". "
	}
	return text
}

// policyText is what a policy means for commands, in words.
func policyText(p driver.Policy) string {
	var hosts []string
	for _, r := range p.Network.Allow {
		hosts = append(hosts, r.Host)
	}
	text := "Commands have no network; the operator can allow hosts (--allow-net HOST). "
	switch {
	case p.Network.Open:
		text = "Commands have network access. "
	case len(hosts) > 0:
		text = "Commands reach these hosts alone: " + strings.Join(hosts, ", ") + ". "
	}
	if p.ReadOnly {
		text += "The files are read-only. "
	}
	text += "They have a private HOME, without the user's files. "
	var limits []string
	for _, l := range driver.Resources {
		if most := p.Limits[l.Name].Max; most != 0 {
			limits = append(limits, fmt.Sprintf("%s %d %s", l.Name, most, l.Unit))
		}
	}
	if len(limits) > 0 {
		text += "Limits: " + strings.Join(limits, ", ") + ". "
	}
	return text
}

// checkTools refuses a name of --tools that no tool has.
func checkTools(ctx context.Context, env *tool.Env, names []string) error {
	list, err := env.Available(ctx, "")
	if err != nil {
		return err
	}
	var known []string
	for _, t := range slices.Concat(list, env.Tools) {
		known = append(known, t.Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return console.Usagef("--tools: unknown tool %q%s; croft tool lists them", name, suggest.Hint(name, known))
		}
	}
	return nil
}

// serveMCP answers over HTTP until ctx ends.
func (a *command) serveMCP(ctx context.Context, sys *app.System, server *mcpserver.Server, opts mcpOptions) error {
	l, err := app.Listen(ctx, opts.http)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(mcpserver.Path, server.Handler())
	mux.Handle(mcpserver.SSEPath, server.SSEHandler())
	mux.HandleFunc("/", mcpserver.Missing)
	hosts := console.AllowedHosts(opts.http, opts.hosts)
	web := &http.Server{
		Handler: mcpserver.Guard(mux, sys.Token, hosts), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 1 << 20,
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	served := make(chan error, 1)
	go func() { served <- web.Serve(l) }()
	a.Note("listening on http://%s%s", l.Addr(), mcpserver.Path)
	if a.GivenToken() == "" {
		a.Note("the token is in %s", sys.TokenPath())
	}
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	server.Close()
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), console.StopTimeout)
	defer cancel()
	if err := web.Shutdown(after); err != nil {
		err = errors.Join(err, web.Close())
		<-served
		return err
	}
	<-served
	return nil
}

// minMaxText is the least value of --max-text.
const minMaxText = 1000

// withTools runs f with the tools for the workspaces of the flags, and closes both
// afterwards.
func (a *command) withTools(ctx context.Context, opts toolFlags, scope tool.ReadScope, f func(*app.System, *tool.Env) error) (err error) {
	if opts.maxText != 0 && opts.maxText < minMaxText {
		return console.Usagef("--max-text: give at least %d", minMaxText)
	}
	approval, err := parseApproval(opts.approve)
	if err != nil {
		return err
	}
	if len(opts.names) > 0 && opts.host.Given() {
		return console.Usagef("--rw, --ro and --toolchain are for directories: give them to croft ws open")
	}
	if len(opts.names) > 0 && (opts.dir != "" || opts.dirs != "") {
		return console.Usagef("--workspace names a workspace that exists: leave out --dir and --dirs")
	}
	sys, err := a.OpenSystem(ctx, app.Config{Operator: true, Token: a.GivenToken(), Log: a.NewLogger(slog.LevelError)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sys.Close(ctx)) }()
	cfg := tool.Config{Approval: approval, ReadOnly: opts.readOnly, Readers: scope, MaxText: opts.maxText}
	if opts.once {
		cfg.Results = sys.ResultDir()
	}
	if opts.checkpoint != "" {
		limits, err := history.ParseLimits(opts.checkpoint)
		if err != nil {
			return console.Usagef("--checkpoints: %v", err)
		}
		cfg.Around = snapshots.Around(func(context.Context, *tool.Call) (history.Limits, bool) { return limits, true })
	}
	if _, err := sys.Discard(ctx, app.MCPLabel, nil); err != nil {
		a.Note("croft: remove leftovers of an earlier run: %v", err)
	}
	if len(opts.names) > 0 {
		cfg.SecretsOf = func(_, id string) string { return id }
		if cfg.Workspaces, err = a.namedWorkspaces(ctx, sys, opts); err != nil {
			return err
		}
		defer func() {
			after, cancel := context.WithTimeout(context.WithoutCancel(ctx), console.StopTimeout)
			defer cancel()
			err = errors.Join(err, sys.DestroyForks(after, cfg.Workspaces))
		}()
	} else {
		dirs, err := a.openDirs(ctx, sys, opts)
		if err != nil {
			if _, lookupErr := sys.Registry.Lookup(ctx, "", opts.dir); fault.Of(err) == fault.NotFound && lookupErr == nil {
				return fmt.Errorf("%w; --dir is a directory of the host, for the workspace %s use --workspace %[2]s", err, opts.dir)
			}
			return err
		}
		defer func() { err = errors.Join(err, dirs.destroyAll(ctx)) }()
		cfg.Workspaces, cfg.Fork = dirs.set, dirs.fork
	}
	env, err := sys.ToolEnv(cfg)
	if err != nil {
		return err
	}
	defer func() {
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), console.StopTimeout)
		defer cancel()
		err = errors.Join(err, env.Close(after))
	}()
	if err := a.checkApproval(ctx, env, approval); err != nil {
		return err
	}
	return f(sys, env)
}

// checkApproval refuses a rule with a misspelt tool, and warns of one whose tool does
// not exist: such a rule has no effect.
func (a *command) checkApproval(ctx context.Context, env *tool.Env, approval *tool.Approval) error {
	if approval == nil {
		return nil
	}
	list, err := env.Available(ctx, "")
	if err != nil {
		return err
	}
	var names []string
	for _, t := range slices.Concat(list, env.Tools) {
		names = append(names, t.Name)
	}
	for _, r := range approval.Rules {
		if strings.Contains(r.Tool, "*") || slices.Contains(names, r.Tool) {
			continue
		}
		if hint := suggest.Hint(r.Tool, names); hint != "" {
			return console.Usagef("--approve %q: no tool %s%s", r, r.Tool, hint)
		}
		a.Note("croft: warning: --approve %q: no tool %s here; the rule has no effect", r, r.Tool)
	}
	return nil
}

func parseApproval(rules []string) (*tool.Approval, error) {
	if len(rules) == 0 {
		return nil, nil
	}
	a := &tool.Approval{}
	for _, s := range rules {
		r, err := tool.ParseRule(s)
		if err != nil {
			return nil, err
		}
		a.Rules = append(a.Rules, r)
	}
	return a, nil
}

// namedWorkspaces returns the workspaces of --workspace. A failed one is an error: it would
// only have an empty list of tools.
func (a *command) namedWorkspaces(ctx context.Context, sys *app.System, opts toolFlags) (tool.Workspaces, error) {
	set := sys.Workspaces(opts.names...)
	for _, name := range opts.names {
		rec, err := sys.Registry.Lookup(ctx, "", name)
		if err != nil {
			return nil, err
		}
		if opts.readOnly && !rec.Spec.Policy.ReadOnly {
			return nil, console.Usagef("--read-only: workspace %s is writable; open one with croft ws open --read-only", name)
		}
		if rec.State != registry.Failed {
			continue
		}
		if _, err := set.Get(ctx, name); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// A dirSet holds the workspaces of croft mcp in directories, and their forks.
type dirSet struct {
	sys *app.System
	set *tool.Set

	mu  sync.Mutex
	ids []string // guarded by mu
}

// destroyAll destroys the workspaces; directories that are used in place stay.
func (d *dirSet) destroyAll(ctx context.Context) error {
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), console.StopTimeout)
	defer cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, id := range d.ids {
		if err := d.sys.Registry.Destroy(after, id); err != nil && fault.Of(err) != fault.NotFound {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// fork opens a workspace from a snapshot of another one. It ends with the server.
func (d *dirSet) fork(ctx context.Context, c *tool.Call, snapshot, name string) (string, error) {
	if name != "" {
		if err := tool.CheckName(name); err != nil {
			return "", err
		}
		if _, err := d.set.Get(ctx, name); err == nil {
			return "", tool.Errorf(fault.AlreadyExists, "workspace %q exists already; choose another name", name)
		}
	}
	forkOf, err := c.ForkOf(ctx)
	if err != nil {
		return "", err
	}
	ws, err := d.sys.Fork(ctx, c.Workspace.ID(), snapshot, "", map[string]string{app.MCPLabel: "true"})
	if err != nil {
		return "", err
	}
	d.addID(ws.ID())
	if name == "" {
		name = ws.ID()
	}
	return name, d.set.AddFork(name, ws, forkOf)
}

func (d *dirSet) addID(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ids = append(d.ids, id)
}

// openDirs opens a workspace in each directory.
func (a *command) openDirs(ctx context.Context, sys *app.System, opts toolFlags) (*dirSet, error) {
	dirs := map[string]string{"workspace": ""}
	empty := opts.empty || opts.policy.Template != "" // a template has its files
	if !empty || opts.dir != "" || opts.dirs != "" {
		if opts.dir != "" && opts.dirs != "" {
			return nil, fmt.Errorf("--dir %q and --dirs %q are mutually exclusive; use one: %w", opts.dir, opts.dirs, fault.InvalidArgument)
		}
		var err error
		if dirs, err = mcpserver.ParseWorkspaces(opts.dir, opts.dirs); err != nil {
			return nil, err
		}
	}
	d := &dirSet{sys: sys, set: new(tool.Set)}
	for _, name := range slices.Sorted(maps.Keys(dirs)) {
		ws, err := a.openDir(ctx, opts, dirs[name], d)
		if err == nil {
			err = d.set.Add(name, ws)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("workspace %s: %w", name, err), d.destroyAll(ctx))
		}
	}
	if opts.announce {
		a.Note("%s", mcpserver.StartLine(dirs))
		if opts.readOnly {
			a.Note("croft mcp: read-only: tools that change files are not offered")
		}
	}
	return d, nil
}

func (a *command) openDir(ctx context.Context, opts toolFlags, dir string, d *dirSet) (*workspace.Workspace, error) {
	spec := workspace.Spec{Dir: dir, Labels: map[string]string{app.MCPLabel: "true"}}
	kind, err := a.runProvider(opts.provider, &spec)
	if err != nil {
		return nil, err
	}
	if kind != sandbox.Kind && (opts.git != "" || opts.host.Given()) {
		return nil, console.Usagef("--git, --rw, --ro and --toolchain are for the provider %s", sandbox.Kind)
	}
	if err := opts.policy.Apply(&spec, a.Server != ""); err != nil {
		return nil, err
	}
	own := sandbox.Options{Throwaway: true, Git: opts.git}
	if kind == sandbox.Kind {
		if own.Binds, own.Sockets, err = a.BoundDirs(opts.host); err != nil {
			return nil, err
		}
		names := opts.host.Toolchains
		if len(names) == 0 && !opts.empty {
			names = a.defaultToolchains(ctx, d.sys, spec)
		}
		if err := a.AddToolchains(names, dir, &spec, &own); err != nil {
			return nil, err
		}
		a.AddGitIdentity(ctx, dir, &spec)
		if err := console.SetProviderOptions("", own, &spec); err != nil {
			return nil, err
		}
	}
	spec.Policy.Idle, spec.Policy.ReadOnly = runIdle, opts.readOnly
	rec, err := d.sys.Create(ctx, spec, opts.policy.Name)
	if err != nil {
		return nil, err
	}
	d.addID(rec.ID)
	return d.sys.Registry.Acquire(ctx, rec.ID)
}

// defaultToolchains returns the toolchains of a directory in the sandbox without --toolchain:
// an agent is to find what the user has. Isolation process can't hide the credential files in
// a toolchain, and refuses one that has some.
func (a *command) defaultToolchains(ctx context.Context, sys *app.System, spec workspace.Spec) []string {
	level := spec.Policy.Isolation
	if p, err := sys.Mux.Provider(sandbox.Kind); err == nil && level != driver.IsolationProcess {
		traits, _ := p.Probe(ctx) // opening the workspace fails with the same error
		level = traits.Isolation
	}
	if level == driver.IsolationProcess {
		a.Note("croft: the toolchains of your home directory are not shown: isolation process can't hide credential files in them; --toolchain NAME shows one")
		return nil
	}
	return []string{toolchain.Auto}
}
