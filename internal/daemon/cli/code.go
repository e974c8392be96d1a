package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/interp/codeblock"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// codeOptions are the options of croft code and croft script.
type codeOptions struct {
	workspace string
	provider  string
	options   string
	language  string
	code      string
	dir       string
	env       []string
	timeout   time.Duration
	blocks    bool
	policy    console.PolicyFlags // of croft code
}

func (a *command) codeCommand() *cobra.Command {
	var opts codeOptions
	cmd := &cobra.Command{
		Use:   "code [flags] [FILE]",
		Short: "Run code in a Jupyter kernel inside a workspace",
		Long: `Run the code of FILE, of -c, or of standard input in a Jupyter kernel inside a workspace: the
workspace of --workspace, or a temporary one. On a terminal, without code, it is a REPL: every piece runs
in the same kernel and keeps its state. A piece is a line or, if that ends in a colon or a
backslash, all lines up to an empty one.

Text goes to the standard streams, the last value to standard output. Other outputs (pictures,
HTML) are only mentioned; --json contains them. The exit status is 1 for an exception and 125
for an error of croft itself.`,
		Example: "  croft code -c 'print(6 * 7)'\n  croft code --workspace demo --language python analysis.py\n  croft code --language python",
		Args:    cobra.MaximumNArgs(1),
		RunE:    console.RunE(func(ctx context.Context, args []string) error { return a.WithCroftStatus(a.runCode(ctx, opts, args)) }),
	}
	cmd.Flags().BoolVar(&opts.blocks, "blocks", false, "the input is a text, such as a model's reply: run the code blocks in it, each by its interpreter")
	opts.registerFlags(cmd, "python, or another language with an installed kernel (default python)")
	opts.policy.RegisterAllButEnv(cmd.Flags())
	return cmd
}

func (a *command) scriptCommand() *cobra.Command {
	var opts codeOptions
	cmd := &cobra.Command{
		Use:   "script [flags] [FILE]",
		Short: "Run JavaScript or TypeScript over the files of a workspace",
		Long: `Run the script of FILE, of -c, or of standard input in an isolate inside croft. The isolate has
no network, no processes, and only the files of the workspace of --workspace, or of an
empty temporary one. FILE is a file of this host.

The exit status is that of process.exit, 1 for an exception, and 125 for an error of croft
itself.`,
		Example: "  croft script -c '6 * 7'\n  croft script --workspace demo -c 'fs.readdirSync(\".\")'\n  croft script --workspace demo rename.ts",
		Args:    cobra.MaximumNArgs(1),
		RunE:    console.RunE(func(ctx context.Context, args []string) error { return a.WithCroftStatus(a.runScript(ctx, opts, args)) }),
	}
	opts.registerFlags(cmd, "javascript or typescript (default by the name of FILE, else javascript)")
	return cmd
}

func (o *codeOptions) registerFlags(cmd *cobra.Command, languages string) {
	f := cmd.Flags()
	f.StringVar(&o.workspace, "workspace", "", "workspace by name or id (default a temporary one)")
	f.StringVar(&o.provider, "provider", "", "kind of the temporary workspace (default sandbox for code, memory for scripts)")
	f.StringVar(&o.options, "options", "", "options of that provider, a JSON object, such as {\"image\":\"my-python:1\"} for docker")
	f.StringVarP(&o.language, "language", "l", "", languages)
	f.StringVarP(&o.code, "code", "c", "", "code to run, instead of FILE")
	console.RegisterWorkdir(f, &o.dir)
	console.RegisterEnv(f, &o.env)
	f.DurationVar(&o.timeout, "timeout", 0, "interrupt it after this long (default 2m for code, 10s for scripts)")
}

// readSource returns the code to run; ok is false for a REPL.
func (a *command) readSource(opts codeOptions, args []string) (source string, ok bool, err error) {
	if opts.code != "" && len(args) > 0 {
		return "", false, console.Usagef("give -c or FILE, not both")
	}
	if opts.code != "" {
		return opts.code, true, nil
	}
	if len(args) > 0 && args[0] != "-" {
		data, err := os.ReadFile(args[0])
		if errors.Is(err, os.ErrNotExist) {
			err = fault.Advise(err, "give a file, or the code itself with -c")
		}
		return string(data), true, err
	}
	if len(args) == 0 && a.OnTerminal() {
		return "", false, nil
	}
	data, err := io.ReadAll(a.In)
	return string(data), true, err
}

