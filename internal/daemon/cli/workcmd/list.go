package workcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/changecmd"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/daemon/work"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace"
)

// answer is a work as work list --json prints it.
type answer struct {
	Name    string    `json:"name"`
	ID      string    `json:"id"`
	Agent   string    `json:"agent"`
	Project string    `json:"project,omitempty"` // directory
	Running bool      `json:"running"`           // its agent runs, or a process has it open
	Open    bool      `json:"open"`              // a process has it open
	Created time.Time `json:"created"`

	Isolation string `json:"isolation"` // the weakest level that was asked for, or the provider

	network string // detachedNetwork
}

func listCommand(a *command) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the works of the project, oldest first",
		Args:  cobra.NoArgs,
		RunE: console.RunE(func(ctx context.Context, _ []string) error {
			e, err := a.env(!all)
			if err != nil {
				return err
			}
			key := ""
			if !all {
				key = e.project.Key()
			}
			return a.WithWorkspaces(ctx, func(c console.Workspaces) error { return a.list(ctx, c, key) })
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "those of all projects")
	return cmd
}

func (a *command) list(ctx context.Context, c console.Workspaces, key string) error {
	settings, err := a.Settings()
	if err != nil {
		return err
	}
	all, err := works(ctx, c, key)
	if err != nil {
		return err
	}
	list := []answer{}
	for _, ws := range all {
		one := answer{Name: ws.Name, ID: ws.ID, Agent: ws.Labels[work.AgentLabel], Created: ws.CreatedAt, network: detachedNetwork(ws),
			Isolation: cmp.Or(string(ws.Policy.Isolation), ws.Kind), Project: work.ProjectOf(settings.Data, ws.Labels[work.ProjectLabel])}
		one.Open = isOpenWork(ctx, c, ws)
		one.Running = one.Open || a.agentRuns(ctx, ws)
		list = append(list, one)
	}
	return a.PrintAnswer(list, func(w io.Writer) error {
		rows := [][]string{{"NAME", "AGENT", "STATE", "ISOLATION", "CREATED", "PROJECT"}}
		for _, one := range list {
			state := "ended"
			if one.Running {
				state = "running"
			}
			rows = append(rows, []string{one.Name, one.Agent, state, one.Isolation, console.TimeText(one.Created), console.OrDash(one.Project)})
		}
		if err := console.WriteTable(w, rows, "CREATED", "AGENT", "ISOLATION", "PROJECT"); err != nil {
			return err
		}
		for _, one := range list {
			if one.Running && !one.Open {
				a.Note("croft: %s runs without a terminal%s; come back with: croft work attach %s", one.Name, one.network, one.Name)
			}
		}
		return nil
	})
}

// isOpenWork reports whether a process has a work open.
func isOpenWork(ctx context.Context, c console.Workspaces, ws client.Workspace) bool {
	d, err := c.Describe(ctx, ws.ID)
	return err == nil && slices.ContainsFunc(d.Holders, func(h client.Holder) bool { return !h.Died })
}

// agentRuns reports whether the agent of a work runs that no process has open: its terminal
// was closed or killed.
func (a *command) agentRuns(ctx context.Context, ws client.Workspace) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // a guest that runs answers in milliseconds
	defer cancel()
	list, err := a.System.RunningSessions(ctx, ws.Kind, ws.ID)
	if err != nil {
		a.Note("croft: %s: can't tell whether its agent runs: %v", ws.Name, err)
	}
	return agentSession(list) != ""
}

// agentSession returns the id of the session of a work's agent, "" if it does not run.
func agentSession(list []workspace.SessionInfo) (id string) {
	for _, s := range list {
		if s.Running && s.TTY && s.Labels[agentLabel] != "" {
			id = s.ID
		}
	}
	return id
}

