package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/internal/locktmp"
)

type evalRunOptions struct {
	config, cwd, outputDir, schedule string
	maxParallel, repeat              int
	repeatFailure, retryFailed       int
	cases, tags, runners, reporters  []string
	snapshots                        string
	update                           bool
	resume                           string
	record, replay                   string
	env                              envFlags
}

func (a *command) evalRunCommand() *cobra.Command {
	var opts evalRunOptions
	cmd := &cobra.Command{
		Use:   "run SUITE",
		Short: "Run a suite",
		Long: `Run the cases of a suite on the runners of its configuration. The configuration is
skillgym.config.* or croft.eval.yaml in the suite's directory or the nearest above it.

Agents work in a sandbox: they see their workspace, the suite's directory, read-only, and
the hosts of their model. --provider local runs them on the plain host instead.

The exit status is 0 where everything passed, 1 where cases failed, and 2 where the suite
could not be run.`,
		Example: `  croft eval run evals/skills.ts
  croft eval run evals/skills.ts --case login,logout --runner claude --repeat 5
  croft eval run evals/skills.ts --schedule parallel --reporter standard --reporter junit=out.xml
  croft eval run --resume .skillgym-results/2026-11-15T09-00-00-000Z`,
		Args: cobra.MaximumNArgs(1),
	}
	f := cmd.Flags()
	opts.register(f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && opts.resume == "" {
			return usagef("name a suite, or --resume the directory of a run")
		}
		return run(func(ctx context.Context, args []string) error {
			return notRun(a.evalRun(ctx, opts, strings.Join(args, ""), f))
		})(cmd, args)
	}
	return cmd
}

func (o *evalRunOptions) register(f *pflag.FlagSet) {
	f.StringVar(&o.config, "config", "", "configuration of the suite (default the nearest one to it); Croft's own is then $CROFT_CONFIG or the usual one")
	f.StringVar(&o.cwd, "cwd", "", "where agents work, for workspaces in place")
	f.StringVar(&o.outputDir, "output-dir", "", "where the run has its directory (default run.outputDir, else .skillgym-results)")
	f.StringVar(&o.schedule, "schedule", "", "serial, parallel or isolated-by-runner (default run.schedule, else serial)")
	f.IntVar(&o.maxParallel, "max-parallel", 0, "executions at a time (default run.maxParallel, else the processors)")
	f.IntVar(&o.repeat, "repeat", 0, "how often each execution must pass (default run.repeat, else 1)")
	f.IntVar(&o.repeatFailure, "repeat-failure", 0, "how often a failed session is tried again (default run.repeatFailure, else 0)")
	f.IntVar(&o.retryFailed, "retry-failed", 0, "old name of --repeat-failure")
	f.StringArrayVar(&o.cases, "case", nil, "case by its id; may be given several times or separated by commas")
	f.StringArrayVar(&o.tags, "tag", nil, "cases with this tag; may be given several times or separated by commas")
	f.StringArrayVar(&o.runners, "runner", nil, "runner by its id; may be given several times or separated by commas")
	f.StringArrayVar(&o.reporters, "reporter", nil, "NAME, NAME=FILE or the path of a module; names are "+strings.Join(eval.ReporterNames, ", ")+"; may be given several times (default run.reporter, else standard)")
	f.StringVar(&o.snapshots, "snapshots", "", "file of snapshots of token use")
	f.BoolVar(&o.update, "update-snapshots", false, "take what is measured as the new snapshots")
	f.StringVar(&o.resume, "resume", "", "go on with the run in this directory, which was cut short")
	f.StringVar(&o.record, "record", "", "record what agents and judges and their models say to each other in this directory (default croft.record)")
	f.StringVar(&o.replay, "replay", "", "answer agents and judges from what was recorded in this directory, without any network to a model (default croft.replay)")
	o.env.register(f)
	_ = f.MarkHidden("retry-failed") // it is defined above
}

// options are the options of a run that the flags say.
func (o *evalRunOptions) options(f *pflag.FlagSet) (*eval.Options, error) {
	e := &eval.Options{MaxParallel: o.maxParallel, Repeat: o.repeat, Baselines: o.snapshots, UpdateBaselines: o.update, Resume: o.resume, UserHome: userHome()}
	var err error
	for flag, into := range map[string]struct{ from, to *[]string }{
		"case": {&o.cases, &e.Cases}, "tag": {&o.tags, &e.Tags}, "runner": {&o.runners, &e.Runners},
	} {
		if *into.to, err = split(flag, *into.from); err != nil {
			return nil, err
		}
	}
	for flag, least := range map[string]int{"max-parallel": 1, "repeat": 1, "repeat-failure": 0, "retry-failed": 0} {
		if n, err := f.GetInt(flag); f.Changed(flag) && (err != nil || n < least) {
			return nil, usagef("Invalid config at CLI option --%s: expected integer >= %d", flag, least)
		}
	}
	switch {
	case f.Changed("repeat-failure"):
		e.RepeatFailure = &o.repeatFailure
	case f.Changed("retry-failed"):
		e.RepeatFailure = &o.retryFailed
	}
	if o.schedule != "" {
		if e.Schedule, err = eval.ParseSchedule(o.schedule); err != nil {
			return nil, usagef("Invalid config at CLI option --schedule: expected one of: serial, parallel, isolated-by-runner")
		}
	}
	for from, to := range map[*string]*string{&o.cwd: &e.Cwd, &o.outputDir: &e.OutputDir, &o.snapshots: &e.Baselines, &o.record: &e.Record, &o.replay: &e.Replay} {
		if *from != "" {
			if *to, err = filepath.Abs(*from); err != nil {
				return nil, err
			}
		}
	}
	return e, o.env.apply(e)
}

