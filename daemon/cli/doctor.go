package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/workspace/driver"
)

func (a *command) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Report what this host supports, tested by trying",
		Long: `Report what this host supports: each level of isolation, with the test that it passed or why it
fails; and for each provider its limits and what enforces them, its network, and its
copy-on-write. With --server, report on the server's host.`,
		Args: cobra.NoArgs,
		RunE: run(func(ctx context.Context, _ []string) error {
			return a.withClient(ctx, func(c *client.Client) error {
				d, err := c.Doctor(ctx)
				if err != nil {
					return err
				}
				return a.printAnswer(d, func(w io.Writer) error { return printDiagnosis(w, d) })
			})
		}),
	}
}

func printDiagnosis(w io.Writer, d client.Diagnosis) error {
	rows := [][]string{{"ISOLATION", "WORKS", "BECAUSE"}}
	for _, l := range d.Levels {
		works, why := "yes", l.Proof
		if !l.Works {
			works, why = "no", l.Reason
		}
		rows = append(rows, []string{string(l.Level), works, oneLine(why)})
		for _, lack := range l.Lacks {
			rows = append(rows, []string{"", "", "does not prevent: " + oneLine(lack)})
		}
	}
	if len(d.Levels) == 0 {
		rows = append(rows, []string{"none", "yes", "no provider here isolates processes"})
	}
	if err := writeTable(w, rows); err != nil {
		return err
	}
	for _, p := range d.Providers {
		fmt.Fprintf(w, "\nprovider %s\n", p.Kind)
		if err := writeTable(w, providerDetails(p)); err != nil {
			return err
		}
	}
	return nil
}

// providerDetails are the rows of a provider: what it enforces, or why it does not.
func providerDetails(p client.ProviderInfo) [][]string {
	if p.Error != nil {
		return [][]string{{"  unusable here", oneLine(p.Error.Message)}}
	}
	if p.Traits == nil {
		return nil
	}
	t := p.Traits
	rows := [][]string{
		{"  isolation", orDash(string(t.Isolation)), enforcementText(t.IsolatedBy)},
		{"  network", orDash(string(t.Network)), enforcementText(t.NetworkBy)},
		{"  survives", orDash(string(t.Durability))},
		{"  read-only", yesNo(t.ReadOnly.Enforced()), enforcementText(t.ReadOnly)},
		{"  copy-on-write", orDash(t.CopyOnWrite)},
	}
	for _, r := range driver.Resources {
		l := t.Limits[r.Name]
		rows = append(rows, []string{"  limit " + string(r.Name), yesNo(l.Enforced()), enforcementText(l)})
	}
	return rows
}

func enforcementText(e driver.Enforcement) string {
	if e.Enforced() {
		return "by " + oneLine(e.By)
	}
	return oneLine(e.Reason)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
