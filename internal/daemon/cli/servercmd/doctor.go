package servercmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace/driver"
)

func doctorCommand(a *command) *cobra.Command {
	profile := false
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Report what this host supports, tested by trying",
		Long: `Report what this host supports: each level of isolation, with the test that it passed or why it
fails; and for each provider its limits and what enforces them, its network, and its
copy-on-write. The last lines are a verdict and the next command. With --server, report on the
server's host.`,
		Example: `  croft doctor
  croft doctor --apparmor | sudo tee /etc/apparmor.d/croft && sudo apparmor_parser -r /etc/apparmor.d/croft`,
		Args: cobra.NoArgs,
		RunE: console.RunE(func(ctx context.Context, _ []string) error {
			if profile {
				return a.printAppArmorProfile()
			}
			return a.WithClient(ctx, func(c *client.Client) error {
				d, err := c.Doctor(ctx)
				if err != nil {
					return err
				}
				answer := doctorAnswer{Diagnosis: d}
				answer.Verdict, answer.Next = verdict(d)
				return a.PrintAnswer(answer, func(w io.Writer) error {
					if err := printDiagnosis(w, d); err != nil {
						return err
					}
					_, err := fmt.Fprintf(w, "\nverdict: %s\nnext: %s\n", answer.Verdict, answer.Next)
					return err
				})
			})
		}),
	}
	cmd.Flags().BoolVar(&profile, "apparmor", false, "print a profile of AppArmor that allows user namespaces to this program, which Ubuntu restricts")
	return cmd
}

// printAppArmorProfile prints a profile that allows user namespaces to the file of this
// program, and restricts nothing.
func (a *command) printAppArmorProfile() error {
	path, err := os.Executable()
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return fmt.Errorf("find the file of this program: %w: %w", fault.Of(err), err)
	}
	if strings.ContainsAny(path, "\"\\*?[]{}^") {
		return fmt.Errorf("the path of this program has a character that a profile can't name: %w: %s: move the program", fault.Unsupported, console.Printable(path))
	}
	_, err = fmt.Fprintf(a.Out, "abi <abi/4.0>,\ninclude <tunables/global>\nprofile croft \"%s\" flags=(unconfined) {\n  userns,\n}\n", path)
	return err
}

// doctorAnswer is the JSON of croft doctor.
type doctorAnswer struct {
	client.Diagnosis
	Verdict string `json:"verdict"`
	Next    string `json:"next"` // command to run
}

// verdict says in a sentence whether commands can be isolated and limited, and which
// command to run next.
func verdict(d client.Diagnosis) (text, next string) {
	var works *client.Level // the default level, else the strongest
	reason := "no provider here isolates processes"
	for i, l := range d.Levels {
		isDefault := l.Level == driver.IsolationNamespaces
		if l.Works && (works == nil || isDefault) {
			works = &d.Levels[i]
		}
		if isDefault && !l.Works {
			reason = console.OneLine(l.Reason)
		}
	}
	switch {
	case works == nil:
		return "nothing isolates commands here, so croft run fails: " + reason, "croft doctor   # again, after the remedy above"
	case works.Level.Rank() < driver.IsolationNamespaces.Rank():
		text = fmt.Sprintf("the default isolation fails: %s; isolation %s works", reason, works.Level)
		next = fmt.Sprintf("croft run --isolation %s -- echo hello", works.Level)
	default:
		text, next = fmt.Sprintf("commands are isolated (%s)", works.Level), "croft run -- echo hello"
	}
	for _, p := range d.Providers {
		if p.Kind != sandbox.Kind || p.Traits == nil {
			continue
		}
		var unlimited []string
		why := ""
		for _, r := range []driver.Resource{driver.ResourceMemory, driver.ResourceCPU, driver.ResourcePIDs} {
			if l := p.Traits.Limits[r]; !l.Enforced() {
				unlimited, why = append(unlimited, string(r)), console.OneLine(l.Reason)
			}
		}
		if len(unlimited) > 0 {
			text += fmt.Sprintf(", but limits of %s can't be enforced: %s", strings.Join(unlimited, ", "), why)
		}
	}
	return text, next
}

func printDiagnosis(w io.Writer, d client.Diagnosis) error {
	rows := [][]string{{"ISOLATION", "WORKS", "BECAUSE"}}
	for _, l := range d.Levels {
		works, why := "yes", l.Proof
		if !l.Works {
			works, why = "no", l.Reason
		}
		rows = append(rows, []string{string(l.Level), works, console.OneLine(why)})
		for _, lack := range l.Lacks {
			rows = append(rows, []string{"", "", "limitation: " + console.OneLine(lack)})
		}
	}
	if len(d.Levels) == 0 {
		rows = append(rows, []string{"none", "yes", "no provider here isolates processes"})
	}
	if err := console.WriteTable(w, rows); err != nil {
		return err
	}
	for _, p := range d.Providers {
		fmt.Fprintf(w, "\nprovider %s\n", p.Kind)
		if err := console.WriteTable(w, providerDetails(p)); err != nil {
			return err
		}
	}
	return nil
}

// providerDetails are the rows of a provider: what it enforces, or why it does not.
func providerDetails(p client.ProviderInfo) [][]string {
	if p.Error != nil {
		return [][]string{{"  unusable here", console.OneLine(console.TrimPackages(p.Error.Message))}}
	}
	if p.Traits == nil {
		return nil
	}
	t := p.Traits
	rows := [][]string{
		{"  isolation", console.OrDash(string(t.Isolation)), enforcementText(t.IsolatedBy)},
		{"  network", console.OrDash(string(t.Network)), enforcementText(t.NetworkBy)},
		{"  survives", console.OrDash(string(t.Durability))},
		{"  read-only", yesNo(t.ReadOnly.Enforced()), enforcementText(t.ReadOnly)},
		{"  copy-on-write", console.OrDash(t.CopyOnWrite)},
	}
	for _, r := range driver.Resources {
		l := t.Limits[r.Name]
		rows = append(rows, []string{"  limit " + string(r.Name), yesNo(l.Enforced()), enforcementText(l)})
	}
	return rows
}

func enforcementText(e driver.Enforcement) string {
	if e.Enforced() {
		return "by " + console.OneLine(e.By)
	}
	return console.OneLine(e.Reason)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
