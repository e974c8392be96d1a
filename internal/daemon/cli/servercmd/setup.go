package servercmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/daemon/setup"
	"github.com/croft-run/croft/internal/suggest"
	"github.com/croft-run/croft/internal/textdiff"
)

type setupOptions struct {
	yes, undo bool
}

// A setupResult says what was done with the configuration of an agent.
type setupResult struct {
	Agent  string `json:"agent"`
	File   string `json:"file"`
	State  string `json:"state"` // added, removed, unchanged, declined or failed
	Backup string `json:"backup,omitempty"`
	Diff   string `json:"diff,omitempty"`
	Error  string `json:"error,omitempty"`
}

// The states of a setupResult.
const (
	setupAdded     = "added"
	setupRemoved   = "removed"
	setupUnchanged = "unchanged" // nothing was to be done
	setupDeclined  = "declined"  // the user did not say yes
	setupFailed    = "failed"
)

func setupCommand(a *command) *cobra.Command {
	var opts setupOptions
	cmd := &cobra.Command{
		Use:   "setup [AGENT]...",
		Short: "Add Croft's MCP server to the agents that are installed",
		Long: `Find agents (claude, codex, opencode, gemini, copilot, cursor, vscode), and offer to add Croft's MCP
server to the user's configuration of each. The change is shown as a diff first; the file of before
is kept beside it, as FILE.croft-backup. Without a terminal nothing is changed without --yes.

A file that can't be parsed is left as it is.`,
		Example: "  croft setup\n  croft setup claude --yes\n  croft setup --undo",
		Args:    cobra.ArbitraryArgs,
		RunE:    console.RunE(func(_ context.Context, args []string) error { return a.setup(args, opts) }),
	}
	f := cmd.Flags()
	console.RegisterYes(f, &opts.yes)
	f.BoolVar(&opts.undo, "undo", false, "remove the server again; a file that has not changed since becomes that of before")
	return cmd
}

func (a *command) setup(names []string, opts setupOptions) error {
	agents, err := a.setupAgents(names, opts.undo)
	if err != nil {
		return err
	}
	in := bufio.NewReader(a.In)
	var results []setupResult
	var errs []error
	for _, agent := range agents {
		r, err := a.setupAgent(agent, opts, in)
		if err != nil {
			r.State, r.Error = setupFailed, err.Error()
			errs = append(errs, err)
		}
		results = append(results, r)
	}
	err = a.PrintAnswer(results, func(w io.Writer) error {
		for _, r := range results {
			text := r.State
			if r.Backup != "" {
				text += "; the file of before is " + r.Backup
			}
			if r.State != setupFailed { // the error says it
				fmt.Fprintf(w, "%s: %s: %s\n", r.Agent, console.Printable(r.File), console.Printable(text))
			}
		}
		return nil
	})
	return errors.Join(err, errors.Join(errs...))
}

// setupAgents returns the agents of the names, or all that are installed.
func (a *command) setupAgents(names []string, undo bool) ([]setup.Agent, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, fmt.Errorf("setup: %w: %w", fault.NotFound, err)
	}
	program := a.programPath()
	if program != "croft" { // an agent starts it from another directory
		if program, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("setup: find this program: %w", err)
		}
	}
	var known []string
	byName := map[string]setup.Agent{}
	var installed []setup.Agent
	for _, agent := range setup.Agents(setup.Options{Home: home, Command: program}) {
		known, byName[agent.Name] = append(known, agent.Name), agent
		if agent.Found != "" || undo {
			installed = append(installed, agent)
		}
	}
	if len(names) == 0 {
		if len(installed) == 0 {
			err := fmt.Errorf("setup: %w: no agent is installed; looked for %s, on PATH and by their configuration below %s",
				fault.NotFound, strings.Join(known, ", "), home)
			return nil, console.Say(err, "install one, or add the server by hand: croft mcp --dir DIR")
		}
		return installed, nil
	}
	var list []setup.Agent
	for _, name := range names {
		agent, ok := byName[name]
		if !ok {
			return nil, console.Usagef("setup: there is no agent %q; the agents are %s%s", name, strings.Join(known, ", "),
				suggest.Hint(name, known))
		}
		list = append(list, agent)
	}
	return list, nil
}

// setupAgent shows the change of one agent and makes it, if the user says yes.
func (a *command) setupAgent(agent setup.Agent, opts setupOptions, in *bufio.Reader) (setupResult, error) {
	r := setupResult{Agent: agent.Name, File: agent.File, State: setupUnchanged}
	plan, verb, state := agent.Add, "Add Croft to", setupAdded
	if opts.undo {
		plan, verb, state = agent.Remove, "Remove Croft from", setupRemoved
	}
	change, err := plan()
	if err != nil || change == nil {
		return r, err
	}
	r.File, r.Diff = change.File, textdiff.Unified(strings.TrimPrefix(change.File, "/"), change.Before, change.After, 3)
	if !a.JSON {
		fmt.Fprintf(a.Err, "%s\n", printableLines(r.Diff))
	}
	if !opts.yes && !a.Confirm(fmt.Sprintf("%s %s?", verb, agent.Title), in) {
		r.State = setupDeclined
		return r, nil
	}
	if r.Backup, err = change.Make(); err != nil {
		return r, err
	}
	r.State = state
	return r, nil
}

// printableLines is printable for a text of several lines.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		tabs := strings.Split(line, "\t")
		for j, part := range tabs {
			tabs[j] = console.Printable(part)
		}
		lines[i] = strings.Join(tabs, "\t")
	}
	return strings.Join(lines, "\n")
}