func (a *command) runCode(ctx context.Context, opts codeOptions, args []string) error {
	source, ok, err := a.readSource(opts, args)
	if err != nil {
		return err
	}
	if !ok && opts.blocks {
		return console.Usagef("nothing to run: give FILE, -c TEXT, or - for standard input")
	}
	env, err := console.ParseEnv(opts.env)
	if err != nil {
		return err
	}
	spec := workspace.Spec{Kind: sandbox.Kind, Want: driver.NewCapabilities(driver.CapFS, driver.CapShell, driver.CapCode)}
	return a.inWorkspace(ctx, opts, spec, func(ws *workspace.Workspace) error {
		if opts.blocks {
			return a.codeBlocks(ctx, ws, source, codeblock.RunOptions{Language: opts.language, Dir: opts.dir, Env: env, Timeout: opts.timeout})
		}
		code := driver.Code{Language: opts.language, Source: source, Dir: opts.dir, Env: env, Timeout: opts.timeout}
		if ok {
			return a.executeCode(ctx, code, ws.RunCode)
		}
		return a.runREPL(ctx, ws, code)
	})
}

func (a *command) runScript(ctx context.Context, opts codeOptions, args []string) error {
	source, ok, err := a.readSource(opts, args)
	if err != nil {
		return err
	}
	if !ok {
		return console.Usagef("nothing to run: give FILE, -c CODE, or - for standard input")
	}
	env, err := console.ParseEnv(opts.env)
	if err != nil {
		return err
	}
	if opts.language == "" && len(args) > 0 && slices.Contains([]string{".ts", ".mts", ".tsx"}, filepath.Ext(args[0])) {
		opts.language = "typescript"
	}
	spec := workspace.Spec{Kind: "memory", Want: driver.NewCapabilities(driver.CapFS, driver.CapScript)}
	return a.inWorkspace(ctx, opts, spec, func(ws *workspace.Workspace) error {
		return a.executeCode(ctx, driver.Code{Language: opts.language, Source: source, Dir: opts.dir, Env: env, Timeout: opts.timeout}, ws.RunScript)
	})
}

// inWorkspace calls f with the named workspace, or with a temporary one.
func (a *command) inWorkspace(ctx context.Context, opts codeOptions, spec workspace.Spec, f func(*workspace.Workspace) error) error {
	if opts.workspace != "" {
		if opts.provider != "" || opts.options != "" || opts.policy.Given() {
			return console.Usagef("--provider, --options and flags of the policy are for a temporary workspace: leave them out with --workspace")
		}
		return a.WithAttached(ctx, opts.workspace, func(_ console.Workspaces, ws *workspace.Workspace) error { return f(ws) })
	}
	if opts.provider != "" {
		spec.Kind = opts.provider
	}
	if opts.options != "" {
		if !json.Valid([]byte(opts.options)) {
			return console.Usagef("--options is not valid JSON: give a JSON object")
		}
		spec.Config = json.RawMessage(opts.options)
	}
	spec.Labels = console.RunLabels(a.Console)
	if err := opts.policy.Apply(&spec, a.Server != ""); err != nil {
		return err
	}
	spec.Policy.Idle = runIdle
	return a.withTemporary(ctx, spec, opts.policy.Name, sandbox.Options{},
		func(_ console.Workspaces, ws *workspace.Workspace) error { return f(ws) })
}

// executeCode runs code with the streams of this program and returns its outcome.
func (a *command) executeCode(ctx context.Context, code driver.Code, runs func(context.Context, driver.Code) (driver.CodeResult, error)) error {
	if !a.JSON {
		code.OnOutput = a.writeOutput
	}
	res, err := runs(ctx, code)
	if err != nil {
		return err
	}
	if a.JSON {
		if err := a.PrintAnswer(res, nil); err != nil {
			return err
		}
	}
	a.reportException(res)
	switch {
	case len(res.CallbackErrors) > 0: // output of the code was lost
		return errors.New(res.CallbackErrors[0])
	case res.Cause == driver.CauseCanceled:
		return ctx.Err()
	case res.ExitCode < 0:
		return &console.Outcome{Status: console.ExitCroft}
	case res.ExitCode > 0:
		return &console.Outcome{Status: res.ExitCode}
	}
	return nil
}

// writeOutput writes text to the standard streams and mentions other outputs.
func (a *command) writeOutput(o driver.Output) error {
	switch o.Kind {
	case driver.OutputStdout:
		return writeText(a.Out, o.Text)
	case driver.OutputStderr:
		return writeText(a.Err, o.Text)
	}
	if plain, ok := o.Data["text/plain"]; ok {
		if err := writeText(a.Out, string(plain)+"\n"); err != nil {
			return err
		}
	}
	for _, mime := range slices.Sorted(maps.Keys(o.Data)) {
		if mime != "text/plain" && mime != "application/json" {
			a.Note("croft: %s of %d bytes; --json has it", mime, len(o.Data[mime]))
		}
	}
	return nil
}

