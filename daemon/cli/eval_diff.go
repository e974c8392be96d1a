package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/eval"
)

func (a *command) evalDiffCommand() *cobra.Command {
	var page string
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two runs",
		Long: `Compare two runs, each the directory of a run or its results.json: pass rates, tokens, time
and cost of each runner with their 95 % intervals (Wilson's for rates, bootstrap for means),
and the executions that came out differently. Every session counts, so runs with --repeat
have narrow intervals. The exit status is 0 whatever differs.`,
		Args: cobra.ExactArgs(2),
		RunE: run(func(_ context.Context, args []string) error { return notRun(a.evalDiff(args[0], args[1], page)) }),
	}
	cmd.Flags().StringVar(&page, "html", "", "write a page with plots to this file, too")
	return cmd
}

func (a *command) evalDiff(first, second, page string) error {
	x, err := eval.ReadResult(first)
	if err != nil {
		return err
	}
	y, err := eval.ReadResult(second)
	if err != nil {
		return err
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
	return a.printAnswer(c, c.Write)
}
