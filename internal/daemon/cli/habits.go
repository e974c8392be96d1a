package cli

import (
	"cmp"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/internal/daemon/work"
	"github.com/croft-run/croft/internal/suggest"
)

// otherCommands are commands of docker, kubectl and other programs, and what does the same
// here. The key is the path of the group and the word.
var otherCommands = map[string]string{
	"croft add":          "croft ws put NAME SRC DEST",
	"croft apply":        "croft work apply, or croft ws apply NAME DIR",
	"croft attach":       "croft work attach, or croft ws shell NAME --session ID",
	"croft branch":       "croft ws fork NAME NEW for a copy, or croft work --name NAME AGENT",
	"croft build":        "croft template create NAME --dir DIR",
	"croft checkout":     "croft ws restore NAME SNAPSHOT",
	"croft clean":        "croft gc",
	"croft clone":        "git clone, and then croft work AGENT in its directory; croft ws fork NAME NEW copies a workspace",
	"croft cluster-info": "croft doctor for this host",
	"croft commit":       "croft ws snapshot NAME",
	"croft compose":      "croft ws open NAME for each sandbox; deploy/compose runs the server with Docker Compose",
	"croft container":    "croft ws",
	"croft containers":   "croft ws list",
	"croft cp":           "croft ws put NAME SRC DEST, or croft ws get NAME PATH DEST",
	"croft create":       "croft ws open NAME",
	"croft delete":       "croft ws rm NAME",
	"croft destroy":      "croft ws rm NAME",
	"croft diff":         "croft work diff, or croft ws diff NAME",
	"croft down":         "Ctrl-C or kill to end croft up, and croft ws rm --all to remove the workspaces",
	"croft download":     "croft ws get NAME PATH DEST",
	"croft edit":         "croft ws shell NAME",
	"croft explain":      "croft help COMMAND",
	"croft export":       "croft snapshot export SNAPSHOT --bucket URL, or croft ws get NAME . DEST",
	"croft expose":       "croft ws port-forward NAME PORT",
	"croft fetch":        "croft ws get NAME PATH DEST",
	"croft get":          "croft ws list, or croft ws get NAME PATH DEST for files",
	"croft images":       "croft image list",
	"croft import":       "croft snapshot import SNAPSHOT --bucket URL, or croft ws put NAME SRC DEST",
	"croft info":         "croft doctor",
	"croft init":         "croft setup for an agent, or croft ws open NAME for a workspace",
	"croft inspect":      "croft ws show NAME --json",
	"croft install":      "croft setup",
	"croft keys":         "croft key list",
	"croft load":         "croft image import NAME FILE, or croft snapshot import SNAPSHOT --bucket URL",
	"croft log":          "croft work log, or croft events",
	"croft login":        "set CROFT_SERVER and CROFT_TOKEN, or give --server URL --token KEY; croft key create makes a key",
	"croft logout":       "unset CROFT_SERVER and CROFT_TOKEN; croft key revoke ID ends a key",
	"croft ls":           "croft ws list, or croft ws ls NAME for the files of one",
	"croft merge":        "croft work apply, or croft ws apply NAME DIR",
	"croft network":      "--allow-net HOST of croft run and croft ws open",
	"croft new":          "croft ws open NAME",
	"croft port":         "croft ws port-forward NAME PORT",
	"croft prune":        "croft gc, or croft snapshot prune --keep N",
	"croft ps":           "croft ws list, or croft ws ps NAME for the commands of one",
	"croft pull":         "croft template create NAME --image IMAGE",
	"croft push":         "croft snapshot export SNAPSHOT --bucket URL",
	"croft remove":       "croft ws rm NAME",
	"croft rename":       "croft ws fork NAME NEW, then croft ws rm NAME: a workspace keeps its name",
	"croft restart":      "croft ws kill NAME SESSION, then croft ws exec NAME -- PROGRAM; for the server end croft up and start it again",
	"croft revert":       "croft work undo, or croft ws undo NAME",
	"croft review":       "croft work review",
	"croft rmi":          "croft image rm NAME",
	"croft rollout":      "the new version of croft, and start croft up again",
	"croft sandbox":      "croft ws",
	"croft sandboxes":    "croft ws list",
	"croft save":         "croft ws snapshot NAME, or croft snapshot export SNAPSHOT --bucket URL",
	"croft scale":        "croft ws fork NAME NEW --count N",
	"croft search":       "croft ws grep NAME PATTERN",
	"croft self-update":  "the command that installed croft, once more: docs/install.md",
	"croft serve":        "croft up",
	"croft server":       "croft up",
	"croft snapshots":    "croft snapshot list, or croft ws snapshots NAME",
	"croft ssh":          "croft ws shell NAME",
	"croft start":        "croft up for the server, or croft ws resume NAME for a paused workspace",
	"croft stash":        "croft ws snapshot NAME, then croft ws undo NAME",
	"croft stats":        "croft ws ps NAME",
	"croft status":       "croft ws list, or croft doctor for this host",
	"croft stop":         "croft ws pause NAME, or croft ws rm NAME",
	"croft system":       "croft gc for leftovers, croft doctor for this host",
	"croft tag":          "croft ws snapshot NAME TAG",
	"croft templates":    "croft template list",
	"croft tools":        "croft tool",
	"croft top":          "croft ws ps NAME",
	"croft undo":         "croft work undo, or croft ws undo NAME",
	"croft unpause":      "croft ws resume NAME",
	"croft update":       "the command that installed croft, once more: docs/install.md",
	"croft upgrade":      "the command that installed croft, once more: docs/install.md",
	"croft upload":       "croft ws put NAME SRC DEST",
	"croft volume":       "--rw DIR or --ro DIR of croft run and croft ws open",
	"croft wait":         "croft ws exec NAME -- PROGRAM, which waits, or croft ws logs NAME SESSION -f for a session",
	"croft workspaces":   "croft ws list",

	"croft ws attach":    "croft ws shell NAME --session ID",
	"croft ws branch":    "croft ws fork NAME NEW",
	"croft ws checkout":  "croft ws restore NAME SNAPSHOT --in-place",
	"croft ws clone":     "croft ws fork NAME NEW",
	"croft ws close":     "croft ws pause NAME, or croft ws rm NAME",
	"croft ws commit":    "croft ws snapshot NAME",
	"croft ws copy":      "croft ws fork NAME NEW for a workspace, croft ws put NAME SRC DEST or croft ws get NAME PATH DEST for files",
	"croft ws cp":        "croft ws put NAME SRC DEST, or croft ws get NAME PATH DEST",
	"croft ws create":    "croft ws open NAME",
	"croft ws delete":    "croft ws rm NAME, or croft ws del NAME PATH for a file",
	"croft ws destroy":   "croft ws rm NAME",
	"croft ws download":  "croft ws get NAME PATH DEST",
	"croft ws duplicate": "croft ws fork NAME NEW",
	"croft ws edit":      "croft ws shell NAME",
	"croft ws export":    "croft ws get NAME . DEST, or croft ws snapshot NAME and croft snapshot export SNAPSHOT --bucket URL",
	"croft ws find":      "croft ws glob NAME PATTERN",
	"croft ws info":      "croft ws show NAME",
	"croft ws inspect":   "croft ws show NAME --json",
	"croft ws log":       "croft ws history NAME for the states, croft ws logs NAME SESSION for the output of a session",
	"croft ws merge":     "croft ws apply NAME --into DIR|WORKSPACE",
	"croft ws new":       "croft ws open NAME",
	"croft ws read":      "croft ws cat NAME PATH",
	"croft ws remove":    "croft ws rm NAME",
	"croft ws rename":    "croft ws fork NAME NEW, then croft ws rm NAME: a workspace keeps its name",
	"croft ws restart":   "croft ws kill NAME SESSION, then croft ws exec NAME -- PROGRAM",
	"croft ws revert":    "croft ws undo NAME",
	"croft ws run":       "croft ws exec NAME -- PROGRAM",
	"croft ws ssh":       "croft ws shell NAME",
	"croft ws start":     "croft ws resume NAME",
	"croft ws stash":     "croft ws snapshot NAME, then croft ws undo NAME",
	"croft ws stats":     "croft ws ps NAME",
	"croft ws status":    "croft ws show NAME, or croft ws diff NAME for what has changed",
	"croft ws stop":      "croft ws pause NAME, or croft ws rm NAME",
	"croft ws tag":       "croft ws snapshot NAME TAG",
	"croft ws top":       "croft ws ps NAME",
	"croft ws tree":      "croft ws ls NAME -R",
	"croft ws unpause":   "croft ws resume NAME",
	"croft ws upload":    "croft ws put NAME SRC DEST",
	"croft ws wait":      "croft ws logs NAME SESSION -f",
	"croft ws write":     "croft ws put NAME SRC DEST",

	"croft work accept":      "croft work apply",
	"croft work branch":      "croft work apply --branch NAME",
	"croft work cancel":      "croft work discard",
	"croft work checkout":    "croft work attach NAME",
	"croft work claude-code": "croft work claude",
	"croft work commit":      "croft work apply --commit -m TEXT",
	"croft work create":      "croft work AGENT, or croft work -- PROGRAM",
	"croft work delete":      "croft work discard",
	"croft work drop":        "croft work discard",
	"croft work end":         "croft work discard, which removes it and ends what runs in it",
	"croft work exec":        "croft work shell, or croft work -- PROGRAM for a new copy",
	"croft work fork":        "croft work --name NAME AGENT for another copy of the project",
	"croft work kill":        "croft work discard, which removes it and ends what runs in it",
	"croft work logs":        "croft work log",
	"croft work ls":          "croft work list",
	"croft work merge":       "croft work apply",
	"croft work new":         "croft work AGENT, or croft work -- PROGRAM",
	"croft work open":        "croft work attach NAME",
	"croft work ps":          "croft work list",
	"croft work pull":        "croft work apply",
	"croft work push":        "croft work apply --branch NAME, then git push",
	"croft work rebase":      "croft work apply, which merges the changes into what the project is now",
	"croft work reject":      "croft work discard",
	"croft work remove":      "croft work discard",
	"croft work reset":       "croft work discard, and croft work AGENT for a fresh copy",
	"croft work restore":     "croft work undo",
	"croft work resume":      "croft work attach",
	"croft work revert":      "croft work undo",
	"croft work rm":          "croft work discard",
	"croft work run":         "croft work -- PROGRAM",
	"croft work show":        "croft work diff",
	"croft work start":       "croft work AGENT, or croft work -- PROGRAM",
	"croft work stash":       "ctrl-] to detach, and croft work attach to return",
	"croft work status":      "croft work list, and croft work diff",
	"croft work stop":        "croft work discard, which removes it and ends what runs in it",
	"croft work test":        "croft work compare runs the tests, or croft work review",

	"croft artifact delete":    "croft artifact rm NAME ARTIFACT",
	"croft artifact download":  "croft artifact get NAME ARTIFACT DEST",
	"croft artifact save":      "croft collect NAME GLOB --save",
	"croft config edit":        "an editor on ~/.config/croft/croft.yaml; croft config check names the file in use",
	"croft config get":         "croft config print",
	"croft config init":        "croft config print > ~/.config/croft/croft.yaml, which has all defaults",
	"croft config list":        "croft config print",
	"croft config path":        "croft config check, which names the file",
	"croft config set":         "an editor on ~/.config/croft/croft.yaml; croft config check names the file in use",
	"croft config show":        "croft config print",
	"croft config use-context": "CROFT_SERVER and CROFT_TOKEN, or --server URL --token KEY",
	"croft config validate":    "croft config check",
	"croft config view":        "croft config print",
	"croft eval compare":       "croft eval diff A B",
	"croft eval init":          "croft eval skills get core, which explains how to write a suite",
	"croft eval resume":        "croft eval run --resume DIR",
	"croft eval retry":         "croft eval rerun DIR",
	"croft image load":         "croft image import NAME FILE",
	"croft image prune":        "croft image rm NAME, or croft gc for leftovers",
	"croft image pull":         "croft template create NAME --image IMAGE",
	"croft key add":            "croft key create",
	"croft key delete":         "croft key revoke ID",
	"croft key new":            "croft key create",
	"croft key rm":             "croft key revoke ID",
	"croft key show":           "croft key list; the text of a key is shown once, when it is made",
	"croft provider add":       "providers: in croft.yaml; docs/config.md has the keys",
	"croft snapshot create":    "croft ws snapshot NAME",
	"croft snapshot delete":    "croft snapshot rm SNAPSHOT",
	"croft snapshot diff":      "croft ws diff NAME --from SNAPSHOT --to SNAPSHOT",
	"croft snapshot restore":   "croft ws restore NAME SNAPSHOT",
	"croft snapshot show":      "croft snapshot list --json",
	"croft snapshot take":      "croft ws snapshot NAME",
	"croft template add":       "croft template create NAME --dir DIR",
	"croft template build":     "croft template create NAME --dir DIR",
	"croft template delete":    "croft template rm NAME",
	"croft template use":       "croft ws open NAME --template TEMPLATE",
}

