package evalcmd

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/internal/daemon/cli/console"
)

func skillsCommand(a *command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "skills",
		Short: "Instructions for agents that write suites",
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "list",
		Short: "List them by name",
		Args:  cobra.NoArgs,
		RunE: console.RunE(func(context.Context, []string) error {
			names := eval.Skills()
			return a.PrintAnswer(names, func(w io.Writer) error {
				for _, n := range names {
					fmt.Fprintln(w, n)
				}
				return nil
			})
		}),
	}, &cobra.Command{
		Use:   "get NAME",
		Short: "Print one, as Markdown",
		Args:  cobra.ExactArgs(1),
		RunE: console.RunE(func(_ context.Context, args []string) error {
			text, err := eval.Skill(args[0])
			if err != nil {
				return notRun(err)
			}
			return a.PrintAnswer(map[string]string{"name": args[0], "text": text}, func(w io.Writer) error {
				_, err := io.WriteString(w, text)
				return err
			})
		}),
	})
	return cmd
}
