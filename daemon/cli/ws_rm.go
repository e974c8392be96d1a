package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
)

func (a *command) wsRmCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME...",
		Short: "Destroy workspaces and all their files",
		Long: `Destroy workspaces and all their files. A directory that is used in place stays. If one can't be
removed, the others still are.`,
		Args: cobra.MinimumNArgs(1),
		RunE: run(func(ctx context.Context, args []string) error {
			return a.withClient(ctx, func(c *client.Client) error { return a.wsRm(ctx, c, args) })
		}),
	}
}

func (a *command) wsRm(ctx context.Context, c *client.Client, names []string) error {
	if len(names) == 1 {
		if err := c.Destroy(ctx, names[0]); err != nil {
			return err
		}
		a.note("removed %s", names[0])
		return a.printJSONOnly(map[string]string{"removed": names[0]})
	}
	var removed []string
	var errs []error
	for _, name := range names {
		if err := c.Destroy(ctx, name); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		a.note("removed %s", name)
		removed = append(removed, name)
	}
	if len(removed) > 0 {
		errs = append(errs, a.printJSONOnly(map[string][]string{"removed": removed}))
	}
	return errors.Join(errs...)
}
