// Package workcmd implements croft work.
package workcmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/cli/changecmd"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/daemon/work"
	"github.com/croft-run/croft/internal/history"
	"github.com/croft-run/croft/internal/host/process"
	"github.com/croft-run/croft/internal/host/toolchain"
	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

type options struct {
	name      string
	parallel  int
	isolation string
	toolchain bool // --toolchain was given
	allowNet  []string
	policy    console.PolicyFlags
	host      console.HostDirFlags
	start     work.Options
}

// mostParallel bounds the copies that one command makes: each has an agent, and its own disk space.
const mostParallel = 32

// A command is what the commands of this package have.
type command struct{ *console.Console }

// Command returns croft work.
func Command(c *console.Console) *cobra.Command {
	a := &command{c}
	var opts options
	cmd := &cobra.Command{
		Use:   "work [flags] AGENT [-- ARGUMENT...] | work [flags] -- PROGRAM [ARGUMENT...]",
		Short: "Give an agent a copy of your project, review its changes, and apply them",
		Long: `Give an agent, or a command, a copy of the project in the current directory, and run it on this
terminal. The project is the root of the git repository, or the directory; the agent starts in the current directory of it. Uncommitted and ignored files are in
the copy; credential files are left out and named. Nothing in the project changes before croft work apply.

Agents: ` + strings.Join(work.Names(), ", ") + `. An agent has its own program, its settings, and its
login as a placeholder: the key itself is not inside, the proxy adds it to requests to the hosts of the model.
Other hosts can't be reached, unless --allow-net or croft work allow names them, which is remembered for the project.

With --isolation none there is no sandbox: only the project is a copy, and the agent has your home, your login and an open network. macOS has no sandbox;
there --isolation process uses sandbox-exec, which is weaker. Croft says at the start what is not protected.

Detach with ctrl-], or with ~. at the beginning of a line; croft work attach comes back. Meanwhile
the agent has no network, and so no model: an agent that is to work on is started in tmux or screen.

The exit status is that of the agent; 125 is an error of croft itself.`,
		Example: `  croft work claude
  croft work codex -- exec "fix the failing test"
  croft work -- make test
  croft work review && croft work apply`,
		Args: cobra.ArbitraryArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dash := cmd.ArgsLenAtDash()
		switch {
		case dash == 0 && len(args) == 0:
			return console.Usagef("there is no command after --")
		case len(args) == 0:
			return cmd.Help()
		case dash == 0:
			opts.start.Words = args
		case work.FindAgent(args[0]) == nil:
			return console.NoAgent(cmd, args, "")
		case dash == 1 || dash < 0 && len(args) == 1:
			opts.start.Agent, opts.start.Words = work.FindAgent(args[0]), args[1:]
		default:
			return console.Usagef("write the arguments of the agent after --: croft work %s -- %s", args[0], console.ShellText(args[1:]))
		}
		if opts.parallel < 1 {
			return console.Usagef("--parallel %d: give a number of copies, at least 1", opts.parallel)
		}
		if opts.parallel > mostParallel {
			return console.Usagef("--parallel %d: give a number of copies, at most %d", opts.parallel, mostParallel)
		}
		if opts.parallel > 1 && opts.start.InPlace {
			return console.Usagef("--parallel %d: --in-place has no copy, so that there is one work at a time", opts.parallel)
		}
		opts.toolchain = cmd.Flags().Changed("toolchain")
		return console.RunE(func(ctx context.Context, _ []string) error { return a.WithCroftStatus(a.start(ctx, opts)) })(cmd, args)
	}
	f := cmd.Flags()
	f.StringVar(&opts.name, "name", "", "name of the work (default the project and the agent, such as app-claude)")
	f.IntVar(&opts.parallel, "parallel", 1, fmt.Sprintf("start this many independent copies, at most %d, each with its own agent; attach to one with croft work attach", mostParallel))
	f.StringVar(&opts.isolation, "isolation", "", "minimum level of isolation: none, process, bubblewrap, namespaces, gvisor; none runs the agent unconfined, in a copy of the project (default the sandbox's)")
	f.StringArrayVar(&opts.allowNet, "allow-net", nil, "allow network access to HOST[:PORT], or to a registry (@npm, @pypi, @go, @cargo), and remember it for the project; may be given several times")
	f.BoolVar(&opts.start.InPlace, "in-place", false, "no copy: the agent works in the project's directory itself")
	f.BoolVar(&opts.start.NoAsk, "yolo", false, "the agent asks for no permissions: the sandbox is the boundary")
	f.BoolVar(&opts.start.ShareLogin, "share-login", false, "put the login file or key of the agent inside, where everything can read it")
	f.BoolVar(&opts.start.Credentials, "credentials", false, "take credential files of the project, such as .env, along")
	f.StringArrayVar(&opts.policy.Secrets, "secret", nil, "NAME@HOST: allow HOST, and let the proxy add this secret, which the work never sees; may be given several times")
	console.RegisterEnv(f, &opts.policy.Env)
	opts.host.RegisterFlags(f, "", "")
	opts.host.Toolchains = []string{toolchain.Auto}
	chosen := f.Lookup("toolchain")
	chosen.Usage = strings.Replace(chosen.Usage, "(default none)", "(default auto)", 1)
	opts.policy.RegisterLimits(f, "")
	f.BoolVar(&opts.policy.BestEffort, "best-effort", false, "ignore limits that the provider can't enforce")
	cmd.AddCommand(listCommand(a), attachCommand(a), shellCommand(a), diffCommand(a), logCommand(a), reviewCommand(a), applyCommand(a),
		undoCommand(a), discardCommand(a), compareCommand(a), allowCommand(a))
	return cmd
}