// otherFlags are flags of other programs and earlier names of flags, and what does the same
// here. A key with a command is for that command alone.
var otherFlags = map[string]string{
	"--agent croft work":           "write the agent as a word: croft work claude",
	"--all croft gc":               "croft gc removes all leftovers; croft ws rm --all removes workspaces",
	"--all croft work apply":       "croft work apply applies all changes",
	"--all croft ws list":          "croft ws list lists all workspaces",
	"--all croft uninstall":        "croft uninstall --yes removes everything that it lists",
	"--allow-all":                  "use --allow-net '*'",
	"--background croft up":        "croft up runs in the foreground: croft up &, or the unit of systemd (docs/operate.md)",
	"--bind croft up":              "use --addr HOST:PORT",
	"--cached croft work diff":     "croft work diff shows all changes; a path shows those of one file",
	"--cap-add":                    "no command gets more rights; croft doctor shows the levels of --isolation",
	"--cap-drop":                   "commands have no capabilities",
	"--cpu-shares":                 "use --cpus N",
	"--cwd":                        "use --workdir",
	"--daemon croft up":            "croft up runs in the foreground: croft up &, or the unit of systemd (docs/operate.md)",
	"--detach croft run":           "use croft ws open NAME, then croft ws exec NAME --detach -- PROGRAM",
	"--detach croft up":            "croft up runs in the foreground: croft up &, or the unit of systemd (docs/operate.md)",
	"--device":                     "commands get no devices of the host",
	"--dir croft code":             "use --workdir",
	"--dir croft collect":          "use --output-dir",
	"--dir croft run":              "use --workdir DIR for a directory of the workspace, --rw DIR for one of the host",
	"--dir croft script":           "use --workdir",
	"--dir croft ws exec":          "use --workdir",
	"--directory":                  "use --dir",
	"--dirs croft ws glob":         "use --directories",
	"--dns":                        "the egress proxy resolves the names that --allow-net HOST allows",
	"--dry-run croft gc":           "croft gc removes only what killed processes and expired snapshots left; croft snapshot list shows the snapshots",
	"--entrypoint":                 "write the program after --",
	"--env-file":                   "give each variable with --env K=V",
	"--filter":                     "use --label K=V or --state STATE",
	"--fix croft doctor":           "croft doctor prints the command that mends what it finds",
	"--follow":                     "croft ws logs NAME SESSION -f and croft events -f follow",
	"--force croft uninstall":      "use --yes",
	"--force croft ws rm":          "croft ws rm NAME asks nothing; with --all or --label add --yes",
	"--format":                     "use --json",
	"--from croft snapshot import": "use --bucket",
	"--from croft ws open":         "use --template NAME, or croft ws restore NAME SNAPSHOT NEW for a snapshot",
	"--git croft template create":  "use --repo",
	"--gpus":                       "commands get no devices of the host",
	"--host":                       "use --server URL",
	"--hostname":                   "a workspace has a host name of its own",
	"--image":                      `use --provider docker --options '{"image":"NAME"}', or --template NAME of croft template create NAME --image IMAGE`,
	"--label croft run":            "a workspace of croft run is removed at the end; use croft ws open NAME --label K=V",
	"--list croft tool":            "croft tool without a name lists the tools",
	"--listen croft up":            "use --addr HOST:PORT",
	"--memory-swap":                "use --memory SIZE",
	"--mount":                      "use --rw DIR or --ro DIR",
	"--name croft run":             "use croft ws open NAME, then croft ws exec NAME -- PROGRAM",
	"--name croft ws open":         "use croft ws open NAME",
	"--namespace":                  "keys of a tenant separate teams: croft key create --tenant TEAM",
	"--net":                        "use --allow-net HOST; without it there is no network",
	"--network":                    "use --allow-net HOST; without it there is no network",
	"--no-sandbox":                 "use --provider local",
	"--output":                     "use --json",
	"--pids-limit":                 "use --pids N",
	"--platform":                   "commands are programs of this host",
	"--port":                       "use croft ws port-forward NAME PORT",
	"--port croft up":              "use --addr 127.0.0.1:PORT",
	"--privileged":                 "no command gets more rights; croft doctor shows the levels of --isolation",
	"--publish":                    "use croft ws port-forward NAME PORT",
	"--pull":                       "there is no image to pull: the system is that of this host",
	"--quiet":                      "results are on standard output, notes on standard error: add 2>/dev/null",
	"--restart":                    "a command is not started again; use a loop of the shell: -- sh -c 'while true; do PROGRAM; done'",
	"--rm croft ws exec":           "use croft run -- PROGRAM, which removes its workspace",
	"--runtime":                    "use --isolation LEVEL",
	"--security-opt":               "no command gets more rights; croft doctor shows the levels of --isolation",
	"--selector":                   "use --label K=V",
	"--short croft version":        "croft --version prints one line",
	"--since croft events":         "use -n N for the last N events",
	"--size croft ws open":         "use --disk SIZE",
	"--tail":                       "use croft events -n N, or croft ws logs NAME SESSION --offset BYTE",
	"--timeout croft ws open":      "use --idle 1h for a workspace that is not used, --wall 1m for each of its commands",
	"--tmpfs":                      "/tmp of a workspace is private already",
	"--to croft collect":           "use --output-dir",
	"--to croft snapshot export":   "use --bucket",
	"--tools croft eval explain":   "use --toolset",
	"--tools croft eval rerun":     "use --toolset",
	"--tools croft eval run":       "use --toolset",
	"--ttl":                        "use --idle 1h for a workspace that is not used",
	"--ulimit":                     "use --open-files N, --pids N or --memory SIZE",
	"--user":                       "commands run as the user of the workspace; there is no other",
	"--verbose":                    "croft events -f shows what is done; croft up has --log-level debug",
	"--volume":                     "use --rw DIR or --ro DIR",
	"--watch croft ws list":        "use croft events -f, or: watch croft ws list",
	"--working-dir":                "use --workdir",
	"--workspaces croft mcp":       "use --dirs",
	"--workspaces croft tool":      "use --dirs",
	"--ws":                         "use --workspace",
	"-A croft ws list":             "croft ws list lists all workspaces",
	"-a croft ws list":             "croft ws list lists all workspaces",
	"-c croft run":                 "a shell command is: croft run -- sh -c 'COMMAND'",
	"-c croft ws exec":             "a shell command is: croft ws exec NAME -- sh -c 'COMMAND'",
	"-d croft run":                 "use croft ws open NAME, then croft ws exec NAME --detach -- PROGRAM",
	"-d croft up":                  "croft up runs in the foreground: croft up &, or the unit of systemd (docs/operate.md)",
	"-f croft ws rm":               "croft ws rm NAME asks nothing; with --all or --label add --yes",
	"-l croft ws list":             "use --label K=V",
	"-l croft ws rm":               "use --label K=V",
	"-m":                           "use --memory SIZE",
	"-n":                           "keys of a tenant separate teams: croft key create --tenant TEAM",
	"-o":                           "use --json",
	"-p":                           "use croft ws port-forward NAME PORT",
	"-p croft up":                  "use --addr 127.0.0.1:PORT",
	"-q":                           "results are on standard output, notes on standard error: add 2>/dev/null",
	"-u":                           "commands run as the user of the workspace; there is no other",
	"-v":                           "use --rw DIR or --ro DIR",
	"-w croft prep":                "use --workspace NAME",
}

