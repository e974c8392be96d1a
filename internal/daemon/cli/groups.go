package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
)

// startText is what croft prints without arguments.
const startText = `Croft gives agents workspaces: files and commands in a sandbox of their own.

Start with one of these:
  croft work claude        an agent works in a copy of this project; you review and apply its changes
  croft run -- make test   a command runs in a sandbox, without network and without your files
  croft setup              the agents that are installed get Croft's tools, over MCP

croft doctor shows what this host supports, croft --help lists all commands.
`

// A commandGroup is a part of the list of commands in a help text.
type commandGroup struct {
	title    string
	commands []string
}

var rootGroups = []commandGroup{
	{"Let agents work:", []string{"work", "mcp", "setup", "tool", "eval"}},
	{"Run commands and code:", []string{"run", "code", "script"}},
	{"Keep workspaces and files:", []string{"ws", "template", "snapshot", "prep", "collect", "artifact", "profile"}},
	{"Serve and operate:", []string{"up", "key", "events", "doctor", "provider", "image", "config", "backup", "restore", "gc"}},
	{"This program:", nil}, // all others
}

var wsGroups = []commandGroup{
	{"Workspaces:", []string{"open", "list", "show", "describe", "rm", "pause", "resume", "reset", "profile"}},
	{"Commands:", []string{"exec", "shell", "ps", "logs", "kill", "port-forward"}},
	{"Files:", []string{"ls", "cat", "put", "get", "grep", "glob", "stat", "mkdir", "mv", "del"}},
	{"Changes and snapshots:", nil},
}

// setGroups divides the commands of cmd into groups. The last group has all that no other
// names.
func setGroups(cmd *cobra.Command, groups []commandGroup) {
	for i, g := range groups {
		cmd.AddGroup(&cobra.Group{ID: fmt.Sprint(i), Title: g.title})
	}
	cmd.SetHelpCommandGroupID(fmt.Sprint(len(groups) - 1))
	for _, c := range cmd.Commands() {
		i := slices.IndexFunc(groups, func(g commandGroup) bool { return slices.Contains(g.commands, c.Name()) })
		if i < 0 {
			i = len(groups) - 1
		}
		c.GroupID = fmt.Sprint(i)
	}
}
