package evalcmd

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/internal/daemon/cli/console"
)

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
		return console.Say(err, console.GiveRuns)
	}
	y, err := eval.ReadResult(second)
	if err != nil {
		return console.Say(err, console.GiveRuns)
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
