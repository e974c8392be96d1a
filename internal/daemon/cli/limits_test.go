package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/workspace/driver"
)

// TestLimitsAreDocumented compares the table of limits in docs/isolation.md with the
// resources.
func TestLimitsAreDocumented(t *testing.T) {
	const page, head = "../../../docs/isolation.md", "| flag | limit of | `limits` in a policy | at the limit |\n|---|---|---|---|\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), head)
	got, after, ends := strings.Cut(rest, "\n\n")
	if !ok || !ends {
		t.Fatalf("%s has no table of limits", page)
	}
	var rows []string
	for _, r := range driver.Resources {
		rows = append(rows, fmt.Sprintf("| `--%s %s` | %s | `%s`, in JSON %s | %s |", console.LimitFlagName(r), config.Example(r.Unit), r.Doc, r.Name, inJSON(r.Unit), r.Beyond))
	}
	want := strings.Join(rows, "\n")
	if flag.Lookup("update").Value.String() == "true" { // which the tests of scripts define
		if err := os.WriteFile(page, []byte(before+head+want+"\n\n"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("the table of limits in %s is\n%s\nwant\n%s\n-update rewrites it", page, got, want)
	}
}

func inJSON(u driver.Unit) string {
	if u == driver.UnitCount {
		return "a number"
	}
	return string(u)
}
