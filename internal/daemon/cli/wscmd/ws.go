// Package wscmd implements croft ws, and the commands for what workspaces are made of and leave:
// croft snapshot, template, artifact, prep, collect and profile.
package wscmd

import (
	"github.com/spf13/cobra"

	"github.com/croft-run/croft/internal/daemon/cli/changecmd"
	"github.com/croft-run/croft/internal/daemon/cli/console"
)

// A command is what the commands of this package have.
type command struct{ *console.Console }

// Commands returns croft ws, and the commands for snapshots, templates, artifacts, inputs and
// outputs of workspaces.
func Commands(c *console.Console) []*cobra.Command {
	a := &command{c}
	return []*cobra.Command{
		wsCommand(a), snapshotStoreCommand(a), templateCommand(a), artifactCommand(a), prepCommand(a), collectCommand(a),
		dirProfileCommand(a),
	}
}

func wsCommand(a *command) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ws",
		Aliases: []string{"workspace"},
		Short:   "Open, list and remove workspaces, use their files, and run commands in them",
	}
	cmd.AddCommand(
		openCommand(a), listCommand(a), showCommand(a), rmCommand(a), describeCommand(a), resetCommand(a),
		lsCommand(a), catCommand(a), putCommand(a), getCommand(a), grepCommand(a), globCommand(a),
		statCommand(a), mkdirCommand(a), mvCommand(a), delCommand(a),
		profileCommand(a),
		execCommand(a), shellCommand(a), psCommand(a), killCommand(a), logsCommand(a), portForwardCommand(a),
		pauseCommand(a), resumeCommand(a),
		snapshotCommand(a), snapshotsCommand(a), restoreCommand(a), forkCommand(a), changecmd.DiffCommand(a.Console),
		changecmd.ApplyCommand(a.Console),
		undoCommand(a), redoCommand(a), historyCommand(a),
	)
	return cmd
}