// argumentHints say what to do about a wrong number of arguments. A key with a word is for that
// first argument alone.
var argumentHints = map[string]string{
	"croft eval list":       "SUITE is a file, such as evals/skills.suite.yaml",
	"croft key create":      "croft key create --tenant NAME makes a key of a tenant, --name TEXT describes it",
	"croft mcp":             "a directory is --dir DIR, a workspace --workspace NAME",
	"croft mcp add":         "croft setup adds Croft's MCP server to the installed agents",
	"croft mcp install":     "croft setup adds Croft's MCP server to the installed agents",
	"croft mcp list":        "croft tool lists the tools",
	"croft mcp serve":       "croft mcp alone serves the current directory; --http HOST:PORT serves over HTTP",
	"croft mcp start":       "croft mcp alone serves the current directory; --http HOST:PORT serves over HTTP",
	"croft ws get":          "DEST is a path of this host, such as . or - for standard output",
	"croft ws kill":         "croft ws ps NAME lists the sessions; croft ws rm NAME removes the workspace",
	"croft ws list":         "croft ws show NAME shows one workspace, croft ws ls NAME its files",
	"croft ws logs":         "croft ws ps NAME lists the sessions",
	"croft ws ls":           "croft ws list lists the workspaces",
	"croft ws open":         "one command opens one workspace",
	"croft ws put":          "SRC is a path of this host, DEST one of the workspace, such as .",
	"croft ws restore":      "croft ws snapshots NAME lists the snapshots",
	"croft ws show":         "croft ws list lists the workspaces",
	"croft ws snapshot":     "croft ws list lists the workspaces",
	"croft work list":       "croft work diff NAME and croft work log NAME show one work",
	"croft template create": "a directory is --dir DIR, an image --image IMAGE",
	"croft template show":   "croft template list lists the templates",
}

// argumentHint says what to do about a wrong number of arguments.
func argumentHint(cmd *cobra.Command, args []string) string {
	path := cmd.CommandPath()
	if len(args) > 0 {
		if hint, ok := argumentHints[path+" "+args[0]]; ok {
			return "; " + hint
		}
		for _, arg := range args {
			name, file, ok := strings.Cut(arg, ":") // as docker cp has it
			if ok && !strings.Contains(name, "/") && (path == "croft ws put" || path == "croft ws get") {
				return "; the workspace and the path are separate words: " + name + " " + cmp.Or(file, "PATH")
			}
		}
	}
	if hint, ok := argumentHints[path]; ok {
		return "; " + hint
	}
	return ""
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
	switch {
	case hint != "":
	case !group.HasParent():
		hint = rootHint(group, word)
	case group.Name() == "eval" && strings.Contains(word, "."):
		hint = "; use: croft eval run " + shellQuote(word)
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
