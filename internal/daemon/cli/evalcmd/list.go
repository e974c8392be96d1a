package evalcmd

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/internal/daemon/cli/console"
)

func listCommand(a *command) *cobra.Command {
	var config, provider string
	cmd := &cobra.Command{
		Use:     "list SUITE",
		Aliases: []string{"ls"},
		Short:   "List the cases and runners of a suite",
		Args:    cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return notRun(a.list(ctx, args[0], config, provider))
		}),
	}
	cmd.Flags().StringVar(&config, "config", "", "configuration of the suite (default the nearest one)")
	cmd.Flags().StringVar(&provider, "provider", "", "kind of workspace, as for croft eval run: with another than sandbox, Node may run without a sandbox on a host that has none")
	return cmd
}

type listing struct {
	Suite   string       `json:"suite"`
	Config  string       `json:"config"`
	Cases   []listCase   `json:"cases"`
	Runners []listRunner `json:"runners"`
}

type listCase struct {
	ID           string   `json:"id"`
	Tags         []string `json:"tags"`
	ExpectedFail bool     `json:"expectedFail,omitempty"`
}

type listRunner struct {
	ID    string `json:"id"`
	Agent string `json:"agent"`
	Model string `json:"model"`
}

func (a *command) list(ctx context.Context, path, config, provider string) error {
	s, cfg, err := a.loadSuite(ctx, path, config, provider)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // only temporary files are lost
	l := listing{Suite: s.Path, Config: cfg.Path, Cases: []listCase{}, Runners: []listRunner{}}
	for _, c := range s.Cases {
		l.Cases = append(l.Cases, listCase{c.ID, append([]string{}, c.Tags...), c.ExpectedFail})
	}
	for _, r := range cfg.Runners {
		l.Runners = append(l.Runners, listRunner{r.ID, r.Agent.Type, r.Agent.Model})
	}
	return a.PrintAnswer(l, func(w io.Writer) error {
		rows := [][]string{{"CASE", "TAGS", "EXPECTED"}}
		for _, c := range l.Cases {
			expected := "pass"
			if c.ExpectedFail {
				expected = "fail"
			}
			rows = append(rows, []string{console.Printable(c.ID), console.OrDash(strings.Join(c.Tags, ",")), expected})
		}
		rows = append(rows, []string{}, []string{"RUNNER", "AGENT", "MODEL"})
		for _, r := range l.Runners {
			rows = append(rows, []string{console.Printable(r.ID), r.Agent, console.OrDash(r.Model)})
		}
		return console.WriteTable(w, rows)
	})
}
