package driver

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"
)

// Shell is the module for processes.
type Shell struct {
	Starter

	// Run is Start and Wait in one, for commands in the foreground. If it is nil,
	// package workspace calls Start and Wait.
	Run func(ctx context.Context, cmd Command) (Result, error)

	// Sessions lists the sessions of the workspace, also those that ended and were
	// not closed.
	Sessions func(ctx context.Context) ([]SessionInfo, error)

	// Attach returns a session by its id, also a session that another process
	// started. An unknown id is NotFound.
	Attach func(ctx context.Context, id string) (*Session, error)

	// Dial connects to a TCP port on which a process of the workspace listens on its
	// loopback (127.0.0.1 or ::1). Where the loopback is shared with the host, ports of
	// other processes are refused. A port outside 1 to 65535 is InvalidArgument, one on
	// which no process of the workspace listens is Unavailable with the cause
	// fault.CauseRefused.
	//
	// The connection has a method CloseWrite() error, which ends one direction. It
	// outlives ctx, and fails when the workspace is closed, destroyed or evicted. A
	// connection that breaks is an error of Read, never io.EOF.
	Dial func(ctx context.Context, port int) (net.Conn, error)
}

func (s *Shell) core() any {
	if s == nil {
		return nil
	}
	return s.Starter
}

// A Starter starts commands.
type Starter interface {
	// Start starts cmd as a session. An error, such as a program that is not found,
	// means that nothing was started.
	Start(ctx context.Context, cmd Command) (*Session, error)
}

// A Command says what to run. Exactly one of Argv and Script is set.
type Command struct {
	Argv   []string          // a program and its arguments, never through a shell
	Script string            // run by bash -c
	Dir    string            // a name; "" is the workspace
	Env    map[string]string // overrides the workspace's environment
	Clean  bool              // only Env, without the workspace's environment
	Stdin  io.Reader         // nil is empty; with Interactive it must be nil
	TTY    *Size             // run on a terminal of this size

	// Interactive keeps standard input open for Session.Write.
	Interactive bool

	Timeout time.Duration // ends the whole process tree; 0 is the limit of the workspace, if any
	Grace   time.Duration // time between SIGTERM and SIGKILL at the time-out; 0 is none
	Limits  Limits        // within the limits of the workspace

	// MaxOutput bounds each stream in the result; 0 is 1 MiB. The log has the whole
	// output.
	MaxOutput int64

	// OnStdout and OnStderr are called with output as it arrives, one call at a time
	// per stream; the process waits while they run. Their errors never change how the
	// command ends: they are in Result.CallbackErrors. Data belongs to the driver
	// after the call.
	OnStdout func(data []byte) error
	OnStderr func(data []byte) error

	// Detached lets the session outlive the context of Start and this process.
	Detached bool

	Labels map[string]string
}

// Size is the size of a terminal.
type Size struct {
	Rows int `json:"rows"`
	Cols int `json:"cols"`
}

// A Session is a started command. All of it is safe for concurrent use.
type Session struct {
	Process

	// Log reads the log of a stream from any offset, without moving the cursor
	// of Poll.
	Log func(ctx context.Context, stream Stream, offset, limit int64) (LogChunk, error)

	// Signal sends a signal, by its name such as "SIGINT", to the foreground process
	// group.
	Signal func(ctx context.Context, signal string) error

	// Resize sets the size of the terminal.
	Resize func(ctx context.Context, size Size) error
}

// A Process is the required part of a session.
type Process interface {
	// ID identifies the session within its workspace.
	ID() string

	// Poll returns output that no Poll returned before, at most limit bytes (0 is 64
	// KiB), and whether the command still runs. It does not block.
	Poll(ctx context.Context, limit int64) (Poll, error)

	// Write writes to standard input. It blocks while the pipe is full.
	Write(ctx context.Context, data []byte) error

	// CloseStdin ends standard input; on a terminal it sends end-of-file.
	CloseStdin(ctx context.Context) error

	// Kill ends the whole process tree: SIGTERM, then SIGKILL after grace.
	Kill(ctx context.Context, grace time.Duration) error

	// Wait waits for the end, the last callback included, and returns the result. It
	// can be called repeatedly.
	Wait(ctx context.Context) (Result, error)

	// State returns the state without moving any cursor.
	State(ctx context.Context) (SessionInfo, error)

	// Close removes the session and kills its processes.
	Close(ctx context.Context) error
}

// Stream is one of a command's output streams. A terminal has only Stdout.
type Stream string

// Streams.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// A Poll is what Process.Poll returns.
type Poll struct {
	Stdout  []byte `json:"stdout,omitempty"`
	Stderr  []byte `json:"stderr,omitempty"`
	Dropped int64  `json:"dropped,omitempty"` // bytes that were dropped before they were polled; the log has them
	Running bool   `json:"running"`
}