func attachCommand(a *command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "attach [NAME] [-- ARGUMENT...]",
		Short: "Return to the agent of a work; an agent that has ended is started again",
		Long: `Return to the agent of a work. An agent that has ended is started again, with the files of its home, such as its
conversations; --continue lets it continue the last one. --yolo and the other flags of its start are kept
(--yolo=false lets it ask again), its arguments are not.`,
		Example: "  croft work attach\n  croft work attach app-claude --continue",
		Args:    cobra.ArbitraryArgs,
	}
	var opts attachOptions
	f := cmd.Flags()
	f.BoolVar(&opts.continues, "continue", false, "an agent that has ended continues its last conversation")
	f.BoolVar(&opts.start.NoAsk, "yolo", false, "the agent asks for no permissions: the sandbox is the boundary")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if dash := cmd.ArgsLenAtDash(); dash >= 0 {
			args, opts.start.Words = args[:dash], args[dash:]
		}
		opts.yolo = f.Changed("yolo")
		if len(args) > 1 {
			return console.Usagef("croft work attach takes one NAME; write the arguments of the agent after --")
		}
		return console.RunE(func(ctx context.Context, args []string) error {
			return a.WithCroftStatus(a.attach(ctx, opts, args))
		})(cmd, args)
	}
	return cmd
}

type attachOptions struct {
	continues bool
	yolo      bool         // --yolo or --yolo=false is given
	start     work.Options // of an agent that has ended
}

func (a *command) attach(ctx context.Context, opts attachOptions, args []string) error {
	e, err := a.env(false)
	if err != nil {
		return err
	}
	return a.WithWorkspaces(ctx, func(c console.Workspaces) error {
		w, rest, err := a.findWork(ctx, c, e, args)
		if err != nil {
			return err
		}
		if len(rest) > 0 {
			return fmt.Errorf("work %q: %w", rest[0], fault.NotFound)
		}
		session := ""
		err = a.WithOpened(ctx, c, w.ID, func(ws *workspace.Workspace) error {
			list, err := ws.Sessions(ctx)
			if session = agentSession(list); err == nil && session == "" && a.EndsWithUs(ws) {
				return checkUnheld(ctx, c, w)
			}
			if err != nil || session == "" {
				return err
			}
			return a.attachAgent(ctx, c, ws, w.Workspace, session, client.TerminalOptions{Tail: console.ReplayBytes})
		})
		if err != nil || session != "" {
			return err
		}
		agent := work.FindAgent(w.Labels[work.AgentLabel])
		if agent == nil {
			return fault.Advise(fmt.Errorf("work %s: %w: its command has ended", w.Name, fault.WrongState),
				"croft work shell %s opens a shell in it", w.Name)
		}
		dir, err := w.dir()
		if err != nil {
			return err
		}
		if opts.start.Project, err = work.FindProject(dir, e.user.Home); err != nil {
			return err
		}
		labels := maps.Clone(w.Labels)
		if opts.yolo {
			if delete(labels, work.YoloLabel); opts.start.NoAsk {
				labels[work.YoloLabel] = "true"
			}
		}
		opts.start = opts.start.Again(labels)
		opts.start.OnHost, opts.start.Isolation = w.Kind == local.Kind, w.Policy.Isolation
		if err := checkYolo(opts.start); err != nil {
			return err
		}
		given := len(opts.start.Words) > 0
		if opts.continues {
			opts.start.Words = slices.Concat(agent.Continue, opts.start.Words)
		} else {
			a.Note("croft: the agent of %s had ended; it starts again (--continue continues its last conversation)", w.Name)
		}
		if opts.start.NoAsk && !opts.yolo {
			a.Note("croft: it asks for no permissions, as before; --yolo=false lets it ask")
		}
		if n := labels[work.ArgsLabel]; n != "" && !given {
			a.Note("croft: the %s argument(s) of its first start are not given again; write those that it needs after --", n)
		}
		settings, err := opts.start.Project.LoadSettings(e.data)
		if err != nil {
			return err
		}
		if opts.start.Allow, err = a.rules("the allowed host", a.knownHosts(settings.Allow, nil), nil); err != nil {
			return err
		}
		opts.start.Allow = slices.Concat(w.Policy.Network.Allow, opts.start.Allow)
		e.user = e.user.ForStart(opts.start, w.Policy.Env)
		start, err := work.New(opts.start, e.user)
		if err != nil {
			return err
		}
		for _, n := range start.Notes {
			a.Note("croft: %s", n)
		}
		if !maps.Equal(labels, w.Labels) {
			if _, err := c.Change(ctx, w.ID, client.Change{Labels: &labels}); err != nil {
				return err
			}
		}
		if start.OnHost {
			for name := range w.Policy.Env { // --env
				delete(start.AgentEnv, name)
			}
			return a.runWork(ctx, c, w.Workspace, start, false)
		}
		if policy := start.Renew(w.Policy, e.user); !policy.Equal(w.Policy) {
			if _, err := c.Change(ctx, w.ID, client.Change{Policy: &policy}); err != nil {
				return err
			}
		}
		return a.runWork(ctx, c, w.Workspace, start, false)
	})
}

