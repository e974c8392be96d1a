package agent

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A Config says how a runner's program is started.
type Config struct {
	Type        string            // one of Types
	Model       string            // as the program names it
	Command     string            // the program; "" is the type's own
	CommandArgs []string          // before all other arguments
	Env         map[string]string // over the environment
	UserHome    string            // home of the user with settings of programs; "" for none

	execArgs []string // arguments of Redirect, after the subcommand
}

// An Input is one session to be run.
type Input struct {
	Runner    session.Runner
	Prompt    string
	Dir       string        // workspace of the agent; absolute
	Artifacts string        // for logs, the session and the home; absolute, the same inside and outside
	Runtime   string        // directory of its home, if not Artifacts: that of the resumed session
	UserHome  string        // home from which credentials and settings are copied; "" copies none
	Resume    string        // id of the session to resume; "" is a new one
	Timeout   time.Duration // 0 for none
	MaxSteps  int           // maximum of rounds with the model; 0 is unlimited
	Sandboxed bool          // the agent runs in a sandbox, so its own sandbox may be off
	Tools     string        // URL of an additional MCP server; "" for none
	MaxOutput int64         // bytes of each log; 0 is DefaultMaxOutput
}

// DefaultMaxOutput bounds each log of an agent.
const DefaultMaxOutput = 64 << 20

// homeDir returns the directory of the agent's home.
func (in Input) homeDir() string {
	if in.Runtime != "" {
		return in.Runtime
	}
	return in.Artifacts
}

// An Agent knows one kind of program. It holds no state of any session.
type Agent interface {
	// Type is the name in configurations.
	Type() string

	// Prepare makes the files that the program needs below in's directories, and returns
	// how to start it.
	Prepare(ctx context.Context, in Input) (Invocation, error)

	// Steps returns a counter of rounds with the model. It is called with each line of
	// the program's standard output, and returns the count so far.
	Steps() func(line []byte) int

	// Rejected reports whether the program ended because its model is not available. Only
	// the program's own messages count, not text that it quotes. It may ask the program
	// for its models, but never the model.
	Rejected(ctx context.Context, r Runner, in Input, out Output) bool

	// Collect finds the session that the program left. It may run the program again.
	Collect(ctx context.Context, r Runner, in Input, out Output) (Raw, error)

	// Normalize makes the report.
	Normalize(in Input, raw Raw) (*session.Report, error)
}

// A Runner runs a program to its end, in a workspace or on the host.
//
// An exit status other than 0, a signal, a time-out and the end of ctx are an Exit. An
// error means that the program did not start: NotFound if it does not exist.
type Runner interface {
	Run(ctx context.Context, inv Invocation) (Exit, error)
}

// An Invocation is a program to be run.
type Invocation struct {
	Argv    []string
	Env     map[string]string // over the environment that the Runner has
	Dir     string
	Timeout time.Duration // ends the whole tree; 0 for none
	Stdin   io.Reader     // nil is empty
	Stdout  io.Writer     // never nil for a Runner
	Stderr  io.Writer     // never nil for a Runner
	Hosts   []string      // hosts that the program needs, as "host" or "host:port"

	// Converse, if set, exchanges messages with the program over standard input and
	// output while it runs. Run calls it, not a Runner. The program's input is closed
	// when it returns.
	Converse func(ctx context.Context, stdin io.Writer, stdout io.Reader) error

	user userFiles // removed after the session
}

// String returns the command as people write it.
func (inv Invocation) String() string { return strings.Join(inv.Argv, " ") }

// An Exit says how a program ended.
type Exit struct {
	Code       int
	Signal     string       // that killed it: "SIGKILL"
	Cause      driver.Cause // why it was ended; "" if it ended by itself
	Duration   time.Duration
	PeakMemory int64 // bytes, of the program and its children; 0 is not known
}

// OK reports whether the program ended by itself with status 0.
func (e Exit) OK() bool { return e.Code == 0 && e.Cause == "" && e.Signal == "" }

// An Output is what a program wrote and how it ended.
type Output struct {
	Stdout     []byte
	Stderr     []byte
	StdoutPath string
	StderrPath string
	Started    time.Time
	Ended      time.Time
	Exit       Exit

	StdoutDropped int64 // bytes beyond MaxOutput, which neither Stdout nor the file has
	StderrDropped int64

	log fs.FileInfo // the file at StdoutPath, which has Stdout; nil is not known
}

// Raw is what was collected of a session.
type Raw struct {
	Output
	SessionID     string
	SessionPath   string
	ExportPath    string
	TelemetryPath string
	Session       []byte // the text that Normalize reads
	Telemetry     []byte
}

// constructors make agents, by type.
var constructors = map[string]func(p program) Agent{
	"acp":          func(p program) Agent { return acpAgent{p} },
	"claude-code":  func(p program) Agent { return claude{p} },
	"codex":        func(p program) Agent { return codex{p} },
	"command":      func(p program) Agent { return command{p} },
	"copilot":      func(p program) Agent { return copilot{p} },
	"cursor-agent": func(p program) Agent { return cursor{p} },
	"gemini":       func(p program) Agent { return gemini{p} },
	"opencode":     func(p program) Agent { return opencode{p} },
}

// Types are the kinds of agents, sorted.
func Types() []string { return slices.Sorted(maps.Keys(constructors)) }

// New returns the agent of a configuration.
func New(cfg Config) (Agent, error) {
	if strings.TrimSpace(cfg.Model) == "" && cfg.Type != "command" && cfg.Type != "acp" {
		return nil, fmt.Errorf("agent: make a %s: %w: no model", cfg.Type, fault.InvalidArgument)
	}
	kind, ok := constructors[cfg.Type]
	if !ok {
		return nil, fmt.Errorf("agent: make an agent: %w: type %q, want one of %s", fault.InvalidArgument, cfg.Type, strings.Join(Types(), ", "))
	}
	return kind(program{cfg}), nil
}

// A program has what all agents have in common.
type program struct{ cfg Config }

// buildArgv returns the command line: the program, its configured arguments, those of its
// type, and the prompt last. A prompt that begins with a dash follows "--".
func (p program) buildArgv(command, prompt string, args ...string) []string {
	all := slices.Concat([]string{p.commandName(command)}, p.cfg.CommandArgs, args)
	if strings.HasPrefix(prompt, "-") {
		all = append(all, "--")
	}
	return append(all, prompt)
}

func (p program) commandName(def string) string {
	if p.cfg.Command != "" {
		return p.cfg.Command
	}
	return def
}

// envOver returns the configured environment, overridden by own.
func (p program) envOver(own map[string]string) map[string]string {
	return mergeEnv(p.cfg.Env, own)
}

// envUnder returns def, overridden by the configured environment.
func (p program) envUnder(def map[string]string) map[string]string {
	return mergeEnv(def, p.cfg.Env)
}

// mergeEnv merges two sets of variables; those of over win.
func mergeEnv(under, over map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, under)
	maps.Copy(all, over)
	return all
}

// modelHosts returns the hosts of the model: that of the base URL in the environment,
// else def.
func (p program) modelHosts(base string, def ...string) []string {
	u, err := url.Parse(p.cfg.Env[base])
	if err != nil || u.Host == "" {
		return def
	}
	return []string{u.Host}
}
