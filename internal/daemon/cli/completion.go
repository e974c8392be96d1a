package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/daemon/setup"
	"github.com/croft-run/croft/internal/daemon/work"
	"github.com/croft-run/croft/registry"
)

// registerCompletions adds shell completion to cmd and the commands below it: for arguments
// by their words in the usage, such as NAME and SNAPSHOT, and for flags by their names.
func (a *command) registerCompletions(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		a.registerCompletions(c)
	}
	if words := a.argumentCompleters(cmd); len(words) > 0 && cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			at := len(args)
			if last := len(words) - 1; at > last && strings.Contains(cmd.Use, "...") && !strings.Contains(cmd.Use, "PROGRAM") {
				at = last
			}
			if at >= len(words) || words[at] == nil {
				return nil, cobra.ShellCompDirectiveDefault // the shell offers files
			}
			return a.Complete(cmd, words[at], args)
		}
	}
	flags := map[string]console.Completer{
		"provider": a.providerKinds, "state": stateNames, "workspace": a.WorkspaceNames, "template": a.templateNames, "snapshot": a.snapshotNames,
		"tools": toolNames, "scope": fixed("read", "run", "admin"), "toolset": fixed("default", "full", "codegen", "workspace", "both"), "git": fixed("private", "shared"),
		"isolation": fixed("gvisor", "namespaces", "bubblewrap", "process"), "allow-net": fixed("@npm", "@pypi", "@go", "@cargo"),
	}
	for flag, words := range flags {
		if cmd.Flags().Lookup(flag) != nil {
			// It fails only for a flag that does not exist.
			_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
				return a.Complete(cmd, words, args)
			})
		}
	}
}

// argumentCompleters returns the completers of the arguments of a command, by its usage; nil
// among them is a file or a text.
func (a *command) argumentCompleters(cmd *cobra.Command) []console.Completer {
	usage, _, _ := strings.Cut(cmd.Use, " | ")
	group := ""
	if cmd.HasParent() {
		group = cmd.Parent().Name()
	}
	var list []console.Completer
	for _, word := range strings.Fields(usage)[1:] {
		word = strings.Trim(word, "[].")
		switch {
		case word == "flags" || cmd.Name() == "open":
			continue
		case strings.HasPrefix(word, "-"):
			return list
		}
		list = append(list, a.argumentCompleter(group, cmd.Name(), word))
	}
	return list
}

func (a *command) argumentCompleter(group, name, word string) console.Completer {
	switch {
	case word == "NAME" && group == "template" && name != "create":
		return a.templateNames
	case word == "NAME" && name == "tool":
		return toolNames
	case word == "NAME" && (group == "ws" || group == "artifact" || name == "collect"):
		return a.WorkspaceNames
	case word == "NAME" && group == "work":
		return a.workNames
	case word == "SNAPSHOT" && name != "snapshot" && name != "import":
		return a.snapshotNames
	case word == "KIND":
		return a.providerKinds
	case word == "AGENT" && name == "setup":
		return setupNames
	case word == "AGENT":
		return fixed(work.Names()...)
	case word == "suite|config":
		return fixed("suite", "config")
	}
	return nil
}

func fixed(words ...string) console.Completer {
	return func(context.Context, []string) []string { return slices.Clone(words) }
}

// workNames returns the names of the works of croft work.
func (a *command) workNames(ctx context.Context, _ []string) (names []string) {
	a.WithClientQuietly(ctx, func(c *client.Client) error {
		list, err := c.List(ctx, client.Filter{})
		for _, ws := range list {
			if agent := ws.Labels[work.AgentLabel]; agent != "" && ws.Name != "" {
				names = append(names, cobra.CompletionWithDesc(ws.Name, agent))
			}
		}
		return err
	})
	return names
}

func (a *command) templateNames(ctx context.Context, _ []string) (names []string) {
	a.WithClientQuietly(ctx, func(c *client.Client) error {
		list, err := c.Templates(ctx)
		for _, t := range list {
			names = append(names, cobra.CompletionWithDesc(t.Name, t.Source))
		}
		return err
	})
	return names
}

// snapshotNames returns the snapshots of the workspace that is the first argument, by their
// names or else ids; without one the ids of all snapshots.
func (a *command) snapshotNames(ctx context.Context, args []string) (names []string) {
	a.WithClientQuietly(ctx, func(c *client.Client) error {
		of := ""
		if len(args) > 0 {
			if ws, err := c.Show(ctx, args[0]); err == nil {
				of = ws.ID
			}
		}
		list, err := c.Snapshots(ctx)
		for _, s := range list {
			switch {
			case of == "":
				names = append(names, cobra.CompletionWithDesc(s.ID, s.Name+" "+console.TimeText(s.Created)))
			case s.Workspace == of:
				names = append(names, cobra.CompletionWithDesc(cmp.Or(s.Name, s.ID), console.TimeText(s.Created)))
			}
		}
		return err
	})
	return names
}

func (a *command) providerKinds(ctx context.Context, _ []string) (kinds []string) {
	a.WithClientQuietly(ctx, func(c *client.Client) error {
		if a.System != nil { // the list of a client says what works, which takes a test of each
			kinds = a.System.Mux.Kinds()
			return nil
		}
		list, err := c.Providers(ctx)
		for _, p := range list {
			kinds = append(kinds, p.Kind)
		}
		return err
	})
	return kinds
}

func stateNames(context.Context, []string) (names []string) {
	for _, s := range registry.States() {
		names = append(names, string(s))
	}
	return names
}

func toolNames(context.Context, []string) (names []string) {
	for _, t := range app.Tools() {
		first, _, _ := strings.Cut(t.Description, ". ")
		names = append(names, cobra.CompletionWithDesc(t.Name, strings.ReplaceAll(first, "\n", " ")))
	}
	return names
}

func setupNames(context.Context, []string) (names []string) {
	for _, agent := range setup.Agents(setup.Options{}) {
		names = append(names, agent.Name)
	}
	return names
}
