package evalcmd

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/eval/suite"
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
