package command

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/config"
)

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print or check the configuration, croft.yaml",
		Long: `Print or check the configuration. Without FILE it is that of $CROFT_CONFIG, else croft.yaml
here, else ~/.config/croft/croft.yaml, else none, with variables CROFT_* over it.`,
		Args: cobra.ArbitraryArgs,
		RunE: group,
	}
	cmd.AddCommand(a.configPrintCommand(), a.configCheckCommand(), a.configSchemaCommand())
	return cmd
}

// resolveConfig reads the configuration that the arguments name.
func (a *app) resolveConfig(args []string) (*config.Config, error) {
	opts := &config.ResolveOptions{}
	if len(args) == 1 {
		opts.File = args[0]
	}
	return config.Resolve(opts)
}

func (a *app) configPrintCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "print [FILE]",
		Short: "Print the configuration in force, with every default",
		Args:  cobra.MaximumNArgs(1),
		RunE: run(func(_ context.Context, args []string) error {
			c, err := a.resolveConfig(args)
			if err != nil {
				return err
			}
			return a.answer(c, func(w io.Writer) error {
				_, err := w.Write(c.YAML())
				return err
			})
		}),
	}
}

func (a *app) configCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Say whether the configuration makes sense",
		Args:  cobra.MaximumNArgs(1),
		RunE: run(func(_ context.Context, args []string) error {
			c, err := a.resolveConfig(args)
			if err != nil {
				return err
			}
			out := struct {
				OK   bool   `json:"ok"`
				File string `json:"file,omitempty"`
			}{true, c.File()}
			return a.answer(out, func(w io.Writer) error {
				file := out.File
				if file == "" {
					file = "no file: the defaults"
				}
				_, err := fmt.Fprintf(w, "ok: %s\n", file)
				return err
			})
		}),
	}
}

func (a *app) configSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of croft.yaml",
		Args:  cobra.NoArgs,
		RunE: run(func(context.Context, []string) error {
			data, err := config.Schema()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.Out, "%s\n", data)
			return err
		}),
	}
}
