package console

import (
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/internal/daemon/work"
	"github.com/croft-run/croft/internal/suggest"
)

// otherVerbs are verbs of docker, git and kubectl, and the names of our commands that do the same. A
// group answers with those that it has.
var otherVerbs = map[string]string{
	"add": "create put", "branch": "fork apply", "build": "create", "checkout": "restore attach", "clone": "fork", "commit": "snapshot apply",
	"cp": "put get", "create": "open create", "delete": "rm revoke discard", "download": "get", "edit": "shell", "export": "export get", "images": "image",
	"info": "doctor show", "inspect": "show", "kill": "kill discard", "load": "import", "log": "log logs history", "ls": "list ls", "merge": "apply", "new": "open create",
	"port": "port-forward", "prune": "gc", "ps": "list ps", "remove": "rm revoke discard", "rename": "fork rm", "restart": "kill exec", "rm": "rm revoke discard",
	"run": "exec", "save": "snapshot", "serve": "up", "show": "list diff", "ssh": "shell", "start": "up resume", "stats": "ps", "status": "show list",
	"stop": "pause rm discard", "tag": "snapshot", "upload": "put", "view": "print",
}

// OtherCommands are words of other programs that need more words than a name of ours. The key is the
// path of the group and the word.
var OtherCommands = map[string]string{
	"croft build":           "croft template create NAME --dir DIR",
	"croft clone":           "git clone, and then croft work AGENT in its directory; croft ws fork NAME NEW copies a workspace",
	"croft config set":      "an editor on ~/.config/croft/croft.yaml; croft config check names the file in use",
	"croft login":           "set CROFT_SERVER and CROFT_TOKEN, or give --server URL --token KEY; croft key create makes a key",
	"croft network":         "--allow-net HOST of croft run and croft ws open",
	"croft pull":            "croft template create NAME --image IMAGE",
	"croft snapshot create": "croft ws snapshot NAME",
	"croft upgrade":         "the command that installed croft, once more: docs/install.md",
	"croft volume":          "--rw DIR or --ro DIR of croft run and croft ws open",
}

// OtherFlags are flags of other programs, and what does the same here. A key with a command is for
// that command alone.
var OtherFlags = map[string]string{
	"--image":          `use --provider docker --options '{"image":"NAME"}', or --template NAME of croft template create NAME --image IMAGE`,
	"--name croft run": "use croft ws open NAME, then croft ws exec NAME -- PROGRAM",
	"--net":            "use --allow-net HOST; without it there is no network",
	"--network":        "use --allow-net HOST; without it there is no network",
	"--port croft up":  "use --addr 127.0.0.1:PORT",
	"--privileged":     "no command gets more rights; croft doctor shows the levels of --isolation",
	"--publish":        "use croft ws port-forward NAME PORT",
	"--user":           "commands run as the user of the workspace; there is no other",
	"--volume":         "use --rw DIR or --ro DIR",
	"-c croft run":     "a shell command is: croft run -- sh -c 'COMMAND'",
	"-d croft run":     "use croft ws open NAME, then croft ws exec NAME --detach -- PROGRAM",
	"-f croft ws rm":   "croft ws rm NAME asks nothing; with --all or --label add --yes",
	"-m":               "use --memory SIZE",
	"-o":               "use --json",
	"-p":               "use croft ws port-forward NAME PORT",
	"-v":               "use --rw DIR or --ro DIR",
}

// otherWord says what to use instead of a word of another program, "" if croft does not know the word.
func otherWord(group *cobra.Command, word string) string {
	if use, ok := OtherCommands[group.CommandPath()+" "+word]; ok {
		return "; use: " + use
	}
	if verbs, ok := otherVerbs[word]; ok {
		return useOf(group, strings.Fields(verbs)...)
	}
	return ""
}

// useOf says to use the commands of a group that have one of the names; for the whole program it looks
// in the groups ws and work, too.
func useOf(group *cobra.Command, names ...string) string {
	var groups []*cobra.Command
	for _, sub := range group.Commands() {
		if !group.HasParent() && (sub.Name() == "ws" || sub.Name() == "work") {
			groups = append(groups, sub)
		}
	}
	groups = append(groups, group)
	var uses []string
	for _, g := range groups {
		for _, c := range g.Commands() {
			if slices.Contains(names, c.Name()) && c.IsAvailableCommand() {
				use, _, _ := strings.Cut(c.Use, " | ")
				uses = append(uses, g.CommandPath()+" "+strings.Replace(use, "[flags] ", "", 1))
			}
		}
	}
	if len(uses) == 0 {
		return ""
	}
	return "; use: " + strings.Join(uses, ", or ")
}

// UnknownCommand is the error for arguments of a group whose first is no command of it.
func UnknownCommand(group *cobra.Command, args []string) error {
	word := args[0]
	hint := otherWord(group, word)
	if hint == "" {
		var names []string
		for _, c := range group.Commands() {
			if c.IsAvailableCommand() {
				names = append(names, c.Name())
			}
		}
		hint = commandHint(group, args, names)
	}
	switch {
	case hint != "":
	case !group.HasParent():
		hint = rootHint(group, word)
	case group.Name() == "eval" && strings.Contains(word, "."):
		hint = "; use: croft eval run " + ShellQuote(word)
	}
	return Usagef("unknown command %q for %q%s", word, group.CommandPath(), hint)
}

// commandHint suggests the known word nearest to the first argument, with the whole command
// line if there are more arguments.
func commandHint(group *cobra.Command, args, known []string) string {
	word := suggest.Word(args[0], known)
	hint := suggest.Hint(args[0], known)
	if word == "" || len(args) == 1 {
		return hint
	}
	line := append([]string{group.CommandPath(), word}, args[1:]...)
	if dash := group.ArgsLenAtDash(); dash > 0 { // the parser has removed it
		line = slices.Insert(line, dash+1, "--")
	}
	for i := range line[2:] {
		line[i+2] = ShellQuote(line[i+2])
	}
	return hint + " use: " + strings.Join(line, " ")
}

// rootHint says what to use instead of a word that is no command: a command of a group, an agent, or a
// program of this host.
func rootHint(root *cobra.Command, word string) string {
	if hint := useOf(root, word); hint != "" {
		return hint
	}
	if slices.Contains(work.Names(), word) {
		return "; use: croft work " + word
	}
	if _, err := exec.LookPath(word); err == nil && !strings.Contains(word, "/") {
		return "; use: croft run -- " + word
	}
	return ""
}

// flagHint says what to use instead of a flag that the command does not have, given as
// --NAME or -N.
func flagHint(cmd *cobra.Command, flag string) string {
	keys := []string{flag + " " + cmd.CommandPath(), flag}
	if cmd.CommandPath() == "croft work" && strings.HasPrefix(flag, "-") && !strings.HasPrefix(flag, "--") {
		keys = keys[:1] // it is rather one of the agent's than one of docker's
	}
	for _, key := range keys {
		if use, ok := OtherFlags[key]; ok {
			return "; " + use
		}
	}
	return ""
}
