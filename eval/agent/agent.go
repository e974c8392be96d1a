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

// A Config says which program a runner is.
type Config struct {
	Type        string            // one of Types
	Model       string            // as the program names it
	Command     string            // the program; "" is the type's own
	CommandArgs []string          // before all other arguments
	Env         map[string]string // over the environment
	UserHome    string            // of the user, whose settings some programs have; "" is none

	execArgs []string // arguments of Redirect, behind the word for what the program is to do
}

// An Input is one session to be run.
type Input struct {
	Runner    session.Runner
	Prompt    string
	Dir       string        // where the agent works; absolute
	Artifacts string        // where its logs, its session and its home go; absolute, the same inside and outside
	Runtime   string        // where its home is, if not below Artifacts: that of the session that is resumed
	UserHome  string        // from where credentials and settings are copied; "" copies none
	Resume    string        // the session to go on with; "" is a new one
	Timeout   time.Duration // 0 is none
	MaxSteps  int           // rounds with the model; 0 is any number
	Sandboxed bool          // a fence is around the agent: its own may be off
	Tools     string        // URL of an MCP server that the agent is to use, beside what it has; "" is none
	MaxOutput int64         // bytes of each log; 0 is DefaultMaxOutput
}

// DefaultMaxOutput is how much of what an agent writes is kept.
const DefaultMaxOutput = 64 << 20

// homeDir returns where the agent's own files are.
func (in Input) homeDir() string {
	if in.Runtime != "" {
		return in.Runtime
	}
	return in.Artifacts
}

// An Agent knows one kind of program. It holds no state of any session.
type Agent interface {
	// Type is the word that configurations use.
	Type() string

	// Prepare makes what the program needs below in's directories and says how
	// to start it.
	Prepare(ctx context.Context, in Input) (Invocation, error)

	// Steps returns a counter of rounds with the model. It is given each line
	// that the program writes to its standard output and returns their number
	// so far.
	Steps() func(line []byte) int

	// Rejected reports whether the program ended because its model is not to be
	// had. Only what the program itself says counts, not what it quotes. It may
	// ask the program for its models, but never the model.
	Rejected(ctx context.Context, r Runner, in Input, out Output) bool

	// Collect finds what the program left behind. It may run the program again.
	Collect(ctx context.Context, r Runner, in Input, out Output) (Raw, error)

	// Normalize makes the report.
	Normalize(in Input, raw Raw) (*session.Report, error)
}

// A Runner runs a program to its end, in a workspace or plainly.
//
// A program that ends with a status other than 0, by a signal, by the timeout or
// because ctx ended is an Exit. An error is a program that did not start: NotFound
// where there is no such program.
type Runner interface {
	Run(ctx context.Context, inv Invocation) (Exit, error)
}

// An Invocation is a program to be run.
type Invocation struct {
	Argv    []string
	Env     map[string]string // over the environment that the Runner has
	Dir     string
	Timeout time.Duration // ends the whole tree; 0 is none
	Stdin   io.Reader     // nil is empty
	Stdout  io.Writer     // never nil for a Runner
	Stderr  io.Writer     // never nil for a Runner
	Hosts   []string      // what the program must reach to do its work, as "host" or "host:port"

	// Converse, where set, speaks with the program over its standard input and
	// output while it runs. Run calls it, not a Runner. The program's input ends
	// when it returns.
	Converse func(ctx context.Context, stdin io.Writer, stdout io.Reader) error
}

// String returns the command as people write it.
func (inv Invocation) String() string { return strings.Join(inv.Argv, " ") }

// An Exit says how a program ended.
type Exit struct {
	Code       int
	Signal     string       // that ended it: "SIGKILL"
	Cause      driver.Cause // why it ended other than by itself
	Duration   time.Duration
	PeakMemory int64 // bytes, of the program and all that it started; 0 is not known
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

	log fs.FileInfo // the file at StdoutPath, which has Stdout; nil is not known
}

// Raw is what was collected of a session.
type Raw struct {
	Output
	SessionID     string
	SessionPath   string
	ExportPath    string
	TelemetryPath string
	Session       []byte // the text that is normalised
	Telemetry     []byte
}

// constructors are the kinds of agents, as configurations name them.
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

// A program is what all agents have in common.
type program struct{ cfg Config }

// buildArgv returns the command line: the program, its own arguments, those of its
// kind, and the prompt last. A prompt that looks like an option is set off.
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

// envOver returns the environment: the configuration's, and own over it.
func (p program) envOver(own map[string]string) map[string]string {
	return mergeEnv(p.cfg.Env, own)
}

// envUnder returns the environment: def, and the configuration's over it.
func (p program) envUnder(def map[string]string) map[string]string {
	return mergeEnv(def, p.cfg.Env)
}

// mergeEnv returns some variables with others over them.
func mergeEnv(under, over map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, under)
	maps.Copy(all, over)
	return all
}

// modelHosts returns what the program must reach: where the environment says that the
// model is, else the provider's own host.
func (p program) modelHosts(base string, def ...string) []string {
	u, err := url.Parse(p.cfg.Env[base])
	if err != nil || u.Host == "" {
		return def
	}
	return []string{u.Host}
}
