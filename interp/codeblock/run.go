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

// Where blocks are written, and where they leave what they make.
const (
	SourceDir = "src"
	OutputDir = "out"
)

// SpanInline is the name of the span of Run.
const SpanInline = "workspace.inline"

// DefaultTimeout is that of one block.
const DefaultTimeout = 2 * time.Minute

// A runner is how a language is run.
type runner struct {
	names     []string // the language, then other names of it
	extension string
	argv      []string // the file follows
	mode      bool     // the file may be executed
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

// Languages lists what Run runs.
func Languages() []string {
	var out []string
	for _, r := range runners {
		out = append(out, r.names[0])
	}
	return out
}

func find(language string) (runner, error) {
	for _, r := range runners {
		if slices.Contains(r.names, language) {
			return r, nil
		}
	}
	return runner{}, fmt.Errorf("codeblock: language %.80q: %w: the languages are %s", language, fault.Unsupported, strings.Join(Languages(), ", "))
}

// Runnable reports whether Run knows how to run a block; language is that of blocks
// that name none. A text has others, too: what a program puts out, or data.
func (b Block) Runnable(language string) bool {
	if b.Language != "" {
		language = b.Language
	}
	_, err := find(strings.ToLower(language))
	return err == nil
}

// RunOptions are the options of Run.
type RunOptions struct {
	Language  string            // of blocks that name none; "" refuses them
	Dir       string            // where blocks run; "" is the top of the workspace
	Env       map[string]string // further variables
	Timeout   time.Duration     // of each block; 0 is DefaultTimeout
	MaxOutput int64             // bytes that a result holds of each stream; 0 is the provider's default
	KeepGoing bool              // run what follows a block that failed
}

// A Result says how blocks ran.
type Result struct {
	Blocks  []BlockResult `json:"blocks"`  // those that were run
	Outputs []driver.Info `json:"outputs"` // files below out that are new or changed
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

// Run runs blocks in order. One that exits with something else than 0 is a result
// and ends the run unless opts say otherwise; one that can't be run is an error,
// beside what ran before it.
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
	return run(ctx, ws, blocks, opts)
}

func run(ctx context.Context, ws *workspace.Workspace, blocks []Block, opts *RunOptions) (*Result, error) {
	plan, err := plan(blocks, opts)
	if err != nil {
		return nil, err
	}
	if err := ws.Mkdir(ctx, OutputDir, &driver.MkdirOptions{Parents: true}); err != nil {
		return nil, fmt.Errorf("codeblock: %w", err)
	}
	before, err := outputs(ctx, ws)
	if err != nil {
		return nil, err
	}
	res := &Result{Blocks: []BlockResult{}, Outputs: []driver.Info{}}
	var failed error
	for i, r := range plan {
		one, err := r.run(ctx, ws, blocks[i], i, opts)
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
	after, err := outputs(ctx, ws)
	for name, info := range after {
		if old, ok := before[name]; !ok || old.Size != info.Size || !old.ModTime.Equal(info.ModTime) {
			res.Outputs = append(res.Outputs, info)
		}
	}
	slices.SortFunc(res.Outputs, func(a, b driver.Info) int { return strings.Compare(a.Path, b.Path) })
	return res, errors.Join(failed, err)
}

// plan finds how every block is run before any is.
func plan(blocks []Block, opts *RunOptions) ([]runner, error) {
	var out []runner
	for i, b := range blocks {
		if b.Cut {
			return nil, fmt.Errorf("codeblock: block %d (line %d): %w: it has no end, so it may be half of what was meant", i+1, b.Line, fault.InvalidArgument)
		}
		language := b.Language
		if language == "" {
			language = strings.ToLower(opts.Language)
		}
		r, err := find(language)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// maxOutputs bounds how many files below out are looked at.
const maxOutputs = 10_000

func outputs(ctx context.Context, ws *workspace.Workspace) (map[string]driver.Info, error) {
	list, err := ws.List(ctx, OutputDir, &driver.ListOptions{Depth: -1, Limit: maxOutputs})
	if err != nil {
		return nil, fmt.Errorf("codeblock: list %s: %w", OutputDir, err)
	}
	files := map[string]driver.Info{}
	for _, info := range list.Entries {
		if info.Type == driver.TypeFile {
			files[info.Path] = info
		}
	}
	return files, nil
}

// run writes a block and runs it.
func (r runner) run(ctx context.Context, ws *workspace.Workspace, b Block, i int, opts *RunOptions) (BlockResult, error) {
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
	if !ws.Capabilities().Has(driver.CapShell) && (r.names[0] == "javascript" || r.names[0] == "typescript") {
		return isolated(ctx, ws, r.names[0], file, b, opts, timeout)
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
	if r.names[0] == "typescript" { // node may be one that does not know it
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

// isolated runs a script where there are no processes.
func isolated(ctx context.Context, ws *workspace.Workspace, language, file string, b Block, opts *RunOptions, timeout time.Duration) (BlockResult, error) {
	res, err := ws.RunScript(ctx, driver.Code{Language: language, Source: b.Code, Env: opts.Env, Timeout: timeout})
	if err != nil {
		return BlockResult{}, err
	}
	var stdout, stderr bytes.Buffer
	for _, o := range res.Outputs {
		switch o.Kind {
		case driver.OutputStdout:
			stdout.WriteString(o.Text)
		case driver.OutputStderr:
			stderr.WriteString(o.Text)
		}
	}
	if e := res.Error; e != nil {
		fmt.Fprintf(&stderr, "%s: %s\n%s\n", e.Name, e.Value, strings.Join(e.Traceback, "\n"))
	}
	return BlockResult{File: file, Result: driver.Result{
		ExitCode: res.ExitCode, Cause: res.Cause, Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), StdoutDropped: res.Dropped, Duration: res.Duration,
	}}, nil
}