// A env is what the commands of croft work have in common.
type env struct {
	user    work.User
	project work.Project // the zero value if the current directory has none
	data    string
}

// env prepares a command of croft work. The project is that of the current directory,
// which commands that name a work do not need.
func (a *command) env(needsProject bool) (*env, error) {
	if a.Server != "" {
		return nil, console.Usagef("croft work uses directories, programs and logins of this host: leave out --server, and unset CROFT_SERVER")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	settings, err := a.Settings()
	if err != nil {
		return nil, err
	}
	e := &env{user: work.User{Home: home, Environ: os.Environ()}, data: settings.Data}
	if e.project, err = work.FindProject(".", home); err != nil {
		if needsProject {
			return nil, err
		}
		e.project = work.Project{}
	}
	a.NoProjects, a.InWork = true, true
	a.Secrets = func() map[string]app.Secret {
		all := map[string]app.Secret{}
		for name, s := range e.user.Secrets() {
			all[name] = app.Secret(s)
		}
		return all
	}
	return e, nil
}

func (a *command) start(ctx context.Context, opts options) error {
	if err := a.chooseIsolation(ctx, &opts); err != nil {
		return err
	}
	e, err := a.env(true)
	if err != nil {
		return err
	}
	if opts.start.Project = e.project; !e.project.Repository {
		a.Note("croft: no git repository: the project is %s", console.Printable(e.project.Dir))
	}
	if err := checkLinkedGit(opts.start); err != nil {
		return err
	}
	if e.project.LinkedGit != "" && !opts.start.InPlace {
		a.Note("croft: .git leads to %s, which is not inside: git does not work there", console.Printable(e.project.LinkedGit))
	}
	settings, err := e.project.LoadSettings(e.data)
	if err != nil {
		return err
	}
	settings.Allow = work.Add(settings.Allow, opts.allowNet...)
	if !opts.start.OnHost {
		if err := a.askRegistries(e, &settings); err != nil {
			return err
		}
	}
	if opts.start.Allow, err = a.rules("--allow-net", a.knownHosts(settings.Allow, opts.allowNet), opts.policy.Secrets); err != nil {
		return err
	}
	env, err := console.ParseEnv(opts.policy.Env)
	if err != nil {
		return err
	}
	e.user = e.user.ForStart(opts.start, env)
	start, err := work.New(opts.start, e.user)
	if err != nil {
		return err
	}
	spec, err := start.Spec()
	if err != nil {
		return err
	}
	if !opts.start.OnHost {
		if err := a.addWorkDirs(opts.host, start, &spec); err != nil {
			return err
		}
		a.AddGitIdentity(ctx, e.project.Dir, &spec)
	}
	for k, v := range env {
		spec.Policy.Env[k] = v
		if start.OnHost { // what the agent has of the user comes last
			delete(start.AgentEnv, k)
		}
	}
	spec.Policy.Limits = opts.policy.RequestedLimits()
	for _, n := range start.Notes {
		a.Note("croft: %s", n)
	}
	return a.WithWorkspaces(ctx, func(c console.Workspaces) error {
		defer a.Housekeep(ctx)
		// They are saved even if nothing is remembered: they name the project of a work.
		if err := e.project.Save(e.data, settings); err != nil {
			return err
		}
		if opts.parallel > 1 {
			return a.parallel(ctx, c, opts, start, spec)
		}
		rec, err := a.createWork(ctx, c, e.project, opts.name, spec)
		if err != nil {
			return err
		}
		console.NoteNotCopied(a.Console, "croft: ", rec.Labels)
		return a.runWork(ctx, c, rec, start, true)
	})
}

// addWorkDirs adds the directories of --rw and --ro, and the toolchains and caches of the
// user, to the spec of a work. PATH has the directories of the agent's interpreter first.
func (a *command) addWorkDirs(h console.HostDirFlags, start *work.Start, spec *workspace.Spec) error {
	own := start.SandboxOptions()
	dirs, sockets, err := a.BoundDirs(h)
	if err != nil {
		return err
	}
	own.Binds, own.Sockets = append(own.Binds, dirs...), sockets
	delete(spec.Policy.Env, "PATH")
	shown := *spec
	shown.Dir = start.Dir // the copy has the path of the project
	if err := a.AddToolchains(h.Toolchains, start.Project.Dir, &shown, &own); err != nil {
		return err
	}
	if len(start.Path) > 0 {
		spec.Policy.Env["PATH"] = strings.Join(append(slices.Clone(start.Path), cmp.Or(spec.Policy.Env["PATH"], process.DefaultPath)), ":")
	}
	spec.Config, err = json.Marshal(own)
	return err
}

// knownHosts returns the hosts that are remembered for a project without those that are no rules,
// which it names, unless they were given now.
func (a *command) knownHosts(remembered, given []string) []string {
	return slices.DeleteFunc(slices.Clone(remembered), func(host string) bool {
		_, err := a.rules("the allowed host", []string{host}, nil)
		if err == nil || slices.Contains(given, host) {
			return false
		}
		a.Note("croft: left out: %v; croft work allow --remove %s forgets it", err, console.Printable(console.ShellQuote(host)))
		return true
	})
}

// rules returns the rules of hosts and secrets. from says where the hosts are named.
func (a *command) rules(from string, hosts, secrets []string) ([]workspace.NetRule, error) {
	var n workspace.Network
	for _, host := range hosts {
		rule, err := console.ParseRule(from, host)
		if err != nil {
			return nil, err
		}
		n.Allow = append(n.Allow, rule)
	}
	flags := console.PolicyFlags{Secrets: secrets}
	if err := flags.ApplyNetwork(&n); err != nil {
		return nil, err
	}
	settings, err := a.Settings()
	if err == nil {
		_, err = settings.ExpandHosts(hosts) // a named rule that does not exist must not be remembered
	}
	return n.Allow, err
}

// createWork opens the workspace of a work. Without a name it gets the first free one.
func (a *command) createWork(ctx context.Context, c console.Workspaces, p work.Project, name string, spec workspace.Spec) (client.Workspace, error) {
	const most = 100 // other processes may take names at the same time
	for try := 1; ; try++ {
		if spec.Name = name; name == "" {
			// An attempt to create captures the project, so that it is better to look first.
			list, err := c.List(ctx, client.Filter{})
			if err != nil {
				return client.Workspace{}, err
			}
			taken := func(ws client.Workspace) bool { return ws.Name == spec.Name }
			for n := 1; n == 1 || slices.ContainsFunc(list, taken); n++ {
				spec.Name = p.Name(spec.Labels[work.AgentLabel], n)
			}
		}
		rec, err := c.CreateWith(ctx, spec, "")
		if name == "" && try < most && fault.Of(err) == fault.AlreadyExists {
			continue
		}
		if err == nil {
			console.WarnUnenforced(a.Console, rec)
		}
		if fault.Of(err) == fault.AlreadyExists {
			works, lerr := works(ctx, c, "")
			if lerr == nil && slices.ContainsFunc(works, func(ws client.Workspace) bool { return ws.Name == name }) {
				err = fault.Advise(fmt.Errorf("work %q: %w", name, fault.AlreadyExists),
					"croft work attach %[1]s returns to it, croft work discard %[1]s removes it", name)
			}
		}
		return rec, err
	}
}

// agentLabel is the label of the sessions of a work's agent.
const agentLabel = "croft-work"

// runWork runs the agent of a work: of one that was just created, or of one whose agent has
// ended. A work that was created for a program that does not exist, or that the command policy
// refuses, is removed.
func (a *command) runWork(ctx context.Context, c console.Workspaces, rec client.Workspace, start *work.Start, created bool) error {
	return a.WithOpened(ctx, c, rec.ID, func(ws *workspace.Workspace) error {
		cmd, err := a.prepareWork(ctx, ws, start)
		if err != nil {
			return err
		}
		if !a.OnTerminal() || a.JSON {
			_, err = a.RunForeground(ctx, c, ws, cmd, false)
			if created && neverStarted(start, err) {
				return a.dropWork(ctx, c, rec, err)
			}
			a.endWork(ctx, c, ws, rec)
			return err
		}
		session, err := a.startAgent(ctx, ws, cmd)
		if created && neverStarted(start, err) {
			return a.dropWork(ctx, c, rec, err)
		}
		if err != nil {
			return err
		}
		return a.attachAgent(ctx, c, ws, rec, session, client.TerminalOptions{})
	})
}

// neverStarted reports whether an error says that the command of a work does not exist, or was
// refused.
func neverStarted(start *work.Start, err error) bool {
	return start.Agent == nil && errors.Is(err, fault.NotFound) || errors.Is(err, fault.SandboxViolation)
}

// dropWork removes a new work whose command never started: nothing is in it.
func (a *command) dropWork(ctx context.Context, c console.Workspaces, rec client.Workspace, cause error) error {
	return errors.Join(cause, console.DestroyWorkspace(ctx, c, rec.ID))
}

// prepareWork writes the files of the agent's home in a sandbox, those of its last session
// first, and returns the agent's command.
func (a *command) prepareWork(ctx context.Context, ws *workspace.Workspace, start *work.Start) (driver.Command, error) {
	command := driver.Command{Argv: start.Argv, Dir: start.Project.Sub, Env: start.AgentEnv, Labels: map[string]string{agentLabel: "true"}}
	a.noteUnreachedModel(ctx, start)
	if start.OnHost {
		return command, nil // its home is that of the user
	}
	settings, err := start.HomeArchive()
	if err != nil {
		return driver.Command{}, err
	}
	file, err := a.savedHome(ws.ID())
	if err != nil {
		return driver.Command{}, err
	}
	saved, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return driver.Command{}, err
	}
	for _, archive := range [][]byte{saved, settings} {
		if archive == nil {
			continue
		}
		res, err := ws.Run(ctx, driver.Command{Script: homeScript, Stdin: bytes.NewReader(archive)})
		if err == nil && res.ExitCode != 0 {
			err = fmt.Errorf("work: write the settings of %s: %w: %s", start.Agent.Name, fault.Failed, console.OneLine(string(res.Stdout)))
		}
		if err != nil {
			return driver.Command{}, err
		}
	}
	return command, nil
}

