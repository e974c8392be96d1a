package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestCommandsAreDocumented looks for every command in the documents, as somebody
// would type it.
func TestCommandsAreDocumented(t *testing.T) {
	var text strings.Builder
	for _, page := range []string{"cli.md", "http.md", "config.md", "keys.md", "snapshots.md", "templates.md", "prepare.md", "mcp.md", "toolchains.md", "eval.md", "eval-suites.md", "docker.md", "operate.md", "work.md"} {
		data, err := os.ReadFile("../../docs/" + page)
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
	check(new(command).rootCommand())
}