// checkUnheld refuses to start the agent of a work again that another process has open: its
// agent runs there, and this process can't attach to it.
func checkUnheld(ctx context.Context, c console.Workspaces, w *of) error {
	d, err := c.Describe(ctx, w.ID)
	if err != nil {
		return err
	}
	for _, h := range d.Holders {
		if !h.Died && h.PID != os.Getpid() {
			return fmt.Errorf("work %s: %w: the croft process %d has it open; without the sandbox an agent has the terminal that it was started on, and can't be attached to", w.Name, fault.WrongState, h.PID)
		}
	}
	return nil
}

func shellCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "shell [NAME]",
		Short: "Open a shell in a work",
		Args:  cobra.MaximumNArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			var name string
			err := a.withWork(ctx, args, func(_ console.Workspaces, w *of, rest []string) error {
				name = w.ID
				return noMore(rest)
			})
			if err != nil {
				return err
			}
			return a.WithCroftStatus(console.Shell(ctx, a.Console, console.ShellOptions{Name: name}))
		}),
	}
}

// noMore refuses a first argument that names no work.
func noMore(rest []string) error {
	if len(rest) > 0 {
		return fault.Advise(fmt.Errorf("work %q: %w", rest[0], fault.NotFound), "croft work list lists them")
	}
	return nil
}

func diffCommand(a *command) *cobra.Command {
	var opts changecmd.DiffOptions
	cmd := &cobra.Command{
		Use:   "diff [NAME] [PATH...]",
		Short: "Show what a work changed",
		Args:  cobra.ArbitraryArgs,
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			if opts.Stat && opts.NameOnly {
				return console.Usagef("--stat and --name-only exclude each other: give one")
			}
			opts.Text = !opts.NameOnly
			var id string
			err := a.withWork(ctx, args, func(_ console.Workspaces, w *of, rest []string) (err error) {
				id = w.ID
				if len(rest) > 0 {
					opts.Project = w.project
					opts.Paths, err = pathsIn(w.project, rest)
				}
				return err
			})
			if err != nil {
				return err
			}
			return changecmd.Diff(ctx, a.Console, id, opts)
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&opts.Stat, "stat", false, "print one line for each file, and a total")
	f.BoolVar(&opts.NameOnly, "name-only", false, "print only the kind of change and the path")
	f.BoolVar(&opts.Ignored, "ignored", false, "also compare files that .gitignore excludes, and caches")
	return cmd
}

func discardCommand(a *command) *cobra.Command {
	var all, yes bool
	cmd := &cobra.Command{
		Use:   "discard [NAME...] | discard --all",
		Short: "Remove works with all their changes that were not applied",
		Long: `Remove works, or the only one of the project, with all their changes that were not applied. --all asks
first. Otherwise croft asks if a work runs, or has changes, ignored files or commits that the project does
not have. Without a terminal to ask on it needs --yes then.`,
		Args: cobra.ArbitraryArgs,
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			if all && len(args) > 0 {
				return console.Usagef("--all takes no names: it removes all works of the project")
			}
			e, err := a.env(all)
			if err != nil {
				return err
			}
			return a.WithWorkspaces(ctx, func(c console.Workspaces) error {
				names, err := a.chosenWorks(ctx, c, e, all, yes, args)
				if err != nil || len(names) == 0 {
					return err
				}
				defer a.Housekeep(ctx)
				return errors.Join(console.Remove(ctx, a.Console, c, names), a.removeHomes(ctx, c))
			})
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "all works of the project in the current directory")
	console.RegisterYes(cmd.Flags(), &yes)
	return cmd
}

