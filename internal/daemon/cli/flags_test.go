package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/daemon/work"
)

// meanings are the flags whose help differs between commands. Each has one meaning, given
// here; the help of every command has the words of has.
var meanings = map[string]struct{ meaning, has string }{
	"all":           {"everything, where the command else takes a part", "all|every"},
	"allow-autorun": {"apply autorun files", "apply autorun files, too"},
	"allow-net":     {"hosts that commands may reach", "allow "},
	"best-effort":   {"ignore limits instead of an error", "can't enforce|can't be enforced"},
	"branch":        {"commit to a branch instead", "commit to this branch"},
	"commit":        {"commit what is applied", "commit "},
	"commits":       {"bring commits of the workspace", "bring the commits"},
	"config":        {"configuration file; of the suite for croft eval, as in skillgym", "configuration"},
	"cpus":          {"limit of processor time", "limit of processor time"},
	"create-only":   {"replace no file", "refuse to replace"},
	"credentials":   {"take credential files along", "credential"},
	"cross-session": {"take snapshots of other sessions", "of other sessions|of another session"},
	"dir":           {"a directory of the host", "directory of the host"},
	"disk":          {"limit of disk space", "limit of what the workspace holds"},
	"dry-run":       {"print what would be done", "print |list "},
	"expires":       {"time until the key expires", "time until the key expires"},
	"follow":        {"go on with what is new", "print new "},
	"force":         {"overwrite what changed since", "which are overwritten"},
	"from":          {"the old state", "snapshot, by id or name|old state"},
	"grace":         {"time between SIGTERM and SIGKILL", "time between SIGTERM and SIGKILL"},
	"hidden":        {"names that start with a dot, too", "names that start with a dot"},
	"host":          {"a further host name of the server", "a further host name of this server"},
	"hunk":          {"one hunk of a file", "apply only the Nth hunk"},
	"ignored":       {"files that .gitignore excludes, too", ".gitignore excludes"},
	"in-place":      {"no copy is made", "itself"},
	"insecure-http": {"listen beyond loopback without TLS", "listen beyond loopback without TLS"},
	"into":          {"the directory or workspace that gets the changes", "directory"},
	"isolation":     {"minimum level of isolation", "minimum level of isolation"},
	"label":         {"label K=V of a workspace or snapshot", "label K=V"},
	"language":      {"language of the code", "javascript|python"},
	"limit":         {"most that is printed", "maximum number|only the newest"},
	"memory":        {"limit of memory", "limit of memory"},
	"name":          {"name of what is made", "name of the work|recognise the key by"},
	"open-files":    {"limit of open files", "limit of open files"},
	"options":       {"options of the provider, a JSON object", "provider, a JSON object"},
	"output-dir":    {"directory of the host that gets the results", "directory"},
	"pids":          {"limit of processes", "limit of processes"},
	"provider":      {"kind of workspace", "kind"},
	"read-only":     {"nothing in the workspace can be changed", "read-only"},
	"recursive":     {"a directory with all below it", "directory with its content|all levels below"},
	"ro":            {"directory of the host, read-only", "mount this directory of the host read-only"},
	"rw":            {"directory of the host, writable", "mount this directory of the host writable"},
	"secret":        {"secret that the proxy adds", "NAME@HOST: allow HOST"},
	"snapshot":      {"a snapshot to start from", "snapshot"},
	"template":      {"a template", "template"},
	"timeout":       {"longest time of the command", "after this"},
	"toolchain":     {"toolchains of the host", "show toolchains"},
	"toolset":       {"set of Croft's tools", "default (about|default, full"},
	"undo":          {"take back what an earlier run of the command did", "undo the|remove the server again"},
	"wall":          {"limit of the time of a command", "limit of the time"},
	"workspace":     {"a workspace by its name or id, never a directory", "workspace by name or id"},
}

// typesMayDiffer are flags that are a switch in one command and a value in another, or are
// given once in one and several times in another.
var typesMayDiffer = []string{"undo", "limit", "workspace"}

// shorthands are those with two meanings. They are habits from the program of the same name.
var shorthands = map[string]string{
	"i": "grep -i ignores case; -i of docker run and exec",
	"l": "ls -l is long; else the language",
	"m": "grep -m counts; git commit -m is the message",
	"n": "tail -n counts lines; else a count",
	"R": "ls -R, rm -r", "r": "ls -R, rm -r",
	"U": "rg -U is multi-line; git diff -U is the context",
}

// walkFlags calls f for each flag of each command, the hidden ones included.
func walkFlags(cmd *cobra.Command, f func(*cobra.Command, *pflag.Flag)) {
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) { f(cmd, flag) })
	for _, sub := range cmd.Commands() {
		if sub.Name() != "completion" {
			walkFlags(sub, f)
		}
	}
}

