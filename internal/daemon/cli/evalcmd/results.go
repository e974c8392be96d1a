package evalcmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
)

func explainCommand(a *command) *cobra.Command {
	var rerun bool
	var config string
	var env envFlags
	cmd := &cobra.Command{
		Use:   "explain DIR",
		Short: "Ask the agent of a failed execution why it did what it did",
		Long: `Ask the agent of a failed execution the questions of its failed assertions, in the same session
and workspace. DIR is the directory of the execution's artifacts, or one above it. Answers are
stored; --rerun asks again.`,
		Args: cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return notRun(a.explain(ctx, args[0], config, &env, rerun))
		}),
	}
	cmd.Flags().BoolVar(&rerun, "rerun", false, "ask again even if there are answers")
	cmd.Flags().StringVar(&config, "config", "", "configuration of the suite (default the nearest one)")
	env.registerFlags(cmd.Flags())
	return cmd
}

func (a *command) explain(ctx context.Context, dir, config string, env *envFlags, rerun bool) error {
	at, err := eval.FindExplain(dir)
	if err != nil {
		return err
	}
	path, err := eval.ExplainSuite(at)
	if err != nil {
		return err
	}
	cfg, err := (&suite.Loader{Node: a.nodeStarter(env.provider)}).LoadConfig(ctx, path, config)
	if err != nil {
		return err
	}
	opts := &eval.Options{UserHome: userHome()}
	if err := env.apply(opts); err != nil {
		return err
	}
	own, err := absDirs(eval.RunDir(at), filepath.Dir(path), cfg.Dir)
	if err != nil {
		return err
	}
	return a.withEnvs(ctx, env, cfg, own, opts, func() error {
		x, err := eval.Explain(ctx, at, cfg, opts, rerun)
		if err != nil {
			return err
		}
		return a.PrintAnswer(x, func(w io.Writer) error {
			fmt.Fprintf(w, "%s > %s\n", console.Printable(x.CaseID), x.RunnerID)
			for _, q := range x.Questions {
				fmt.Fprintf(w, "\nQ: %s\n", eval.PlainText(q.Question))
				if q.Error != "" {
					fmt.Fprintf(w, "no answer: %s\n", eval.PlainText(q.Error))
					continue
				}
				fmt.Fprintf(w, "A: %s\n", eval.PlainText(q.Answer))
			}
			return nil
		})
	})
}

func diffCommand(a *command) *cobra.Command {
	var page string
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two runs",
		Long: `Compare two runs, each given by its directory or its results.json: pass rates, tokens, time and
cost of each runner with 95 % confidence intervals (Wilson for rates, bootstrap for means), and
the executions whose outcome differs. Every session counts, so --repeat narrows the intervals.
The exit status is 0 even if the runs differ.`,
		Args: cobra.ExactArgs(2),
		RunE: console.RunE(func(_ context.Context, args []string) error { return notRun(a.diff(args[0], args[1], page)) }),
	}
	cmd.Flags().StringVar(&page, "html", "", "also write a page with plots to this file")
	return cmd
}

func (a *command) diff(first, second, page string) error {
	x, err := eval.ReadResult(first)
	if err != nil {
		return console.Say(err, giveRuns)
	}
	y, err := eval.ReadResult(second)
	if err != nil {
		return console.Say(err, giveRuns)
	}
	if page != "" {
		data, err := eval.ComparisonPage(x, y)
		if err != nil {
			return err
		}
		if err := os.WriteFile(page, data, 0o644); err != nil { // a page to be shown
			return err
		}
	}
	c := eval.Compare(x, y)
	return a.PrintAnswer(c, c.Write)
}

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
		return console.Say(err, giveRuns)
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

const giveRuns = "give directories of runs, below .skillgym-results"
