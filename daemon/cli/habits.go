package cli

import (
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/daemon/work"
	"github.com/croft-run/croft/internal/suggest"
)

// otherCommands are commands of docker, kubectl and other programs, and what does the same
// here. The key is the path of the group and the word.
var otherCommands = map[string]string{
	"croft apply":      "croft work apply, or croft ws apply NAME DIR",
	"croft attach":     "croft work attach, or croft ws shell NAME --session ID",
	"croft build":      "croft template create NAME --dir DIR",
	"croft clean":      "croft gc",
	"croft commit":     "croft ws snapshot NAME",
	"croft container":  "croft ws",
	"croft cp":         "croft ws put NAME SRC DEST, or croft ws get NAME PATH DEST",
	"croft create":     "croft ws open NAME",
	"croft delete":     "croft ws rm NAME",
	"croft destroy":    "croft ws rm NAME",
	"croft diff":       "croft work diff, or croft ws diff NAME",
	"croft download":   "croft ws get NAME PATH DEST",
	"croft get":        "croft ws list, or croft ws get NAME PATH DEST for files",
	"croft images":     "croft image list",
	"croft info":       "croft doctor",
	"croft init":       "croft setup for an agent, or croft ws open NAME for a workspace",
	"croft inspect":    "croft ws show NAME --json",
	"croft install":    "croft setup",
	"croft keys":       "croft key list",
	"croft ls":         "croft ws list, or croft ws ls NAME for the files of one",
	"croft new":        "croft ws open NAME",
	"croft ps":         "croft ws list, or croft ws ps NAME for the commands of one",
	"croft prune":      "croft gc, or croft snapshot prune --keep N",
	"croft pull":       "croft template create NAME --image IMAGE",
	"croft push":       "croft snapshot export SNAPSHOT --bucket URL",
	"croft review":     "croft work review",
	"croft remove":     "croft ws rm NAME",
	"croft sandbox":    "croft ws",
	"croft serve":      "croft up",
	"croft server":     "croft up",
	"croft snapshots":  "croft snapshot list, or croft ws snapshots NAME",
	"croft start":      "croft up for the server, or croft ws resume NAME for a paused workspace",
	"croft status":     "croft ws list, or croft doctor for this host",
	"croft stop":       "croft ws pause NAME, or croft ws rm NAME",
	"croft templates":  "croft template list",
	"croft tools":      "croft tool",
	"croft stats":      "croft ws ps NAME",
	"croft top":        "croft ws ps NAME",
	"croft undo":       "croft work undo, or croft ws undo NAME",
	"croft unpause":    "croft ws resume NAME",
	"croft upload":     "croft ws put NAME SRC DEST",
	"croft workspaces": "croft ws list",

	"croft ws attach":   "croft ws shell NAME --session ID",
	"croft ws close":    "croft ws pause NAME, or croft ws rm NAME",
	"croft ws commit":   "croft ws snapshot NAME",
	"croft ws cp":       "croft ws put NAME SRC DEST, or croft ws get NAME PATH DEST",
	"croft ws create":   "croft ws open NAME",
	"croft ws delete":   "croft ws rm NAME, or croft ws del NAME PATH for a file",
	"croft ws destroy":  "croft ws rm NAME",
	"croft ws download": "croft ws get NAME PATH DEST",
	"croft ws edit":     "croft ws shell NAME",
	"croft ws find":     "croft ws glob NAME PATTERN",
	"croft ws inspect":  "croft ws show NAME --json",
	"croft ws new":      "croft ws open NAME",
	"croft ws read":     "croft ws cat NAME PATH",
	"croft ws remove":   "croft ws rm NAME",
	"croft ws run":      "croft ws exec NAME -- PROGRAM",
	"croft ws ssh":      "croft ws shell NAME",
	"croft ws start":    "croft ws resume NAME",
	"croft ws stop":     "croft ws pause NAME, or croft ws rm NAME",
	"croft ws unpause":  "croft ws resume NAME",
	"croft ws upload":   "croft ws put NAME SRC DEST",
	"croft ws write":    "croft ws put NAME SRC DEST",

	"croft work accept":  "croft work apply",
	"croft work cancel":  "croft work discard",
	"croft work commit":  "croft work apply --commit -m TEXT",
	"croft work delete":  "croft work discard",
	"croft work drop":    "croft work discard",
	"croft work exec":    "croft work shell, or croft work -- PROGRAM for a new copy",
	"croft work logs":    "croft work log",
	"croft work ls":      "croft work list",
	"croft work merge":   "croft work apply",
	"croft work ps":      "croft work list",
	"croft work reject":  "croft work discard",
	"croft work remove":  "croft work discard",
	"croft work restore": "croft work undo",
	"croft work resume":  "croft work attach",
	"croft work revert":  "croft work undo",
	"croft work rm":      "croft work discard",
	"croft work run":     "croft work -- PROGRAM",
	"croft work show":    "croft work diff",
	"croft work start":   "croft work AGENT, or croft work -- PROGRAM",
	"croft work status":  "croft work list, and croft work diff",
	"croft work stop":    "croft work discard removes it, and ends what runs in it",
	"croft work test":    "croft work compare runs the tests, or croft work review",

	"croft config get":      "croft config print",
	"croft config show":     "croft config print",
	"croft config validate": "croft config check",
	"croft image pull":      "croft template create NAME --image IMAGE",
	"croft key add":         "croft key create",
	"croft key delete":      "croft key revoke ID",
	"croft key rm":          "croft key revoke ID",
	"croft snapshot create": "croft ws snapshot NAME",
	"croft snapshot delete": "croft snapshot rm SNAPSHOT",
	"croft snapshot take":   "croft ws snapshot NAME",
	"croft template add":    "croft template create NAME --dir DIR",
	"croft template delete": "croft template rm NAME",
}

