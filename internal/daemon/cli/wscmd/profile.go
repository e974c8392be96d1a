package wscmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/profile"
)

func dirProfileCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "profile [DIR]",
		Short: "Detect the projects in a directory, and their commands",
		Long: `Detect the projects in a directory of this host (default the current one) and the commands to
build, test and lint them, each with the file that it was found in. For a workspace, see croft ws
profile.`,
		Args: cobra.MaximumNArgs(1),
		RunE: console.RunE(func(_ context.Context, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			return a.printDirProfile(dir)
		}),
	}
}

func (a *command) printDirProfile(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return hostError("profile", dir, err)
	}
	if !info.IsDir() {
		return fmt.Errorf("profile %s: %w: it is not a directory", dir, fault.InvalidArgument)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // closing a directory can lose nothing
	p, err := profile.Detect(root.FS(), nil)
	if err != nil {
		return err
	}
	settings, err := a.Settings()
	if err != nil {
		return err
	}
	p = p.With(settings.CommandsOf())
	return a.PrintAnswer(p, func(w io.Writer) error { return a.printProfile(w, p) })
}

func profileCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "profile NAME",
		Short: "Detect the projects in a workspace, and their commands",
		Args:  cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithClient(ctx, func(c *client.Client) error {
				data, err := c.Profile(ctx, args[0])
				if err != nil {
					return err
				}
				var p profile.Profile
				if err := json.Unmarshal(data, &p); err != nil {
					return fmt.Errorf("profile %s: %w: %w", args[0], fault.Unavailable, err)
				}
				return a.PrintAnswer(data, func(w io.Writer) error { return a.printProfile(w, p) })
			})
		}),
	}
}

func (a *command) printProfile(w io.Writer, p profile.Profile) error {
	if len(p.Projects) == 0 {
		a.Note("no project found")
	}
	for i, q := range p.Projects {
		if i > 0 {
			fmt.Fprintln(w)
		}
		rows := [][]string{{"project", console.Printable(q.Dir)}, {"ecosystem", string(q.Ecosystem), console.Printable(q.Proof)}}
		if q.PackageManager != "" {
			rows = append(rows, []string{"manager", q.PackageManager, console.Printable(q.PackageManagerProof)})
		}
		for _, c := range []struct {
			name    string
			command profile.Command
		}{
			{"install", q.Install}, {"build", q.Build}, {"format", q.Format}, {"lint", q.Lint},
			{"typecheck", q.Typecheck}, {"test", q.Test}, {"scoped test", q.ScopedTest},
		} {
			if !c.command.IsZero() {
				rows = append(rows, []string{c.name, console.Printable(c.command.String()), console.Printable(c.command.Proof)})
			}
		}
		if err := console.WriteTable(w, rows); err != nil {
			return err
		}
		for _, warning := range q.Warnings {
			a.Note("warning: %s", warning)
		}
	}
	for _, warning := range p.Warnings {
		a.Note("warning: %s", warning)
	}
	return nil
}
