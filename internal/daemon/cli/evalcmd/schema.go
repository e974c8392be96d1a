package evalcmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
)

func schemaCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "schema suite|config",
		Short: "Print the JSON Schema of suites or of croft.eval.yaml",
		Args:  cobra.ExactArgs(1),
		RunE: console.RunE(func(_ context.Context, args []string) error {
			make, ok := map[string]func() ([]byte, error){"suite": suite.Schema, "config": suite.ConfigSchema}[args[0]]
			if !ok {
				return notRun(fault.Advise(fmt.Errorf("eval: schema %q: %w", args[0], fault.InvalidArgument), "expected suite or config"))
			}
			text, err := make()
			if err != nil {
				return err
			}
			_, err = a.Out.Write(text)
			return err
		}),
	}
}