// A LogChunk is a part of a log.
type LogChunk struct {
	Data   []byte `json:"data"`
	Offset int64  `json:"offset"` // of the first byte of Data
	Next   int64  `json:"next"`   // where the next chunk begins
	Size   int64  `json:"size"`   // of the log now
}

// SessionInfo is the state of a session.
type SessionInfo struct {
	ID      string            `json:"id"`
	Argv    []string          `json:"argv,omitempty"`
	Script  string            `json:"script,omitempty"`
	Dir     string            `json:"dir,omitempty"`
	PID     int               `json:"pid,omitempty"` // as the workspace sees it
	TTY     bool              `json:"tty,omitempty"`
	Started time.Time         `json:"started"`
	Running bool              `json:"running"`
	Result  *Result           `json:"result,omitempty"` // without output, once it ended
	Labels  map[string]string `json:"labels,omitempty"`

	LogDropped int64 `json:"logDropped,omitempty"` // bytes of both streams that the logs lack because the logs reached their size limit
}

// A Result says how a command ended. A non-zero exit is a result, never an error.
type Result struct {
	ExitCode int           `json:"exitCode"`         // 128+n if signal n ended it, -1 if unknown
	Signal   string        `json:"signal,omitempty"` // that ended it: "SIGKILL"
	Cause    Cause         `json:"cause,omitempty"`  // why it ended, unless by itself
	Stdout   []byte        `json:"stdout,omitempty"` // head and tail if there was more than MaxOutput
	Stderr   []byte        `json:"stderr,omitempty"`
	Duration time.Duration `json:"duration"`

	StdoutDropped int64  `json:"stdoutDropped,omitempty"` // bytes that Stdout lacks
	StderrDropped int64  `json:"stderrDropped,omitempty"`
	Session       string `json:"session,omitempty"` // id of the session whose log has the whole output, for Shell.Attach

	CallbackErrors []string `json:"callbackErrors,omitempty"`
	Usage          Usage    `json:"usage,omitzero"`

	// AutorunChanges are autorun files, as paths of the host: files in a directory in
	// place that a program outside the sandbox runs or takes configuration from, such
	// as a new .git. It lists those that were created or changed while this or an
	// earlier command ran. Each is reported once.
	AutorunChanges []string `json:"autorunChanges,omitempty"`

	// AutorunWarnings say which directories in place could not be scanned for autorun
	// files, and why, and how many changes AutorunChanges leaves out. They are repeated
	// as long as they apply.
	AutorunWarnings []string `json:"autorunWarnings,omitempty"`

	// PrivateCommits are repositories, as paths of .git on the host, in whose private
	// copy (see GitDir) commits or other refs changed while this or an earlier command
	// ran. The host's repository does not have them. Each change is reported once.
	PrivateCommits []string `json:"privateCommits,omitempty"`

	// Refused is what the network policy of the workspace refused while the command
	// ran, for all processes of the workspace: each host and reason once.
	Refused []Refusal `json:"refused,omitempty"`
}

// OutputText returns the output of a [Result] as text for a person or a model: where bytes
// were dropped between head and tail, it has a line with their number. more, if not empty,
// says how to read them.
func OutputText(data []byte, dropped int64, more string) string {
	if dropped <= 0 {
		return string(data)
	}
	if more != "" {
		more = "; " + more
	}
	head := len(data) / 2 // head and tail have the same size, but for an odd byte
	return fmt.Sprintf("%s\n... (output truncated, %d bytes elided%s)\n%s", data[:head], dropped, more, data[head:])
}

// A Refusal is a host that the network policy refused.
type Refusal struct {
	Host   string `json:"host"` // with its port
	Reason string `json:"reason"`
}

// Succeeded reports whether the command exited with 0 and no output callback failed.
func (r Result) Succeeded() bool {
	return r.ExitCode == 0 && r.Cause == "" && len(r.CallbackErrors) == 0
}

// Usage is what a command used.
type Usage struct {
	User   time.Duration `json:"user,omitempty"`
	System time.Duration `json:"system,omitempty"`
	MaxRSS int64         `json:"maxRSS,omitempty"` // bytes
}

// Cause is the exit cause: why a command ended other than by itself.
type Cause string

// Exit causes.
const (
	CauseTimeout   Cause = "timeout"   // the time limit
	CauseKilled    Cause = "killed"    // Kill or Close was called
	CauseCanceled  Cause = "canceled"  // the context of Run ended
	CauseOOM       Cause = "oom"       // out of memory
	CausePIDs      Cause = "pids"      // the limit of processes
	CauseDisk      Cause = "disk"      // the limit of disk space
	CauseLost      Cause = "lost"      // the guest or host that ran the command died; the command may have had effects
	CauseDestroyed Cause = "destroyed" // the workspace was destroyed or paused
)
