package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/daemon/app"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/suggest"
	"github.com/croft-run/croft/tool"
)

// maxToolInput is how much is read from standard input.
const maxToolInput = 64 << 20

type toolOptions struct {
	toolFlags
	schema bool
}

func (a *command) toolCommand() *cobra.Command {
	var opts toolOptions
	cmd := &cobra.Command{
		Use:   "tool [NAME [JSON|-]]",
		Short: "Run one of the tools that agents have",
		Long: `Run a tool once, through the same fence, rules and audit as an agent's call, and print what
it answers. Arguments are a JSON object; - reads it from standard input. Without a name the
tools are listed. With --json the answer is the data instead of the text. A file that the
tool is to change is read first, as an agent has to.`,
		Example: `  croft tool
  croft tool Read '{"file_path": "README.md"}'
  croft tool Bash '{"command": "make test"}' --workspace ~/src/app
  croft tool Edit --schema`,
		Args: cobra.MaximumNArgs(2),
		RunE: run(func(ctx context.Context, args []string) error { return a.runTool(ctx, opts, args) }),
	}
	opts.registerFlags(cmd.Flags())
	cmd.Flags().BoolVar(&opts.schema, "schema", false, "print what the tool takes and answers, as JSON Schema, instead of running it")
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
	opts.empty = len(args) == 0 || opts.schema // what there is does not depend on the files
	if a.server != "" {
		return a.toolOnServer(ctx, opts, args, input)
	}
	return a.withTools(ctx, opts.toolFlags, tool.ReadProcess, func(_ *app.System, env *tool.Env) error {
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
			// What can't be read, the tool itself speaks of.
			_, _ = env.Run(ctx, tool.Request{Tool: "Read", Args: read, Session: "cli"})
		}
		res, err := env.Run(ctx, tool.Request{Tool: args[0], Args: input, Session: "cli"})
		if err != nil {
			return err
		}
		return a.showAnswer(res.Data(), res.Text)
	})
}

// unknownTool refuses the name of a tool that is not there.
func unknownTool(known []toolAnswer, name string) error {
	var names []string
	for _, t := range known {
		names = append(names, t.Name)
	}
	return tool.Errorf(fault.NotFound, "unknown tool %q%s; croft tool lists them", name, suggest.Hint(name, names))
}

// showAnswer prints what a tool answered.
func (a *command) showAnswer(data any, text string) error {
	return a.printAnswer(data, func(w io.Writer) error {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		_, err := io.WriteString(w, text)
		return err
	})
}

// readArguments returns the arguments of a Read of the file that a tool is to
// change, nil for none. Nobody who calls one tool alone could have read it before.
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
	Family      string `json:"family,omitempty"` // a server does not tell
	Description string `json:"description"`
	ReadOnly    bool   `json:"readOnly"`
	Destructive bool   `json:"destructive"`
	Input       any    `json:"input"`
	Output      any    `json:"output,omitempty"`
}

// showTools prints what tools there are, or one of them.
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
	return a.printAnswer(out, func(w io.Writer) error { return writeTable(w, rows) })
}