// gatewayTimeout bounds the wait for the gateway of a model.
const gatewayTimeout = 3 * time.Second

// noteUnreachedModel says which gateway of the model, which the user named, does not accept
// connections: agents try again for minutes without a word.
func (a *command) noteUnreachedModel(ctx context.Context, start *work.Start) {
	settings, err := a.Settings()
	if err != nil {
		return
	}
	for _, at := range start.Gateways {
		host, _, _ := net.SplitHostPort(at)
		if ip := net.ParseIP(host); settings.Network.Proxy.URL != "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			continue // which reaches it
		}
		conn, err := (&net.Dialer{Timeout: gatewayTimeout}).DialContext(ctx, "tcp", at)
		if err == nil {
			conn.Close()
			continue
		}
		where := "its settings"
		if base := start.Agent.Base; base != "" {
			where = base + " or " + where
		}
		a.Note("croft: the model of %s can't be reached at %s, which you named: %s; start the gateway there, or change the address (%s)", start.Agent.Name, console.Printable(at), dialReason(err), where)
	}
}

// dialReason returns why a connection failed, without the addresses.
func dialReason(err error) string {
	var dns *net.DNSError
	var timeout net.Error
	var number syscall.Errno
	switch {
	case errors.As(err, &dns):
		return "the name does not resolve"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer within " + gatewayTimeout.String()
	case errors.As(err, &number):
		return number.Error()
	}
	return console.Printable(err.Error())
}

