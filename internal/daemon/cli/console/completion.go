package console

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
)

// completionTime bounds the search for names: a shell waits for it.
const completionTime = 2 * time.Second

// A Completer returns the words that the shell may offer, given the arguments so far. Errors
// are dropped: a shell shows none.
type Completer func(ctx context.Context, args []string) []string

// Complete returns the words of a completer that are not among the arguments yet.
func (a *Console) Complete(cmd *cobra.Command, words Completer, args []string) ([]string, cobra.ShellCompDirective) {
	if a.ResolveTarget(cmd, nil) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	list := slices.DeleteFunc(words(ctx, args), func(word string) bool {
		name, _, _ := strings.Cut(word, "\t")
		return slices.Contains(args, name)
	})
	return list, cobra.ShellCompDirectiveNoFileComp
}

// WorkspaceNames returns the names (or else ids) of workspaces.
func (a *Console) WorkspaceNames(ctx context.Context, _ []string) (names []string) {
	a.WithClientQuietly(ctx, func(c *client.Client) error {
		list, err := c.List(ctx, client.Filter{})
		for _, ws := range list {
			names = append(names, cobra.CompletionWithDesc(cmp.Or(ws.Name, ws.ID), ws.Kind+" "+ws.State))
		}
		return err
	})
	return names
}

// WithClientQuietly runs f with a client and drops errors. It does nothing without a
// data directory, since a completion must not create one.
func (a *Console) WithClientQuietly(ctx context.Context, f func(*client.Client) error) {
	if a.Server == "" {
		settings, err := a.Settings()
		if err != nil {
			return
		}
		if _, err := os.Stat(settings.Data); err != nil {
			return
		}
	}
	_ = a.WithClient(ctx, f) // the shell then offers nothing
}