func (a *command) evalRun(ctx context.Context, o evalRunOptions, path string, f *pflag.FlagSet) (err error) {
	opts, err := o.options(f)
	if err != nil {
		return err
	}
	config := o.config
	if o.resume != "" {
		begun, err := eval.Resumable(o.resume)
		if err != nil {
			return err
		}
		if path == "" {
			path = begun.Suite
		}
		if config == "" {
			config = begun.Config
		}
		o.goOn(begun.Made, opts, f)
	}
	s, cfg, err := loadSuite(ctx, path, config)
	if err != nil {
		return err
	}
	defer locktmp.Sweep(suite.ScratchPrefix) // once nobody waits for the first case
	defer s.Close()                          //nolint:errcheck // its temporary files are told of nowhere
	return a.evaluate(ctx, s, cfg, opts, &o)
}

// goOn takes over how a run was made, but for what the flags say: of those some are
// refused later, because the run must go on as it was begun.
func (o *evalRunOptions) goOn(made *eval.RunSettings, opts *eval.Options, f *pflag.FlagSet) {
	if made == nil {
		return
	}
	isolation := string(made.Isolation)
	for flag, x := range map[string]struct{ to, from *string }{
		"provider": {&o.env.provider, &made.Provider}, "isolation": {&o.env.isolation, &isolation}, "tools": {&o.env.tools, &made.Tools},
		"record": {&opts.Record, &made.Record}, "replay": {&opts.Replay, &made.Replay},
	} {
		if !f.Changed(flag) {
			*x.to = *x.from
		}
	}
	for flag, x := range map[string]struct{ to, from *[]string }{"allow-net": {&opts.AllowNet, &made.AllowNet}, "ro": {&opts.Read, &made.Read}} {
		if !f.Changed(flag) {
			*x.to = *x.from
		}
	}
	if !f.Changed("no-model-net") {
		opts.NoModelNet = made.NoModelNet
	}
	if opts.Limits == nil {
		opts.Limits = made.Limits
	}
}

// evaluate runs a suite and turns its result into a status.
func (a *command) evaluate(ctx context.Context, s *loadedSuite, cfg *suite.Config, opts *eval.Options, o *evalRunOptions) (err error) {
	opts.Note = func(format string, args ...any) { a.note("%s", eval.PlainText(fmt.Sprintf(format, args...))) }
	opts.Tmp = s.tmp
	closeAll, err := a.reporters(ctx, o.reporters, cfg, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	return a.withEnvs(ctx, &o.env, cfg, opts, func() error {
		res, err := eval.Run(ctx, eval.File(s.Suite), cfg, opts)
		if err != nil {
			return err
		}
		if !res.Passed() {
			return &outcome{status: exitCasesFailed}
		}
		return nil
	})
}

// moduleSuffixes end the names of reporters that are modules.
var moduleSuffixes = []string{".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".jsx"}

// reporters makes those that were asked for.
func (a *command) reporters(ctx context.Context, names []string, cfg *suite.Config, opts *eval.Options) (closeAll func() error, err error) {
	if len(names) == 0 && cfg.Run.Reporter != "" {
		names = []string{cfg.Run.Reporter}
	}
	if len(names) == 0 {
		names = []string{"standard"}
		if a.json {
			names = []string{"json"}
		}
	}
	var files []io.Closer
	closeAll = func() error {
		var errs []error
		for _, f := range files {
			errs = append(errs, f.Close())
		}
		return errors.Join(errs...)
	}
	_, live := terminal(a.Out)
	opts.Interactive = live
	for _, name := range names {
		rc := eval.ReporterConfig{Out: a.Out, Interactive: live, Width: a.size().Cols, Summary: os.Getenv("GITHUB_STEP_SUMMARY")}
		kind, file, toFile := strings.Cut(name, "=")
		if !slices.Contains(eval.ReporterNames, kind) && slices.Contains(moduleSuffixes, filepath.Ext(name)) {
			m, err := eval.NewModule(ctx, name, a.Out)
			if err != nil {
				return closeAll, errors.Join(err, closeAll())
			}
			files = append(files, m)
			opts.Reporters = append(opts.Reporters, m)
			continue
		}
		if toFile {
			f, err := os.Create(file)
			if err != nil {
				return closeAll, errors.Join(fmt.Errorf("eval: reporter %s: %w", name, err), closeAll())
			}
			files = append(files, f)
			name, rc.Out, rc.File, rc.Interactive = kind, f, true, false
		}
		r, err := eval.NewReporter(name, rc)
		if err != nil {
			return closeAll, errors.Join(err, closeAll())
		}
		opts.Reporters = append(opts.Reporters, r)
	}
	return closeAll, nil
}