// jobControl runs a command as the job of a shell, so that ctrl-z does not leave a stopped
// program that nothing can continue.
const jobControl = `set -m; "$@"; code=$?
while [ -n "$(jobs -s)" ]; do
	printf '\r\nstopped; Enter continues it, ctrl-] detaches\r\n'
	read -r _ || exit $code
	fg > /dev/null; code=$?
done
exit $code`

// findScript looks for a program in PATH, and prints PATH if it is not there.
const findScript = `type -P -- "$1" > /dev/null || { printf %s "$PATH"; exit 1; }`

// startAgent starts a session on a terminal that outlives this program, where the provider has
// such sessions.
func (a *command) startAgent(ctx context.Context, ws *workspace.Workspace, cmd driver.Command) (string, error) {
	// The shell of jobControl would start without it.
	res, err := ws.Run(ctx, driver.Command{Argv: []string{"bash", "-c", findScript, "croft", cmd.Argv[0]}, Dir: cmd.Dir})
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("program %q: %w: not in PATH (%s)", cmd.Argv[0], fault.NotFound, console.Printable(string(res.Stdout)))
	}
	if err != nil {
		return "", err
	}
	size := a.TerminalSize()
	cmd.TTY, cmd.Interactive, cmd.Detached = &size, true, !a.EndsWithUs(ws)
	cmd.Argv = slices.Concat([]string{"bash", "-c", jobControl, "croft"}, cmd.Argv)
	session, err := ws.Start(ctx, cmd)
	if err != nil {
		return "", err
	}
	return session.ID(), nil
}

