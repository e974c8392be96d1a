package cli

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/registry"
)

// registerCompletions adds shell completion to cmd and the commands below it: names
// of workspaces where the usage has NAME first, kinds for --provider, states for
// --state. Errors are dropped: a shell shows none.
func (a *command) registerCompletions(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		a.registerCompletions(c)
	}
	if words := strings.Fields(cmd.Use); len(words) > 1 && words[1] == "NAME" && cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = a.completeName
	}
	for flag, values := range map[string]func(context.Context) []string{"provider": a.providerKinds, "state": stateNames} {
		if cmd.Flags().Lookup(flag) != nil {
			// It fails only for a flag that does not exist.
			_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
				if a.resolveTarget(cmd, nil) != nil {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				return values(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
			})
		}
	}
}

// completeName offers the names (or else ids) of workspaces for the first argument;
// for later arguments the shell offers files.
func (a *command) completeName(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var names []string
	if a.resolveTarget(cmd, nil) == nil {
		a.withClientQuietly(cmd.Context(), func(c *client.Client) error {
			list, err := c.List(cmd.Context(), client.Filter{})
			for _, ws := range list {
				name := ws.Name
				if name == "" {
					name = ws.ID
				}
				names = append(names, cobra.CompletionWithDesc(name, ws.Kind+" "+ws.State))
			}
			return err
		})
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *command) providerKinds(ctx context.Context) (kinds []string) {
	a.withClientQuietly(ctx, func(c *client.Client) error {
		list, err := c.Providers(ctx)
		for _, p := range list {
			kinds = append(kinds, p.Kind)
		}
		return err
	})
	return kinds
}

func stateNames(context.Context) (names []string) {
	for _, s := range registry.States() {
		names = append(names, string(s))
	}
	return names
}

// withClientQuietly runs f with a client and drops errors. It does nothing without a
// data directory, since a completion must not create one.
func (a *command) withClientQuietly(ctx context.Context, f func(*client.Client) error) {
	if a.server == "" {
		settings, err := a.settings()
		if err != nil {
			return
		}
		if _, err := os.Stat(settings.Data); err != nil {
			return
		}
	}
	_ = a.withClient(ctx, f) // the shell then offers nothing
}