// TestOneMeaningPerFlag: a flag has the same help in all commands, or one meaning that the
// table has.
func TestOneMeaningPerFlag(t *testing.T) {
	root := Commands()
	first := map[string]*pflag.Flag{}
	short := map[string]string{}
	differ := map[string]bool{}
	walkFlags(root, func(cmd *cobra.Command, flag *pflag.Flag) {
		if s := flag.Shorthand; s != "" && short[s] != "" && short[s] != flag.Name && shorthands[s] == "" {
			t.Errorf("-%s is --%s in %q and --%s elsewhere", s, flag.Name, cmd.CommandPath(), short[s])
		} else if s != "" {
			short[s] = flag.Name
		}
		same := first[flag.Name]
		if same == nil {
			first[flag.Name] = flag
			return
		}
		differ[flag.Name] = differ[flag.Name] || same.Usage != flag.Usage
		if same.Value.Type() != flag.Value.Type() && !slices.Contains(typesMayDiffer, flag.Name) {
			t.Errorf("--%s of %q is a %s, elsewhere a %s", flag.Name, cmd.CommandPath(), flag.Value.Type(), same.Value.Type())
		}
	})
	for name := range differ {
		if differ[name] && meanings[name].meaning == "" {
			t.Errorf("--%s has several help texts, and no entry in the table of meanings", name)
		}
	}
	walkFlags(root, func(cmd *cobra.Command, flag *pflag.Flag) {
		want := meanings[flag.Name]
		said := func(words string) bool { return strings.Contains(flag.Usage, words) }
		if want.meaning != "" && !slices.ContainsFunc(strings.Split(want.has, "|"), said) {
			t.Errorf("--%s of %q: %q; want %q, since it means: %s", flag.Name, cmd.CommandPath(), flag.Usage, want.has, want.meaning)
		}
	})
	for name := range meanings {
		if first[name] == nil || !differ[name] {
			t.Errorf("the table of meanings has --%s, which no two commands have with different texts", name)
		}
	}
}

// TestOtherNamesAreNoneOfOurs: a word of another program that Croft has itself needs no
// answer, and the answers name commands and flags that exist.
func TestOtherNamesAreNoneOfOurs(t *testing.T) {
	root := Commands()
	root.InitDefaultHelpCmd()
	exists := func(words []string) bool {
		cmd, rest, err := root.Find(words)
		if err != nil {
			return false
		}
		if cmd.CommandPath() == "croft work" && len(rest) > 0 && work.FindAgent(rest[0]) != nil {
			return true
		}
		isWord := func(s string) bool {
			return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz-") == "" && s[0] != '-'
		}
		return !cmd.HasSubCommands() || len(rest) == 0 || !isWord(rest[0])
	}
	check := func(use string) {
		for part := range strings.SplitSeq(use, "croft ") {
			words := strings.Fields(strings.SplitN(part, ",", 2)[0])
			if len(words) > 0 && strings.Contains(use, "croft "+part) && !exists(words) {
				t.Errorf("%q names a command that does not exist", use)
			}
		}
	}
	for key, use := range console.OtherCommands {
		words := strings.Fields(key)[1:]
		if cmd, rest, err := root.Find(words); err == nil && len(rest) == 0 {
			t.Errorf("%q is a command: %s", key, cmd.CommandPath())
		}
		check(use)
	}
	for key, use := range console.OtherFlags {
		flag, path, found := strings.Cut(key, " ")
		check(use)
		if !found {
			continue
		}
		cmd, _, err := root.Find(strings.Fields(path)[1:])
		if err != nil || cmd.CommandPath() != path {
			t.Errorf("%q: there is no such command", key)
			continue
		}
		name := strings.TrimLeft(flag, "-")
		if cmd.Flags().Lookup(name) != nil && len(name) > 1 || len(name) == 1 && cmd.Flags().ShorthandLookup(name) != nil {
			t.Errorf("%q: the command has the flag", key)
		}
	}
}

// TestGroupsNameCommands: every name of a group is a command.
func TestGroupsNameCommands(t *testing.T) {
	root := Commands()
	ws, _, _ := root.Find([]string{"ws"})
	for cmd, groups := range map[*cobra.Command][]commandGroup{root: rootGroups, ws: wsGroups} {
		var names []string
		for _, c := range cmd.Commands() {
			names = append(names, c.Name())
		}
		for _, g := range groups {
			for _, name := range g.commands {
				if !slices.Contains(names, name) {
					t.Errorf("%s: %s has no command %q", g.title, cmd.CommandPath(), name)
				}
			}
		}
	}
}
