package evalcmd

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/fault"
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

func schemaCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use:   "schema suite|config",
		Short: "Print the JSON Schema of suites or of croft.eval.yaml",
		Args:  cobra.ExactArgs(1),
		RunE: console.RunE(func(_ context.Context, args []string) error {
			make, ok := map[string]func() ([]byte, error){"suite": suite.Schema, "config": suite.ConfigSchema}[args[0]]
			if !ok {
				return notRun(fault.Advise(fmt.Errorf("eval: schema %q: %w", args[0], fault.InvalidArgument), "expected suite or config"))
			}
			text, err := make()
			if err != nil {
				return err
			}
			_, err = a.Out.Write(text)
			return err
		}),
	}
}

func skillsCommand(a *command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "skills",
		Short: "Instructions for agents that write suites",
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "list",
		Short: "List them by name",
		Args:  cobra.NoArgs,
		RunE: console.RunE(func(context.Context, []string) error {
			names := eval.Skills()
			return a.PrintAnswer(names, func(w io.Writer) error {
				for _, n := range names {
					fmt.Fprintln(w, n)
				}
				return nil
			})
		}),
	}, &cobra.Command{
		Use:   "get NAME",
		Short: "Print one, as Markdown",
		Args:  cobra.ExactArgs(1),
		RunE: console.RunE(func(_ context.Context, args []string) error {
			text, err := eval.Skill(args[0])
			if err != nil {
				return notRun(err)
			}
			return a.PrintAnswer(map[string]string{"name": args[0], "text": text}, func(w io.Writer) error {
				_, err := io.WriteString(w, text)
				return err
			})
		}),
	})
	return cmd
}