// attachAgent connects this terminal with the session of an agent. When it ends, a summary
// of the work is printed.
func (a *command) attachAgent(ctx context.Context, c console.Workspaces, ws *workspace.Workspace, rec client.Workspace, session string, from client.TerminalOptions) error {
	t, err := console.OpenTerminal(ctx, c, rec.ID, session, from)
	if err != nil {
		return err
	}
	defer t.Close()
	res, err := a.AttachTerminal(ctx, t, !a.EndsWithUs(ws), console.EarlierModes(ctx, ws, session, from.Tail))
	if errors.Is(err, console.ErrDetached) {
		a.Note("\r\ndetached: the agent keeps running, for 15 minutes%s; come back with: croft work attach %s", detachedNetwork(rec), rec.Name)
		if detachedNetwork(rec) != "" {
			a.Note("croft: without network it does not reach its model; to leave the terminal while the agent works on, start croft work in tmux or screen")
		}
		return nil
	}
	if err != nil {
		return err
	}
	a.endWork(ctx, c, ws, rec)
	return a.CommandOutcome(*res)
}

// endWork keeps the home of an agent that has ended, and prints a summary.
func (a *command) endWork(ctx context.Context, c console.Workspaces, ws *workspace.Workspace, rec client.Workspace) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), console.StopTimeout)
	defer cancel()
	if agent := work.FindAgent(rec.Labels[work.AgentLabel]); agent != nil && rec.Dir == "" && rec.Kind != local.Kind {
		if err := a.saveHome(ctx, ws, agent); err != nil {
			a.Note("croft: the conversations of %s are not kept: %v", rec.Name, err)
		}
	}
	a.summarizeWork(ctx, c, rec)
}

