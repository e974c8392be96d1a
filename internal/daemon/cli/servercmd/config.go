package servercmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/daemon/config"
)

func configCommand(a *command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print or check the configuration, croft.yaml",
		Long: `Print or check the configuration. Without FILE it is the one in force: --config, else
$CROFT_CONFIG, else croft.yaml in the data directory, else ~/.config/croft/croft.yaml, else
none. Variables CROFT_* override it.

A croft.yaml in the current directory is read only if it is named: a checkout must not decide
what agents may do.`,
	}
	cmd.AddCommand(configPrintCommand(a), configCheckCommand(a), configSchemaCommand(a))
	return cmd
}

// namedConfig reads the configuration of the argument FILE, or the one in force.
func (a *command) namedConfig(args []string) (*config.Config, error) {
	file := a.Config
	if len(args) == 1 {
		file = args[0]
	}
	c, err := a.ResolveConfig(file)
	if err == nil && file == "" {
		a.noteIgnoredConfig(c)
	}
	return c, err
}

// noteIgnoredConfig mentions a croft.yaml in the current directory that is not in force.
func (a *command) noteIgnoredConfig(c *config.Config) {
	if _, err := os.Stat(config.FileName); err == nil && (c.File() == "" || !sameFile(config.FileName, c.File())) {
		a.Note("croft: the %s in this directory is not read; name it with --config to use it", config.FileName)
	}
}

func configPrintCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "print [FILE]",
		Short: "Print the configuration in force, with every default",
		Args:  cobra.MaximumNArgs(1),
		RunE: console.RunE(func(_ context.Context, args []string) error {
			c, err := a.namedConfig(args)
			if err != nil {
				return err
			}
			if a.Server != "" {
				a.Note("croft: this is the configuration of this host, not of the server %s; run croft config print on the server's host for that", a.Server)
			}
			return a.PrintAnswer(c, func(w io.Writer) error {
				_, err := w.Write(c.YAML())
				return err
			})
		}),
	}
}

func configCheckCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check the configuration",
		Args:  cobra.MaximumNArgs(1),
		RunE: console.RunE(func(_ context.Context, args []string) error {
			c, err := a.namedConfig(args)
			if err != nil {
				return err
			}
			out := struct {
				OK       bool     `json:"ok"`
				File     string   `json:"file,omitempty"`
				Warnings []string `json:"warnings,omitempty"`
			}{true, c.File(), missingDirs(c)}
			for _, w := range out.Warnings {
				a.Note("warning: %s", w)
			}
			return a.PrintAnswer(out, func(w io.Writer) error {
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

// missingDirs returns a warning for each configured directory that does not exist.
func missingDirs(c *config.Config) []string {
	var warnings []string
	for key, dirs := range map[string][]string{"skills": c.Skills, "hostRoots": c.HostRoots} {
		for _, dir := range dirs {
			if info, err := os.Stat(dir); err != nil || !info.IsDir() {
				warnings = append(warnings, fmt.Sprintf("%s: %s: no such directory", key, dir))
			}
		}
	}
	slices.Sort(warnings)
	return warnings
}

func configSchemaCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of croft.yaml",
		Args:  cobra.NoArgs,
		RunE: console.RunE(func(context.Context, []string) error {
			data, err := config.Schema()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.Out, "%s\n", data)
			return err
		}),
	}
}