func writeText(w io.Writer, s string) error {
	_, err := io.WriteString(w, s)
	return err
}

// reportException prints the traceback, and how much output was dropped.
func (a *command) reportException(res driver.CodeResult) {
	if e := res.Error; e != nil {
		trace := strings.Join(e.Traceback, "\n")
		if !strings.Contains(trace, e.Name+": "+e.Value) {
			trace = strings.TrimSuffix(fmt.Sprintf("%s: %s\n%s", e.Name, e.Value, trace), "\n")
		}
		a.Note("%s", trace)
	}
	if res.Dropped > 0 {
		a.Note("croft: %d bytes of output were left out", res.Dropped)
	}
}

// codeBlocks runs the blocks of code in a text.
func (a *command) codeBlocks(ctx context.Context, ws *workspace.Workspace, source string, opts codeblock.RunOptions) error {
	blocks, err := codeblock.Extract(source, nil)
	if err != nil {
		return err
	}
	if len(blocks) == 0 {
		return console.Usagef("the text has no code block")
	}
	for _, b := range blocks {
		switch {
		case b.Runnable(opts.Language):
		case b.Language == "":
			a.Note("croft: the block at line %d names no language and is skipped; set it with --language", b.Line)
		default:
			a.Note("croft: the block at line %d is %s and is skipped", b.Line, console.Printable(b.Language))
		}
	}
	blocks = slices.DeleteFunc(blocks, func(b codeblock.Block) bool { return !b.Runnable(opts.Language) })
	if len(blocks) == 0 {
		return console.Usagef("no block can be run; the languages are %s", strings.Join(codeblock.Languages(), ", "))
	}
	res, err := codeblock.Run(ctx, ws, blocks, &opts)
	if err != nil {
		return err
	}
	err = a.PrintAnswer(newBlocksAnswer(res), func(w io.Writer) error {
		for _, b := range res.Blocks {
			if err := errors.Join(writeText(w, driver.OutputText(b.Result.Stdout, b.Result.StdoutDropped, "")),
				writeText(a.Err, driver.OutputText(b.Result.Stderr, b.Result.StderrDropped, ""))); err != nil {
				return err
			}
		}
		for _, info := range res.Outputs {
			a.Note("croft: output %s of %d bytes", console.Printable(info.Path), info.Size)
		}
		if res.OutputsTruncated {
			a.Note("croft: there are more files below %s than are compared: some new ones are not listed", codeblock.OutputDir)
		}
		return nil
	})
	if err != nil || len(res.Blocks) == 0 {
		return err
	}
	return a.CommandOutcome(res.Blocks[len(res.Blocks)-1].Result)
}

// blocksAnswer is the JSON of the results of blocks, with output as text.
type blocksAnswer struct {
	Blocks  []blockAnswer `json:"blocks"`
	Outputs []driver.Info `json:"outputs"`

	OutputsTruncated bool `json:"outputsTruncated,omitempty"`
}

type blockAnswer struct {
	File   string               `json:"file"`
	Line   int                  `json:"line"`
	Result console.ResultAnswer `json:"result"`
}

func newBlocksAnswer(res *codeblock.Result) blocksAnswer {
	out := blocksAnswer{Blocks: []blockAnswer{}, Outputs: res.Outputs, OutputsTruncated: res.OutputsTruncated}
	for _, b := range res.Blocks {
		out.Blocks = append(out.Blocks, blockAnswer{b.File, b.Line, console.NewResultAnswer(b.Result)})
	}
	return out
}

// runREPL is a read-eval-print loop: it runs one piece of code after the other in
// one context.
func (a *command) runREPL(ctx context.Context, ws *workspace.Workspace, code driver.Code) error {
	c, err := ws.CreateContext(ctx, code.Language, &driver.ContextOptions{Dir: code.Dir, Env: code.Env})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), console.StopTimeout)
		defer cancel()
		_ = ws.DeleteContext(ctx, c.ID) // otherwise it ends with the workspace or by its idle time-out
	}()
	a.Note("%s in workspace %s; Ctrl-C interrupts, Ctrl-D ends", c.Language, ws.ID())
	t := a.newREPLInput()
	defer t.stop()
	for {
		source, more := t.readPiece(a.Err)
		if !more {
			return t.endCause()
		}
		if strings.TrimSpace(source) == "" {
			continue
		}
		err := t.runInterruptible(context.WithoutCancel(ctx), func(ctx context.Context) error {
			return a.executeCode(ctx, driver.Code{Context: c.ID, Source: source, Timeout: code.Timeout}, ws.RunCode)
		})
		if failed := new(console.Outcome); err != nil && !errors.As(err, &failed) {
			return err
		}
	}
}
