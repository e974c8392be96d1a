package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/suggest"
	"github.com/croft-run/croft/tool"
)

// maxToolInput bounds the bytes that are read from standard input.
const maxToolInput = 64 << 20

type toolOptions struct {
	toolFlags
	schema bool
}

func (a *command) toolCommand() *cobra.Command {
	opts := toolOptions{toolFlags: toolFlags{maxText: 1 << 20, once: true}} // the reader is a person or a script
	cmd := &cobra.Command{
		Use:   "tool [NAME [JSON|-]]",
		Short: "Run a tool as an agent does",
		Long: `Run a tool once, with the same isolation, rules and audit as an agent's call, and print its
answer. Arguments are a JSON object; - reads it from standard input. Without a name the tools
are listed. With --json the answer is the data instead of the text. A file that the tool
changes is read first, as agents have to.`,
		Example: `  croft tool
  croft tool Read '{"file_path": "README.md"}'
  croft tool Bash '{"command": "make test"}' --dir ~/src/app
  croft tool Edit --schema`,
		Args: cobra.MaximumNArgs(2),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return console.SayOf(fault.InvalidArgument, a.runTool(ctx, opts, args),
				`croft tool NAME --schema shows the arguments, such as: croft tool Read '{"file_path": "README.md"}'`)
		}),
	}
	opts.registerFlags(cmd.Flags())
	cmd.Flags().BoolVar(&opts.schema, "schema", false, "print the input and output of the tool as JSON Schema, instead of running it")
	return cmd
}

func (a *command) runTool(ctx context.Context, opts toolOptions, args []string) error {
	input := json.RawMessage("{}")
	if len(args) == 2 {
		input = json.RawMessage(args[1])
		if args[1] == "-" {
			data, err := io.ReadAll(io.LimitReader(a.In, maxToolInput))
			if err != nil {
				return err
			}
			input = data
		}
	}
	opts.empty = len(args) == 0 || opts.schema // the list of tools does not depend on files
	if a.Server != "" {
		return a.toolOnServer(ctx, opts, args, input)
	}
	return a.withTools(ctx, opts.toolFlags, tool.ReadProcess, func(_ *app.System, env *tool.Env) error {
		env.EffectWait = time.Duration(len(env.Effects)) * env.EffectTime // this is the only answer
		list, err := env.Available(ctx, "")
		if err != nil {
			return err
		}
		known := make([]toolAnswer, 0, len(list))
		for _, t := range list {
			known = append(known, toolAnswer{t.Name, string(t.Family), t.Description, t.ReadOnly, t.Destructive, t.Input, t.Output})
		}
		if len(args) == 0 || opts.schema {
			return a.showTools(known, args, opts.schema)
		}
		if !slices.ContainsFunc(slices.Concat(list, env.Tools), func(t *tool.Tool) bool { return t.Name == args[0] }) {
			return unknownTool(known, args[0])
		}
		if read := readArguments(known, args[0], input); read != nil {
			// The tool itself reports a file that can't be read.
			_, _ = env.Run(ctx, tool.Request{Tool: "Read", Args: read, Session: "cli"})
		}
		res, err := env.Run(ctx, tool.Request{Tool: args[0], Args: input, Session: "cli"})
		if err != nil {
			return err
		}
		return a.showAnswer(res.Data(), res.Text)
	})
}

// unknownTool is the error for an unknown tool.
func unknownTool(known []toolAnswer, name string) error {
	var names []string
	for _, t := range known {
		names = append(names, t.Name)
	}
	return console.Say(tool.Errorf(fault.NotFound, "unknown tool %q%s", name, suggest.Hint(name, names)), "croft tool lists them")
}

// showAnswer prints the answer of a tool.
func (a *command) showAnswer(data any, text string) error {
	return a.PrintAnswer(data, func(w io.Writer) error {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		_, err := io.WriteString(w, text)
		return err
	})
}

// readArguments returns the arguments of a Read of the file that a tool changes, nil
// for none. Tools refuse to change a file that the session has not read.
func readArguments(known []toolAnswer, name string, input json.RawMessage) json.RawMessage {
	var in struct {
		FilePath  string `json:"file_path"`
		Path      string `json:"path"`
		Workspace string `json:"workspace,omitempty"`
	}
	changes := slices.ContainsFunc(known, func(t toolAnswer) bool { return t.Name == name && !t.ReadOnly })
	if !changes || json.Unmarshal(input, &in) != nil || cmp.Or(in.FilePath, in.Path) == "" {
		return nil
	}
	read := map[string]string{"file_path": cmp.Or(in.FilePath, in.Path)}
	if in.Workspace != "" {
		read["workspace"] = in.Workspace
	}
	data, err := json.Marshal(read)
	if err != nil {
		return nil
	}
	return data
}

// toolAnswer is how croft tool --json lists a tool.
type toolAnswer struct {
	Name        string `json:"name"`
	Family      string `json:"family,omitempty"` // unknown for a server's tools
	Description string `json:"description"`
	ReadOnly    bool   `json:"readOnly"`
	Destructive bool   `json:"destructive"`
	Input       any    `json:"input"`
	Output      any    `json:"output,omitempty"`
}

// showTools lists the tools, or describes one.
func (a *command) showTools(known []toolAnswer, names []string, schema bool) error {
	var out []toolAnswer
	rows := [][]string{{"NAME", "FAMILY", "DESCRIPTION"}}
	families := slices.ContainsFunc(known, func(t toolAnswer) bool { return t.Family != "" })
	for _, t := range known {
		if len(names) > 0 && t.Name != names[0] {
			continue
		}
		out = append(out, t)
		first, _, _ := strings.Cut(t.Description, ". ")
		rows = append(rows, []string{t.Name, t.Family, strings.TrimSuffix(first, ".")})
	}
	if len(names) > 0 && len(out) == 0 {
		return unknownTool(known, names[0])
	}
	if !families {
		for i, r := range rows {
			rows[i] = []string{r[0], r[2]}
		}
	}
	if schema && len(out) == 1 {
		data, err := json.MarshalIndent(out[0], "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(a.Out, string(data))
		return err
	}
	return a.PrintAnswer(out, func(w io.Writer) error { return console.WriteTable(w, rows, "FAMILY") })
}
