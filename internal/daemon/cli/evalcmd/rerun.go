package evalcmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
)

func rerunCommand(a *command) *cobra.Command {
	var opts runOptions
	var all bool
	cmd := &cobra.Command{
		Use:   "rerun DIR",
		Short: "Run the failed executions of a run again",
		Long: `Run the failed executions of the run in directory DIR again, as a new run. The exit status is
that of croft eval run, and 0 if nothing failed.`,
		Args: cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	opts.registerFlags(f)
	f.BoolVar(&all, "all", false, "all executions, not only the failed ones")
	_ = f.MarkHidden("resume") // it is defined above
	cmd.RunE = console.RunE(func(ctx context.Context, args []string) error {
		return notRun(a.rerun(ctx, args[0], opts, all, f))
	})
	return cmd
}

func (a *command) rerun(ctx context.Context, dir string, o runOptions, all bool, f *pflag.FlagSet) error {
	opts, err := o.evalOptions(f)
	if err != nil {
		return err
	}
	begun, err := eval.Resumable(dir)
	if err != nil {
		return console.Say(err, console.GiveRuns)
	}
	path, config := begun.Suite, begun.Config
	if o.config != "" {
		config = o.config
	}
	was, err := eval.ReadResult(dir)
	if err != nil {
		return console.Say(fmt.Errorf("%w: %w", fault.Of(err), err), "continue an interrupted run with croft eval run --resume")
	}
	type pair struct{ c, r string }
	again := map[pair]bool{}
	for _, c := range was.Cases {
		for _, e := range c.RunnerResults {
			if all || !e.Passed {
				again[pair{c.CaseID, e.Runner.ID}] = true
			}
		}
	}
	if len(again) == 0 {
		a.Note("nothing failed in %s", dir)
		return nil
	}
	opts.Only = func(c, r string) bool { return again[pair{c, r}] }
	for p := range again {
		opts.Cases, opts.Runners = append(opts.Cases, p.c), append(opts.Runners, p.r)
	}
	s, cfg, err := a.loadSuite(ctx, path, config, o.env.provider)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // only temporary files are lost
	return a.runSuite(ctx, s, cfg, opts, &o)
}