// summarizeWork prints what a work changed, what it could not reach, and what comes next. It
// does not fail: the exit status is that of the agent.
func (a *command) summarizeWork(ctx context.Context, c console.Workspaces, rec client.Workspace) {
	a.noteWorkRefusals(ctx, c, rec)
	if rec.Dir != "" { // in place: there is nothing to apply
		a.Note("croft: the agent worked in %s itself", console.Printable(rec.Dir))
		if err := console.DestroyWorkspace(ctx, c, rec.ID); err != nil {
			a.Note("croft: remove the workspace %s: %v", rec.ID, err)
		}
		return
	}
	d, err := a.diffTouched(ctx, rec.ID)
	switch {
	case fault.Of(err) == fault.NotFound, fault.Of(err) == fault.Evicted:
		a.Note("croft: %s was removed while it ran; its changes are gone", rec.Name)
	case fault.Of(err) == fault.DeadlineExceeded: // of very large files
		a.Note("croft: the changes of %s are kept; comparing them takes long: croft work diff %s does it", rec.Name, rec.Name)
	case err != nil:
		a.Note("croft: the changes of %s are kept, but can't be listed: %v", rec.Name, err)
	case len(d.Changes) == 0:
		a.Note("croft: %s changed no file; remove it with: croft work discard %s", rec.Name, rec.Name)
	default:
		a.Note("croft: %s changed %s; next: croft work diff|review|apply|discard %s", rec.Name, changesText(d.Stats), rec.Name)
	}
	if err == nil {
		changecmd.NoteScopeFor(a.Console, d.LeftOut, "croft work apply ")
	}
}

// diffTouched compares a work with its start. What was not written since is not compared.
func (a *command) diffTouched(ctx context.Context, id string) (*snapshot.Comparison, error) {
	ws, err := a.System.Registry.Acquire(ctx, id)
	if err != nil {
		return nil, err
	}
	opts := snapshot.DiffOptions{Text: true, NoGit: true, NoIgnored: true, Unnamed: true}
	touched, err := ws.ChangedPaths(ctx)
	if err == nil { // the provider knows them
		full := map[string]bool{} // directories whose entries are listed, too
		for _, p := range touched {
			full[path.Dir(p.Path)] = true
		}
		opts.Only = []string{}
		for _, p := range touched {
			if p.Replaced || !full[p.Path] {
				opts.Only = append(opts.Only, p.Path)
			}
		}
		if len(opts.Only) == 0 {
			return &snapshot.Comparison{}, nil
		}
	}
	base, theirs, err := history.Trees(ctx, ws, "", "")
	if err != nil {
		return nil, err
	}
	return snapshot.Diff(ctx, base, theirs, &opts)
}

// noteWorkRefusals prints the hosts that a work could not reach.
func (a *command) noteWorkRefusals(ctx context.Context, c console.Workspaces, rec client.Workspace) {
	hosts, err := a.hosts(ctx, c, rec.ID)
	if err != nil {
		return // the log of the work reports it
	}
	n := 0
	for _, h := range hosts {
		if h.Refused == 0 && (h.Failed == 0 || h.Reached > 0) {
			continue
		}
		if n++; n > console.MostRefusals {
			a.Note("croft: and more; see croft work log %s", rec.Name)
			return
		}
		if h.Refused == 0 {
			a.Note("croft: allowed but not reached: %s: %s", console.Printable(h.Host), console.Printable(h.Reason))
			continue
		}
		a.Note("croft: refused: %s%s", console.Printable(h.Host), console.Printable(refusalHint(h.Host, h.Reason)))
	}
}