// otherFlags are flags of other programs and earlier names of flags, and what does the same
// here. A key with a command is for that command alone.
var otherFlags = map[string]string{
	"--all croft ws list":          "croft ws list lists all workspaces",
	"--allow-all":                  "use --allow-net '*'",
	"--dirs croft ws glob":         "use --directories",
	"--dir croft code":             "use --workdir",
	"--dir croft collect":          "use --output-dir",
	"--dir croft run":              "use --workdir DIR for a directory of the workspace, --rw DIR for one of the host",
	"--dir croft script":           "use --workdir",
	"--dir croft ws exec":          "use --workdir",
	"--cwd":                        "use --workdir",
	"--detach croft run":           "use croft ws open NAME, then croft ws exec NAME --detach -- PROGRAM",
	"--directory":                  "use --dir",
	"--entrypoint":                 "write the program after --",
	"--env-file":                   "give each variable with --env K=V",
	"--follow":                     "croft ws logs NAME SESSION -f and croft events -f follow",
	"--format":                     "use --json",
	"--from croft snapshot import": "use --bucket",
	"--git croft template create":  "use --repo",
	"--host":                       "use --server URL",
	"--image":                      `use --provider docker --options '{"image":"NAME"}', or --template NAME of croft template create NAME --image IMAGE`,
	"--mount":                      "use --rw DIR or --ro DIR",
	"--name croft run":             "use croft ws open NAME, then croft ws exec NAME -- PROGRAM",
	"--name croft ws open":         "use croft ws open NAME",
	"--namespace":                  "keys of a tenant separate teams: croft key create --tenant TEAM",
	"--net":                        "use --allow-net HOST; without it there is no network",
	"--network":                    "use --allow-net HOST; without it there is no network",
	"--no-sandbox":                 "use --provider local",
	"--output":                     "use --json",
	"--port":                       "use croft ws port-forward NAME PORT",
	"--port croft up":              "use --addr 127.0.0.1:PORT",
	"--listen croft up":            "use --addr HOST:PORT",
	"--privileged":                 "no command gets more rights; croft doctor shows the levels of --isolation",
	"--publish":                    "use croft ws port-forward NAME PORT",
	"--quiet":                      "results are on standard output, notes on standard error: add 2>/dev/null",
	"--rm croft ws exec":           "use croft run -- PROGRAM, which removes its workspace",
	"--runtime":                    "use --isolation LEVEL",
	"--tail":                       "use croft events -n N, or croft ws logs NAME SESSION --offset BYTE",
	"--to croft collect":           "use --output-dir",
	"--to croft snapshot export":   "use --bucket",
	"--tools croft eval run":       "use --toolset",
	"--tools croft eval rerun":     "use --toolset",
	"--tools croft eval explain":   "use --toolset",
	"--user":                       "commands run as the user of the workspace; there is no other",
	"--verbose":                    "croft events -f shows what is done; croft up has --log-level debug",
	"--volume":                     "use --rw DIR or --ro DIR",
	"--workspaces croft mcp":       "use --dirs",
	"--workspaces croft tool":      "use --dirs",
	"--ws":                         "use --workspace",
	"--working-dir":                "use --workdir",
	"-a croft ws list":             "croft ws list lists all workspaces",
	"-d croft run":                 "use croft ws open NAME, then croft ws exec NAME --detach -- PROGRAM",
	"-m":                           "use --memory SIZE",
	"-n":                           "keys of a tenant separate teams: croft key create --tenant TEAM",
	"-o":                           "use --json",
	"-p":                           "use croft ws port-forward NAME PORT",
	"-q":                           "results are on standard output, notes on standard error: add 2>/dev/null",
	"-u":                           "commands run as the user of the workspace; there is no other",
	"-v":                           "use --rw DIR or --ro DIR",
	"-w croft prep":                "use --workspace NAME",
}

// unknownCommand is the error for arguments of a group whose first is no command of it.
func unknownCommand(group *cobra.Command, args []string) error {
	word := args[0]
	if use, ok := otherCommands[group.CommandPath()+" "+word]; ok {
		return usagef("unknown command %q for %q; use: %s", word, group.CommandPath(), use)
	}
	var names []string
	for _, c := range group.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	hint := commandHint(group, args, names)
	if hint == "" && !group.HasParent() {
		hint = rootHint(group, word)
	}
	return usagef("unknown command %q for %q%s", word, group.CommandPath(), hint)
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
		line[i+2] = shellQuote(line[i+2])
	}
	return hint + " use: " + strings.Join(line, " ")
}

// rootHint says what to use instead of a word that is no command: a command of ws, an agent,
// or a program of this host.
func rootHint(root *cobra.Command, word string) string {
	if ws, _, err := root.Find([]string{"ws", word}); err == nil && ws.Name() == word {
		return "; use: croft ws " + ws.Use
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
		if use, ok := otherFlags[key]; ok {
			return "; " + use
		}
	}
	return ""
}
