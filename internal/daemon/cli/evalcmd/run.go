package evalcmd

import (
	"cmp"
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
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/locktmp"
)

type runOptions struct {
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

func runCommand(a *command) *cobra.Command {
	var opts runOptions
	cmd := &cobra.Command{
		Use:   "run SUITE",
		Short: "Run a suite",
		Long: `Run the cases of a suite on the runners of its configuration. The configuration is
skillgym.config.* or croft.eval.yaml in the suite's directory or the nearest one above.

Agents work in a sandbox: they see their workspace and, read-only, the suite's directory, and
reach the hosts of their model. With --provider local they run on the host without isolation.

The exit status is 0 if all cases passed, 1 if cases failed, and 2 if the suite could not be run.`,
		Example: `  croft eval run evals/skills.ts
  croft eval run evals/skills.ts --case login,logout --runner claude --repeat 5
  croft eval run evals/skills.ts --schedule parallel --reporter standard --reporter junit=out.xml
  croft eval run --resume .skillgym-results/2026-11-15T09-00-00-000Z`,
		Args: cobra.MaximumNArgs(1),
	}
	f := cmd.Flags()
	opts.registerFlags(f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && opts.resume == "" {
			return console.Usagef("no suite: name one, or continue a run with --resume DIR")
		}
		return console.RunE(func(ctx context.Context, args []string) error {
			return notRun(a.run(ctx, opts, strings.Join(args, ""), f))
		})(cmd, args)
	}
	return cmd
}

func (o *runOptions) registerFlags(f *pflag.FlagSet) {
	f.StringVar(&o.config, "config", "", "configuration of the suite (default the nearest one); Croft's own is then that of $CROFT_CONFIG or the default one")
	f.StringVar(&o.cwd, "cwd", "", "directory of agents, for workspaces in place")
	f.StringVar(&o.outputDir, "output-dir", "", "parent of the run's directory (default run.outputDir, else .skillgym-results)")
	f.StringVar(&o.schedule, "schedule", "", "serial, parallel or isolated-by-runner (default run.schedule, else serial)")
	f.IntVar(&o.maxParallel, "max-parallel", 0, "executions at the same time (default run.maxParallel, else the number of CPUs)")
	f.IntVar(&o.repeat, "repeat", 0, "how often each execution must pass (default run.repeat, else 1)")
	f.IntVar(&o.repeatFailure, "repeat-failure", 0, "how often a failed session is repeated (default run.repeatFailure, else 0)")
	f.IntVar(&o.retryFailed, "retry-failed", 0, "old name of --repeat-failure")
	f.StringArrayVar(&o.cases, "case", nil, "case by its id; may be given several times or separated by commas")
	f.StringArrayVar(&o.tags, "tag", nil, "cases with this tag; may be given several times or separated by commas")
	f.StringArrayVar(&o.runners, "runner", nil, "runner by its id; may be given several times or separated by commas")
	f.StringArrayVar(&o.reporters, "reporter", nil, "NAME, NAME=FILE or the path of a module; names are "+strings.Join(eval.ReporterNames, ", ")+"; may be given several times (default run.reporter, else standard)")
	f.StringVar(&o.snapshots, "snapshots", "", "file of snapshots of token use")
	f.BoolVar(&o.update, "update-snapshots", false, "write the measured values as the new snapshots")
	f.StringVar(&o.resume, "resume", "", "continue the interrupted run in this directory")
	f.StringVar(&o.record, "record", "", "record the exchanges of agents and judges with their models in this directory (default croft.record)")
	f.StringVar(&o.replay, "replay", "", "answer agents and judges from the record in this directory, without a model (default croft.replay)")
	o.env.registerFlags(f)
	_ = f.MarkHidden("retry-failed") // it is defined above
}

// evalOptions returns the options of the flags.
func (o *runOptions) evalOptions(f *pflag.FlagSet) (*eval.Options, error) {
	e := &eval.Options{MaxParallel: o.maxParallel, Repeat: o.repeat, Baselines: o.snapshots, UpdateBaselines: o.update, Resume: o.resume, UserHome: userHome()}
	var err error
	for flag, least := range map[string]int{"max-parallel": 1, "repeat": 1, "repeat-failure": 0, "retry-failed": 0} {
		if n, err := f.GetInt(flag); f.Changed(flag) && (err != nil || n < least) {
			return nil, console.Usagef("Invalid config at CLI option --%s: expected integer >= %d", flag, least)
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
			return nil, console.Usagef("Invalid config at CLI option --schedule: expected one of: serial, parallel, isolated-by-runner")
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

func (a *command) run(ctx context.Context, o runOptions, path string, f *pflag.FlagSet) (err error) {
	opts, err := o.evalOptions(f)
	if err != nil {
		return err
	}
	config := o.config
	if o.resume != "" {
		begun, err := eval.Resumable(o.resume)
		if err != nil {
			return console.Say(err, giveRuns)
		}
		if path == "" {
			path = begun.Suite
		}
		if config == "" {
			config = begun.Config
		}
		o.applyResumed(begun.Made, opts, f)
	}
	s, cfg, err := a.loadSuite(ctx, path, config, o.env.provider)
	if err != nil {
		return err
	}
	defer locktmp.Sweep(suite.ScratchPrefix) // last, so that it does not delay the first case
	defer s.Close()                          //nolint:errcheck // only temporary files are lost
	return a.runSuite(ctx, s, cfg, opts, &o)
}

// applyResumed copies the settings of a resumed run, except those that flags set.
// Flags that would change the run are refused later.
func (o *runOptions) applyResumed(made *eval.RunSettings, opts *eval.Options, f *pflag.FlagSet) {
	if made == nil {
		return
	}
	isolation := string(made.Isolation)
	for flag, x := range map[string]struct{ to, from *string }{
		"provider": {&o.env.provider, &made.Provider}, "isolation": {&o.env.isolation, &isolation}, "toolset": {&o.env.tools, &made.Tools},
		"record": {&opts.Record, &made.Record}, "replay": {&opts.Replay, &made.Replay},
	} {
		if !f.Changed(flag) {
			*x.to = *x.from
		}
	}
	for flag, x := range map[string]struct{ to, from *[]string }{"allow-net": {&opts.AllowNet, &made.AllowNet}, "ro": {&opts.Read, &made.Read}, "rw": {&opts.Write, &made.Write}, "toolchain": {&o.env.host.Toolchains, &made.Toolchains}} {
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

// setFilters sets the filters of the flags. Ids and tags may have commas.
func (o *runOptions) setFilters(s *suite.Suite, cfg *suite.Config, opts *eval.Options) error {
	var cases, tags, runners []string
	for _, c := range s.Cases {
		cases, tags = append(cases, c.ID), append(tags, c.Tags...)
	}
	for _, r := range cfg.Runners {
		runners = append(runners, r.ID)
	}
	for _, x := range []struct {
		flag          string
		values, known []string
		to            *[]string
	}{{"case", o.cases, cases, &opts.Cases}, {"tag", o.tags, tags, &opts.Tags}, {"runner", o.runners, runners, &opts.Runners}} {
		list, err := splitValues(x.flag, x.values, x.known)
		if err != nil {
			return err
		}
		*x.to = append(*x.to, list...)
	}
	return nil
}

// runSuite runs a suite; failed cases become an exit status.
func (a *command) runSuite(ctx context.Context, s *loadedSuite, cfg *suite.Config, opts *eval.Options, o *runOptions) (err error) {
	if err := o.setFilters(s.Suite, cfg, opts); err != nil {
		return err
	}
	opts.Note = func(format string, args ...any) { a.Note("%s", eval.PlainText(fmt.Sprintf(format, args...))) }
	opts.Tmp = s.tmp
	closeAll, err := a.openReporters(ctx, o, cfg, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	started := false
	defer func() {
		if err != nil && !started {
			eval.ReportError(eval.File(s.Suite), cfg, opts, err)
		}
	}()
	own, err := absDirs(filepath.Dir(s.Path), cfg.Dir, s.tmp, cmp.Or(opts.Resume, opts.OutputDir, cfg.Run.OutputDir, eval.DefaultOutputDir))
	if err != nil {
		return err
	}
	return a.withEnvs(ctx, &o.env, cfg, own, opts, func() error {
		started = true
		res, err := eval.Run(ctx, eval.File(s.Suite), cfg, opts)
		if err != nil {
			return err
		}
		if !res.Passed() {
			return &console.Outcome{Status: exitCasesFailed}
		}
		return nil
	})
}

// moduleSuffixes are the suffixes of reporters that are JavaScript modules.
var moduleSuffixes = []string{".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".jsx"}

func isReporterModule(name string) bool {
	kind, _, _ := strings.Cut(name, "=")
	return !slices.Contains(eval.ReporterNames, kind) && slices.Contains(moduleSuffixes, filepath.Ext(name))
}

// reporterStreams returns the stream of each reporter, so that at most one writes to
// standard output: the one whose format programs read, else the first for people. Further
// ones for people have standard error, unless they would write the same again, and so has
// the console of a module. html writes what standard does, and its page to a file.
func (a *command) reporterStreams(names []string) ([]io.Writer, error) {
	streams := make([]io.Writer, len(names))
	first, data := -1, "" // what has standard output; and its name, if programs read it
	for i, name := range names {
		switch {
		case strings.Contains(name, "=") && !isReporterModule(name): // a file
		case slices.Contains([]string{"json", "json-summary", "junit", "markdown"}, name):
			if data != "" {
				return nil, console.Usagef("CLI option --reporter: %s and %s both write to standard output: give one a file, as in %s=FILE", data,
					name, name)
			}
			first, data = i, name
		case first < 0 || data == "" && name == "html" && names[first] == "standard":
			first = i
		}
	}
	for i, name := range names {
		streams[i] = a.Err
		if i == first {
			streams[i] = a.Out
		} else if data == "" && first >= 0 && !isReporterModule(names[first]) && (name == "html" || name == "standard") { // it would write the same again
			streams[i] = io.Discard
		}
	}
	return streams, nil
}

// openReporters makes the requested reporters, or the default one.
func (a *command) openReporters(ctx context.Context, o *runOptions, cfg *suite.Config, opts *eval.Options) (closeAll func() error, err error) {
	names := o.reporters
	if len(names) == 0 && cfg.Run.Reporter != "" {
		names = []string{cfg.Run.Reporter}
	}
	if len(names) == 0 {
		names = []string{"standard"}
		if a.JSON {
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
	streams, err := a.reporterStreams(names)
	if err != nil {
		return closeAll, err
	}
	for i, name := range names {
		_, live := console.TerminalFile(streams[i])
		opts.Interactive = opts.Interactive || live
		rc := eval.ReporterConfig{Out: streams[i], Interactive: live, Colour: console.UseColour(streams[i]), Width: a.TerminalSize().Cols, Summary: os.Getenv("GITHUB_STEP_SUMMARY")}
		kind, file, toFile := strings.Cut(name, "=")
		if isReporterModule(name) {
			m, err := eval.NewModule(ctx, suite.Loader{Node: a.nodeStarter(o.env.provider)}, name, streams[i])
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
			if file, err = filepath.Abs(file); err != nil {
				return closeAll, errors.Join(err, closeAll())
			}
			opts.Reports = append(opts.Reports, file)
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