// hostName matches names of hosts.
var hostName = lazyregexp.New(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?$`)

// refusalHint says what to do about a refusal: croft work allow helps where no rule allows the
// host, and against no other reason.
func refusalHint(at, reason string) string {
	if strings.HasPrefix(reason, console.NoRule) {
		return allowHint(at)
	}
	host := at
	if h, _, err := net.SplitHostPort(at); err == nil {
		host = h
	}
	if !hostName.MatchString(host) {
		return ": " + reason
	}
	return ": " + reason + strings.Replace(console.AddressRemedy(host, at, reason), "with --allow-net @NAME", "with croft work allow @NAME", 1)
}

// allowHint says how a work reaches a host, except link-local addresses: cloud metadata
// services have credentials there. The work chose the text: a command that a user may copy
// has no more than a name or an address, and a port.
func allowHint(at string) string {
	host := at
	if h, port, err := net.SplitHostPort(at); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return ""
		}
		host = h
	}
	ip, err := netip.ParseAddr(host)
	if err == nil && (ip.Zone() != "" || ip.Unmap().IsLinkLocalUnicast()) || err != nil && !hostName.MatchString(host) {
		return ""
	}
	return fmt.Sprintf("; croft work allow %s lets it through", cmp.Or(config.RegistryRule(at), at))
}

// parallel starts several works, and waits for the end of all.
func (a *command) parallel(ctx context.Context, c console.Workspaces, opts options, start *work.Start, spec workspace.Spec) error {
	var recs []client.Workspace
	for i := range opts.parallel {
		name := opts.name
		if name != "" {
			name = fmt.Sprintf("%s-%d", name, i+1)
		}
		rec, err := a.createWork(ctx, c, start.Project, name, spec)
		if err != nil {
			return err
		}
		recs = append(recs, rec)
	}
	console.NoteNotCopied(a.Console, "croft: ", recs[0].Labels)
	var all sync.WaitGroup
	errs := make([]error, len(recs))
	for i, rec := range recs {
		all.Go(func() {
			errs[i] = a.WithOpened(ctx, c, rec.ID, func(ws *workspace.Workspace) error { return a.runUnattended(ctx, c, rec, ws, start) })
		})
	}
	all.Wait()
	own := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil || errors.As(err, new(*console.Outcome)) })
	if len(own) < len(errs) {
		a.Note("croft: compare them with: croft work compare")
	}
	if len(own) > 0 {
		return errors.Join(own...)
	}
	return cmp.Or(errs...) // the status of the first agent that failed
}

// runUnattended runs an agent whose terminal others attach to.
func (a *command) runUnattended(ctx context.Context, c console.Workspaces, rec client.Workspace, ws *workspace.Workspace,
	start *work.Start) error {
	cmd, err := a.prepareWork(ctx, ws, start)
	if err != nil {
		return fmt.Errorf("%s: %w", rec.Name, err)
	}
	id, err := a.startAgent(ctx, ws, cmd)
	if neverStarted(start, err) {
		err = a.dropWork(ctx, c, rec, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", rec.Name, err)
	}
	if a.EndsWithUs(ws) {
		a.Note("croft: %s runs, and ends with this program", rec.Name)
	} else {
		a.Note("croft: %s runs; croft work attach %s shows it", rec.Name, rec.Name)
	}
	session, err := ws.Attach(ctx, id)
	if err != nil {
		return fmt.Errorf("%s: %w", rec.Name, err)
	}
	res, err := session.Wait(ctx)
	if ctx.Err() != nil && !a.EndsWithUs(ws) {
		a.Note("croft: %s keeps running, for 15 minutes%s; come back with: croft work attach %s; end it with: croft work discard %[1]s", rec.Name, detachedNetwork(rec), rec.Name)
		return &console.Outcome{Status: 128 + int(syscall.SIGINT)}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", rec.Name, err)
	}
	a.Note("croft: %s ended with status %d", rec.Name, res.ExitCode)
	a.endWork(ctx, c, ws, rec)
	return a.CommandOutcome(res)
}

// detachedNetwork says what an agent lacks that no process has open: the proxy is in croft.
func detachedNetwork(ws client.Workspace) string {
	if ws.Kind == local.Kind {
		return ""
	}
	return ", without network"
}
