package codeblock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/interp/isolate"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Directories for the files of blocks and for their outputs.
const (
	SourceDir = "src"
	OutputDir = "out"
)

// SpanInline is the name of the span of Run.
const SpanInline = "workspace.inline"

// DefaultTimeout is the time-out of one block.
const DefaultTimeout = 2 * time.Minute

// A runner says how a language is run.
type runner struct {
	names     []string // the language, then its aliases
	extension string
	argv      []string // the command; the file follows
	mode      bool     // the file is made executable
}

var runners = []runner{
	{[]string{"python", "py", "python3"}, ".py", []string{"python3"}, false},
	{[]string{"bash", "shell", "console-script"}, ".bash", []string{"bash"}, true},
	{[]string{"sh"}, ".sh", []string{"sh"}, true},
	{[]string{"javascript", "js", "node", "mjs"}, ".mjs", []string{"node"}, false},
	{[]string{"typescript", "ts"}, ".ts", []string{"node"}, false},
	{[]string{"go", "golang"}, ".go", []string{"go", "run"}, false},
	{[]string{"ruby", "rb"}, ".rb", []string{"ruby"}, false},
	{[]string{"perl", "pl"}, ".pl", []string{"perl"}, false},
	{[]string{"r"}, ".R", []string{"Rscript"}, false},
}

// Languages lists the languages of Run.
func Languages() []string {
	var out []string
	for _, r := range runners {
		out = append(out, r.names[0])
	}
	return out
}

func findRunner(language string) (runner, error) {
	for _, r := range runners {
		if slices.Contains(r.names, language) {
			return r, nil
		}
	}
	return runner{}, fmt.Errorf("codeblock: language %.80q: %w: the languages are %s", language, fault.Unsupported, strings.Join(Languages(), ", "))
}

// Runnable reports whether Run can run a block; language is the default of blocks
// without one. Texts also have blocks with output or data.
func (b Block) Runnable(language string) bool {
	if b.Language != "" {
		language = b.Language
	}
	_, err := findRunner(strings.ToLower(language))
	return err == nil
}

// RunOptions are the options of Run.
type RunOptions struct {
	Language  string            // default for blocks without one; "" refuses such blocks
	Dir       string            // working directory; "" is the root of the workspace
	Env       map[string]string // further variables
	Timeout   time.Duration     // of each block; 0 is DefaultTimeout
	MaxOutput int64             // bytes of each stream in a result; 0 is the provider's default
	KeepGoing bool              // continue after a failed block

	// Kernel runs Python in the oldest context of the workspace's Code module for it, which is
	// made if there is none: state lasts from block to block and from run to run. Dir and Env
	// are those of the run that made it.
	Kernel bool
}

// A Result says how blocks ran.
type Result struct {
	Blocks  []BlockResult `json:"blocks"`  // blocks that ran
	Outputs []driver.Info `json:"outputs"` // files below out that are new or changed

	// OutputsTruncated says that out has more files than are compared, so that Outputs
	// may lack some.
	OutputsTruncated bool `json:"outputsTruncated,omitempty"`
}

// Succeeded reports whether every block that was run exited with 0.
func (r *Result) Succeeded() bool {
	return !slices.ContainsFunc(r.Blocks, func(b BlockResult) bool { return !b.Result.Succeeded() })
}

// A BlockResult says how one block ran.
type BlockResult struct {
	File   string        `json:"file"`
	Line   int           `json:"line"` // of the block
	Result driver.Result `json:"result"`
}

// Run runs blocks in order. A block that exits with a status other than 0 is a result
// and ends the run, unless opts.KeepGoing. A block that can't be run is an error,
// returned together with the results of the blocks before it.
func Run(ctx context.Context, ws *workspace.Workspace, blocks []Block, opts *RunOptions) (res *Result, err error) {
	ctx, span := otel.Tracer("github.com/croft-run/croft/interp/codeblock").Start(ctx, SpanInline)
	if span.IsRecording() {
		span.SetAttributes(attribute.String("exec_id", ws.ID()), attribute.String("path", path.Join("/", ws.Traits().Root)), attribute.Int("count", len(blocks)))
	}
	defer func() {
		if code := fault.Of(err); code != "" && span.IsRecording() {
			span.SetStatus(codes.Error, string(code))
		}
		span.End()
	}()
	if opts == nil {
		opts = &RunOptions{}
	}
	return runBlocks(ctx, ws, blocks, opts)
}