// chosenWorks returns the names of the works to remove: those that args name, the only one
// of the project, or all of the project. The user is asked about all, and about a work that
// runs or of which something would be lost. If one of the names is unknown, none is removed.
func (a *command) chosenWorks(ctx context.Context, c console.Workspaces, e *env, all, yes bool, args []string) ([]string, error) {
	if len(args) == 0 && !all {
		w, _, err := a.findWork(ctx, c, e, nil)
		if err != nil {
			return nil, err
		}
		args = []string{w.ID}
	}
	key := ""
	if all {
		key = e.project.Key()
	}
	list, err := works(ctx, c, key)
	if err != nil {
		return nil, err
	}
	var known, names []string
	var chosen []client.Workspace
	for _, ws := range list {
		if known = append(known, ws.Name); all || slices.Contains(args, ws.Name) || slices.Contains(args, ws.ID) {
			names, chosen = append(names, ws.Name), append(chosen, ws)
		}
	}
	for _, arg := range args {
		if !slices.ContainsFunc(list, func(ws client.Workspace) bool { return ws.Name == arg || ws.ID == arg }) {
			return nil, noWork(arg, known)
		}
	}
	if all && len(names) == 0 {
		return nil, noWorks(e)
	}
	ask := all
	for _, ws := range chosen {
		// All are looked at: what would be lost is printed.
		if !all && !yes && !a.mayDiscard(ctx, c, &of{ws, work.ProjectOf(e.data, ws.Labels[work.ProjectLabel])}) {
			ask = true
		}
	}
	return a.ConfirmRemoval(names, "work", yes || !ask)
}

// mayDiscard reports whether a work has ended and the project has all of it. Else it says what not.
func (a *command) mayDiscard(ctx context.Context, c console.Workspaces, w *of) bool {
	if isOpenWork(ctx, c, w.Workspace) || a.agentRuns(ctx, w.Workspace) {
		a.Note("croft: %s runs", w.Name)
		return false
	}
	return a.allApplied(ctx, c, w)
}

func allowCommand(a *command) *cobra.Command {
	var remove bool
	cmd := &cobra.Command{
		Use:   "allow HOST[:PORT]... | allow --remove HOST[:PORT]...",
		Short: "Let the works of the project reach hosts, those that run as well",
		Long: `Let the works of the project reach hosts, those that run as well, and remember it for the
project. *.HOST is its subdomains, * every public host; @npm, @pypi, @go and @cargo are registries.
--remove forgets hosts; those of the agent's model stay.`,
		Args: cobra.MinimumNArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			e, err := a.env(true)
			if err != nil {
				return err
			}
			settings, err := e.project.LoadSettings(e.data)
			if err != nil {
				return err
			}
			if remove {
				return a.forbid(ctx, e, settings, args)
			}
			rules, err := a.rules("croft work allow", args, nil)
			if err != nil {
				return err
			}
			settings.Allow = work.Add(settings.Allow, args...)
			return a.WithWorkspaces(ctx, func(c console.Workspaces) error {
				err := a.changeAllowed(ctx, c, e, settings, false, func(allow []workspace.NetRule) []workspace.NetRule { return slices.Concat(allow, rules) })
				a.Note("croft: further works of this project may reach %s, too", hostsText(args))
				return err
			})
		}),
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "forget hosts")
	return cmd
}

// hostsText names hosts, of which one may be all.
func hostsText(hosts []string) string {
	if slices.Contains(hosts, "*") {
		return "every public host"
	}
	return console.Printable(strings.Join(hosts, ", "))
}

// forbid takes back that the works of a project may reach hosts.
func (a *command) forbid(ctx context.Context, e *env, settings work.Settings, hosts []string) error {
	config, err := a.Settings()
	if err != nil {
		return err
	}
	var rules []workspace.NetRule
	for _, host := range hosts {
		if !slices.Contains(settings.Allow, host) {
			return fmt.Errorf("work: host %q: %w: allowed for this project are: %s", host, fault.NotFound, cmp.Or(console.Printable(strings.Join(settings.Allow, ", ")), "none"))
		}
		named, err := config.ExpandHosts([]string{host})
		for _, at := range named {
			one, perr := console.ParseRule("croft work allow", at)
			if err == nil && perr == nil { // what is no rule is in no policy
				rules = append(rules, one)
			}
		}
	}
	settings.Allow = slices.DeleteFunc(settings.Allow, func(host string) bool { return slices.Contains(hosts, host) })
	return a.WithWorkspaces(ctx, func(c console.Workspaces) error {
		err := a.changeAllowed(ctx, c, e, settings, true, func(allow []workspace.NetRule) []workspace.NetRule { return work.Without(allow, rules) })
		a.Note("croft: forgotten for this project: %s", console.Printable(strings.Join(hosts, ", ")))
		return err
	})
}

