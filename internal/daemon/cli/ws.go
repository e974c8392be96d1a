package cli

import (
	"github.com/spf13/cobra"

	"github.com/croft-run/croft/internal/daemon/cli/changecmd"
)

func (a *command) wsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ws",
		Aliases: []string{"workspace"},
		Short:   "Open, list and remove workspaces, use their files, and run commands in them",
	}
	cmd.AddCommand(
		a.wsOpenCommand(), a.wsListCommand(), a.wsShowCommand(), a.wsRmCommand(), a.wsDescribeCommand(), a.wsResetCommand(),
		a.wsLsCommand(), a.wsCatCommand(), a.wsPutCommand(), a.wsGetCommand(), a.wsGrepCommand(), a.wsGlobCommand(),
		a.wsStatCommand(), a.wsMkdirCommand(), a.wsMvCommand(), a.wsDelCommand(),
		a.wsProfileCommand(),
		a.wsExecCommand(), a.wsShellCommand(), a.wsPsCommand(), a.wsKillCommand(), a.wsLogsCommand(), a.wsPortForwardCommand(),
		a.wsPauseCommand(), a.wsResumeCommand(),
		a.wsSnapshotCommand(), a.wsSnapshotsCommand(), a.wsRestoreCommand(), a.wsForkCommand(), changecmd.DiffCommand(a.Console), changecmd.ApplyCommand(a.Console),
		a.wsUndoCommand(), a.wsRedoCommand(), a.wsHistoryCommand(),
	)
	setGroups(cmd, wsGroups)
	return cmd
}