func runBlocks(ctx context.Context, ws *workspace.Workspace, blocks []Block, opts *RunOptions) (*Result, error) {
	plan, err := selectRunners(blocks, opts)
	if err != nil {
		return nil, err
	}
	if err := ws.Mkdir(ctx, OutputDir, &driver.MkdirOptions{Parents: true}); err != nil {
		return nil, fmt.Errorf("codeblock: %w", err)
	}
	before, _, err := listOutputs(ctx, ws)
	if err != nil {
		return nil, err
	}
	res := &Result{Blocks: []BlockResult{}, Outputs: []driver.Info{}}
	var failed error
	for i, r := range plan {
		one, err := r.runBlock(ctx, ws, blocks[i], i, opts)
		if err != nil {
			failed = fmt.Errorf("codeblock: block %d (line %d): %w", i+1, blocks[i].Line, err)
			break
		}
		one.Line = blocks[i].Line
		res.Blocks = append(res.Blocks, one)
		if !one.Result.Succeeded() && !opts.KeepGoing {
			break
		}
	}
	after, more, err := listOutputs(ctx, ws)
	res.OutputsTruncated = more
	for name, info := range after {
		if old, ok := before[name]; !ok || old.Size != info.Size || !old.ModTime.Equal(info.ModTime) {
			res.Outputs = append(res.Outputs, info)
		}
	}
	slices.SortFunc(res.Outputs, func(a, b driver.Info) int { return strings.Compare(a.Path, b.Path) })
	return res, errors.Join(failed, err)
}

