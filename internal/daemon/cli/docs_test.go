package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestCommandsAreDocumented looks for every command in the documents, as a user
// types it.
func TestCommandsAreDocumented(t *testing.T) {
	var text strings.Builder
	for _, page := range []string{"cli.md", "http.md", "config.md", "self-host.md", "snapshots.md", "templates.md", "prepare.md", "mcp.md", "toolchains.md", "eval.md", "eval-suites.md", "docker.md", "operate.md", "work.md", "install.md"} {
		data, err := os.ReadFile("../../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(data)
	}
	var check func(*cobra.Command)
	check = func(c *cobra.Command) {
		if !c.HasSubCommands() && !c.Hidden && c.Name() != "help" && c.Parent().Name() != "completion" && !strings.Contains(text.String(), c.CommandPath()) {
			t.Errorf("%q is in none of the documents", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(Commands())
}

// commandLine is a command line of croft in a document: at the beginning of a line, or in backquotes.
var commandLine = regexp.MustCompile("(?m)^\\s*(?:[A-Z_]+=\\S+ |[A-Z]+=\\$\\()?(croft [^|&;)#\n]*)|`(croft [^`\n]*)`")

// TestFlagsInDocumentsExist: every flag of a command line of croft in the documents is one
// of that command.
func TestFlagsInDocumentsExist(t *testing.T) {
	pages, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	agents, err := filepath.Glob("../../../docs/agents/*.md")
	if err != nil {
		t.Fatal(err)
	}
	root, seen := Commands(), 0
	for _, page := range slices.Concat(pages, agents, []string{"../../../README.md"}) {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range commandLine.FindAllStringSubmatch(string(data), -1) {
			line, _, _ := strings.Cut(m[1]+m[2], " -- ")
			cmd, _, err := root.Find(strings.Fields(line)[1:])
			if err != nil {
				continue // a text that begins with croft
			}
			for word := range strings.FieldsSeq(line) {
				name, isFlag := strings.CutPrefix(word, "--")
				name, _, _ = strings.Cut(strings.TrimRight(name, ".,:"), "=")
				if !isFlag || name == "" || name == "help" || name == "version" {
					continue
				}
				seen++
				if cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil {
					t.Errorf("%s: %q: %s has no flag --%s", filepath.Base(page), line, cmd.CommandPath(), name)
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d flags were found", seen)
	}
}
