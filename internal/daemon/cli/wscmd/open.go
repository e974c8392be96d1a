package wscmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/history"
	"github.com/croft-run/croft/internal/suggest"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

type openOptions struct {
	name     string
	provider string
	dir      string
	git      string
	labels   []string
	options  string
	want     []string
	readOnly bool
	durable  bool
	persist  bool
	idle     time.Duration
	points   string
	policy   console.PolicyFlags
	host     console.HostDirFlags

	credentials bool
}

func openCommand(a *command) *cobra.Command {
	var opts openOptions
	cmd := &cobra.Command{
		Use:   "open [NAME]",
		Short: "Open a workspace and print its id",
		Long: `Open a workspace and print its id. NAME is optional and unique: [a-z0-9][a-z0-9-]{0,62}.

Commands in it run in a sandbox. Where this host has none, opening fails; --provider local is a
plain directory, whose commands nothing isolates from this host.`,
		Example: "  croft ws open demo\n  croft ws open --dir . --label team=web",
		Args:    cobra.MaximumNArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			if len(args) == 1 {
				opts.name = args[0]
			}
			return a.open(ctx, opts)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&opts.provider, "provider", "", "kind of workspace, or name of a provider in the configuration; see croft provider list (default defaults.provider, else sandbox)")
	f.StringVar(&opts.dir, "dir", "", "directory of the host that is used in place")
	console.RegisterGit(f, &opts.git)
	f.StringArrayVar(&opts.labels, "label", nil, "label K=V; may be given several times")
	f.StringVar(&opts.options, "options", "", "options of the provider, a JSON object")
	f.StringSliceVar(&opts.want, "want", nil, "capabilities to have, and no others: fs, shell, code, script, snapshot (default all that the provider has)")
	f.BoolVar(&opts.readOnly, "read-only", false, "make the workspace read-only")
	f.BoolVar(&opts.durable, "durable", false, "acknowledged writes survive power loss")
	f.BoolVar(&opts.persist, "persist", false, "with --idle: close the workspace instead of destroying it")
	f.BoolVar(&opts.credentials, "credentials", false, "with --template DIR: take credential files, such as .env, along")
	console.RegisterCheckpoints(f, &opts.points)
	opts.host.RegisterFlags(f, "", "")
	opts.policy.RegisterFlags(f)
	f.DurationVar(&opts.idle, "idle", 0, "expire after this time without use, such as 30m; 0 is never")
	return cmd
}

func (a *command) open(ctx context.Context, opts openOptions) error {
	spec, own, err := a.openSpec(opts)
	if err != nil {
		return err
	}
	if a.IsSandbox(opts.provider) {
		a.AddGitIdentity(ctx, cmp.Or(spec.Dir, console.TemplateDir(&spec)), &spec)
	}
	return a.WithWorkspaces(ctx, func(c console.Workspaces) error {
		_, stop := a.StartProgress("opening the workspace")
		ws, err := c.CreateWith(ctx, spec, opts.policy.Name)
		stop()
		if err != nil {
			return err
		}
		console.WarnUnenforced(a.Console, ws)
		console.NoteCaches(a.Console, ws, own)
		if a.Server == "" && ws.Traits != nil && !ws.Traits.Persists() {
			if err := c.Destroy(ctx, ws.ID); err != nil {
				return err
			}
			return fmt.Errorf("provider %s: %w: its workspaces end with this process; open it on a daemon with --server",
				ws.Kind, fault.Unsupported)
		}
		console.NoteNotCopied(a.Console, "", ws.Labels)
		return a.PrintAnswer(ws, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, ws.ID)
			return err
		})
	})
}

func (a *command) openSpec(opts openOptions) (workspace.Spec, sandbox.Options, error) {
	own := sandbox.Options{Git: opts.git}
	spec := workspace.Spec{
		Name: opts.name, Kind: opts.provider,
		Policy: workspace.Policy{ReadOnly: opts.readOnly, Durable: opts.durable, Persist: opts.persist, Idle: opts.idle},
	}
	if opts.persist && opts.idle == 0 {
		return spec, own, console.Usagef("--persist changes what --idle does: give --idle, too")
	}
	var err error
	if spec.Labels, err = parseLabels(opts.labels); err != nil {
		return spec, own, err
	}
	if spec.Want, err = parseWant(opts.want); err != nil {
		return spec, own, err
	}
	if opts.points != "" {
		if _, err := history.ParseLimits(opts.points); err != nil {
			return spec, own, console.Usagef("--checkpoints: %v", err)
		}
		if spec.Labels == nil {
			spec.Labels = map[string]string{}
		}
		spec.Labels[history.LimitsLabel] = opts.points
	}
	if opts.options != "" {
		if !json.Valid([]byte(opts.options)) {
			return spec, own, console.Usagef("--options is not valid JSON: give a JSON object")
		}
		spec.Config = json.RawMessage(opts.options)
	}
	if err := opts.policy.Apply(&spec, a.Server != ""); err != nil {
		return spec, own, err
	}
	if opts.credentials && !filepath.IsAbs(spec.From.Template) {
		return spec, own, console.Usagef("--credentials is for --template with a directory")
	}
	spec.From.Credentials = opts.credentials
	if a.Server != "" && opts.dir != "" && !filepath.IsAbs(opts.dir) {
		return spec, own, console.Usagef("--dir %s is relative: with --server, give a directory of the server's host from its root", opts.dir)
	}
	if opts.dir != "" {
		if spec.Dir, err = filepath.Abs(opts.dir); err != nil {
			return spec, own, err
		}
	}
	if opts.git == "" && !opts.host.Given() {
		return spec, own, nil
	}
	if err := a.CheckSandbox(opts.provider, opts.host); err != nil {
		return spec, own, err
	}
	if own.Binds, own.Sockets, err = a.BoundDirs(opts.host); err != nil {
		return spec, own, err
	}
	if err := a.AddToolchains(opts.host.Toolchains, cmp.Or(spec.Dir, console.TemplateDir(&spec)), &spec, &own); err != nil {
		return spec, own, err
	}
	return spec, own, console.SetProviderOptions(opts.options, own, &spec)
}

// parseWant returns the set of the capabilities with the given names.
func parseWant(names []string) (driver.Capabilities, error) {
	known := []string{string(driver.CapFS), string(driver.CapShell), string(driver.CapCode), string(driver.CapScript), string(driver.CapSnapshot)}
	var want driver.Capabilities
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, console.Usagef("--want %s: the capabilities are %s%s", name, strings.Join(known, ", "), suggest.Hint(name, known))
		}
		if want == nil {
			want = driver.Capabilities{}
		}
		want[driver.Capability(name)] = true
	}
	return want, nil
}

func parseLabels(pairs []string) (map[string]string, error) {
	var labels map[string]string
	for _, pair := range pairs {
		k, v, ok := strings.Cut(pair, "=")
		if !ok || k == "" {
			return nil, console.Usagef("--label %q is not K=V: give a key and a value, such as --label team=core", pair)
		}
		if labels == nil {
			labels = map[string]string{}
		}
		if _, dup := labels[k]; dup {
			return nil, console.Usagef("--label %s is given twice", k)
		}
		labels[k] = v
	}
	return labels, nil
}