// changeAllowed saves the settings of a project, and changes the rules of its works.
func (a *command) changeAllowed(ctx context.Context, c console.Workspaces, e *env, settings work.Settings, remove bool,
	change func([]workspace.NetRule) []workspace.NetRule) error {
	if err := e.project.Save(e.data, settings); err != nil {
		return err
	}
	list, err := works(ctx, c, e.project.Key())
	if err != nil {
		return err
	}
	var errs []error
	for _, ws := range list {
		errs = append(errs, a.changeAllowedOf(ctx, c, ws, remove, change))
	}
	return errors.Join(errs...)
}

// changeAllowedOf changes the rules of a work.
func (a *command) changeAllowedOf(ctx context.Context, c console.Workspaces, ws client.Workspace, remove bool, change func([]workspace.NetRule) []workspace.NetRule) error {
	verb := "reaches"
	if remove {
		verb = "no longer reaches"
	}
	if ws.Kind == local.Kind {
		a.Note("croft: %s reaches them %s: its network is open", ws.Name, map[bool]string{false: "already", true: "still"}[remove])
		return nil
	}
	policy := ws.Policy
	policy.Network.Allow = change(policy.Network.Allow)
	_, err := c.Change(ctx, ws.ID, client.Change{Policy: &policy})
	if err != nil && !remove && !isOpenWork(ctx, c, ws) && !a.agentRuns(ctx, ws) {
		// Such as a secret that is not set in this shell: the next start of the agent adds the
		// rules of the project, with the secrets that there are then.
		a.Note("croft: %s reaches them from its next start on: croft work attach %[1]s", ws.Name)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", ws.Name, err)
	}
	a.Note("croft: %s %s them now", ws.Name, verb)
	return nil
}

// changesText counts changes.
func changesText(s snapshot.Stats) string {
	return fmt.Sprintf("%s, +%d -%d", console.CountText(s.Files(), "file"), s.LinesAdded, s.LinesRemoved)
}

// registries are the named rules of registries, by the files of a project that needs them.
var registries = []struct {
	rule  string
	files []string
}{
	{"@npm", []string{"package.json"}},
	{"@go", []string{"go.mod"}},
	{"@pypi", []string{"pyproject.toml", "requirements.txt", "setup.py"}},
	{"@cargo", []string{"Cargo.toml"}},
}

// askRegistries asks the user, once for each project and registry, whether agents may reach
// the registries of the project's package managers. Without a terminal it allows none.
func (a *command) askRegistries(e *env, settings *work.Settings) error {
	if !a.OnTerminal() || a.JSON {
		return nil
	}
	config, err := a.Settings()
	if err != nil {
		return err
	}
	for _, r := range registries {
		uses := slices.ContainsFunc(r.files, func(name string) bool {
			_, err := os.Stat(filepath.Join(e.project.Dir, name))
			return err == nil
		})
		if !uses || slices.Contains(settings.Asked, r.rule) || slices.Contains(settings.Allow, r.rule) {
			continue
		}
		settings.Asked = work.Add(settings.Asked, r.rule)
		hosts, err := config.ExpandHosts([]string{r.rule})
		if err != nil {
			return err
		}
		answer, err := a.askLine(fmt.Sprintf("May works of this project reach %s (%s)? [y/N] ", r.rule, strings.Join(hosts, ", ")))
		if err != nil {
			return err
		}
		if strings.HasPrefix(strings.ToLower(answer), "y") {
			settings.Allow = work.Add(settings.Allow, r.rule)
		}
	}
	return nil
}

// askLine prints a question and reads a line, byte by byte: what the user types ahead
// belongs to the agent.
func (a *command) askLine(question string) (string, error) {
	if _, err := io.WriteString(a.Err, question); err != nil {
		return "", err
	}
	var line []byte
	for b := make([]byte, 1); ; {
		n, err := a.In.Read(b)
		if n == 1 && b[0] != '\n' {
			line = append(line, b[0])
			continue
		}
		if n == 1 || errors.Is(err, io.EOF) && len(line) > 0 {
			return strings.TrimSpace(string(line)), nil
		}
		if err != nil {
			return "", cmp.Or(err, io.ErrUnexpectedEOF)
		}
	}
}