// selectRunners selects the runner of every block before any block runs.
func selectRunners(blocks []Block, opts *RunOptions) ([]runner, error) {
	var out []runner
	for i, b := range blocks {
		if b.Cut {
			return nil, fmt.Errorf("codeblock: block %d (line %d): %w: the block has no closing fence and may be incomplete", i+1, b.Line, fault.InvalidArgument)
		}
		language := b.Language
		if language == "" {
			language = strings.ToLower(opts.Language)
		}
		r, err := findRunner(language)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// maxOutputs bounds the number of listed output files.
const maxOutputs = 10_000

// listOutputs returns the output files by path; more says that there are others.
func listOutputs(ctx context.Context, ws *workspace.Workspace) (files map[string]driver.Info, more bool, err error) {
	list, err := ws.List(ctx, OutputDir, &driver.ListOptions{Depth: -1, Limit: maxOutputs})
	if err != nil {
		return nil, false, fmt.Errorf("codeblock: list %s: %w", OutputDir, err)
	}
	files = map[string]driver.Info{}
	for _, info := range list.Entries {
		if info.Type == driver.TypeFile {
			files[info.Path] = info
		}
	}
	return files, list.Next != "", nil
}

// runBlock writes a block to a file and runs it.
func (r runner) runBlock(ctx context.Context, ws *workspace.Workspace, b Block, i int, opts *RunOptions) (BlockResult, error) {
	file := path.Join(SourceDir, fmt.Sprintf("code_%d%s", i, r.extension))
	write := &driver.WriteOptions{Parents: true, SetMode: true, Mode: 0o644}
	if r.mode {
		write.Mode = 0o755
	}
	if _, err := ws.Write(ctx, file, strings.NewReader(b.Code), write); err != nil {
		return BlockResult{}, err
	}
	timeout := opts.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	if opts.Kernel && r.names[0] == kernelLanguage {
		return runKernel(ctx, ws, file, b, opts, timeout)
	}
	if !ws.Capabilities().Has(driver.CapShell) && (r.names[0] == "javascript" || r.names[0] == "typescript") {
		return runIsolated(ctx, ws, r.names[0], file, b, opts, timeout)
	}
	env := map[string]string{"OUTPUT_DIR": path.Join("/", ws.Traits().Root, OutputDir)}
	for k, v := range opts.Env {
		env[k] = v
	}
	inside := file
	if opts.Dir != "" {
		inside = path.Join("/", ws.Traits().Root, file)
	}
	cmd := driver.Command{Argv: append(slices.Clone(r.argv), inside), Dir: opts.Dir, Env: env, Timeout: timeout, MaxOutput: opts.MaxOutput}
	if r.names[0] == "typescript" { // an old node has no type stripping
		program, err := isolate.NodeTypeScript()
		if err != nil {
			return BlockResult{}, fmt.Errorf("%w: %w", fault.Internal, err)
		}
		cmd.Argv = append(slices.Clone(r.argv), "-", inside, strings.TrimSuffix(inside, r.extension)+".mjs")
		cmd.Stdin = strings.NewReader(program)
	}
	res, err := ws.Run(ctx, cmd)
	if err != nil {
		return BlockResult{}, fmt.Errorf("run %s: %w", r.argv[0], err)
	}
	return BlockResult{File: file, Result: res}, nil
}

// runIsolated runs a script in the Script module, for workspaces without a shell.
func runIsolated(ctx context.Context, ws *workspace.Workspace, language, file string, b Block, opts *RunOptions, timeout time.Duration) (BlockResult, error) {
	res, err := ws.RunScript(ctx, driver.Code{Language: language, Source: b.Code, Env: opts.Env, Timeout: timeout})
	if err != nil {
		return BlockResult{}, err
	}
	return codeResult(file, res), nil
}

// kernelLanguage is the language of RunOptions.Kernel.
const kernelLanguage = "python"

// runKernel runs Python in a context that keeps its state.
func runKernel(
	ctx context.Context, ws *workspace.Workspace, file string, b Block, opts *RunOptions, timeout time.Duration,
) (BlockResult, error) {
	contexts, err := ws.Contexts(ctx)
	if err != nil {
		return BlockResult{}, err
	}
	i := slices.IndexFunc(contexts, func(c driver.CodeContext) bool { return c.Language == kernelLanguage })
	if i < 0 {
		made, err := ws.CreateContext(ctx, kernelLanguage, &driver.ContextOptions{Dir: opts.Dir, Env: opts.Env})
		if err != nil {
			return BlockResult{}, err
		}
		i, contexts = 0, []driver.CodeContext{made}
	}
	res, err := ws.RunCode(ctx, driver.Code{Source: b.Code, Context: contexts[i].ID, Timeout: timeout})
	if err != nil {
		return BlockResult{}, err
	}
	return codeResult(file, res), nil
}

// codeResult returns what code has written as a command's result, with the text of values that
// it shows on standard output.
func codeResult(file string, res driver.CodeResult) BlockResult {
	var stdout, stderr bytes.Buffer
	for _, o := range res.Outputs {
		switch o.Kind {
		case driver.OutputStdout:
			stdout.WriteString(o.Text)
		case driver.OutputStderr:
			stderr.WriteString(o.Text)
		default:
			if text := o.Data["text/plain"]; len(text) > 0 {
				fmt.Fprintf(&stdout, "%s\n", text)
			}
		}
	}
	if e := res.Error; e != nil {
		fmt.Fprintf(&stderr, "%s: %s\n%s\n", e.Name, e.Value, strings.Join(e.Traceback, "\n"))
	}
	if res.Dropped > 0 { // of either stream, and after its head: a result has no such count
		fmt.Fprintf(&stderr, "... (output truncated, %d bytes elided)\n", res.Dropped)
	}
	return BlockResult{File: file, Result: driver.Result{
		ExitCode: res.ExitCode, Cause: res.Cause, Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Duration: res.Duration,
	}}
}
