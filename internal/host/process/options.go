package process

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// DefaultPath is the PATH of commands unless a policy sets another: the directories of the
// system, and that of Go's installer.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin"

// Defaults of Options and of commands.
const (
	DefaultMaxLog      = 64 << 20
	DefaultMaxLogs     = 1 << 30
	DefaultMaxOutput   = 1 << 20
	DefaultRetain      = time.Hour
	DefaultMaxSessions = 4096
	DefaultMaxProcs    = 512
	DefaultWaitDelay   = 250 * time.Millisecond

	maxMaxOutput = 64 << 20 // upper bound of MaxOutput
)

// Options configure a Manager. Only Root is required.
type Options struct {
	// Root is the working directory of commands, as a path of this process.
	Root string

	// LogDir has the logs and the journal of sessions. It belongs to one Manager at a time
	// and must not be writable for commands. "" keeps output in memory only, and forgets
	// all sessions at the end of the process.
	LogDir string

	MaxLog  int64 // of a stream's log, in bytes; 0 is DefaultMaxLog
	MaxLogs int64 // of all logs together; 0 is DefaultMaxLogs

	// BaseEnv is the source of the variables on the allowlist (PATH HOME USER LANG LC_*
	// TERM TMPDIR TZ) or in AllowEnv; nil is the environment of this process. No other
	// variable of it is passed on.
	BaseEnv []string

	AllowEnv []string          // more names for the allowlist; one that ends in * is a prefix
	Env      map[string]string // for every command, over BaseEnv

	// Retain is how long a session is remembered after its end; 0 is an hour, which is also
	// the minimum.
	Retain time.Duration

	MaxSessions int // running and remembered; 0 is DefaultMaxSessions
	MaxProcs    int // commands that run at a time; 0 is DefaultMaxProcs

	Timeout   time.Duration // of commands without a time-out; 0 is unlimited
	WaitDelay time.Duration // for output after the leader's end; 0 is DefaultWaitDelay

	// Tree kills process trees; nil is Walk on Linux and Group elsewhere.
	Tree Tree

	// Subreaper says that this process exists for the commands of this Manager only: it
	// becomes the subreaper of its descendants (pid 1 of a namespace is one anyway), reaps
	// orphans and kills those that belong to no running command. Children that other parts
	// of this process started are left alone while they stay in the session of this
	// process.
	Subreaper bool

	// Starter starts the children; nil forks from the calling thread.
	Starter Starter

	// Wrapper rewrites the program and its arguments, as the last step.
	Wrapper Wrapper

	// Cause returns the exit cause of a command that was not killed by the Manager and did
	// not exit with 0, such as an OOM kill or a lack of pids or disk space. "" is unknown.
	Cause func(End) driver.Cause
}

// A Wrapper rewrites a program and its arguments, such as into a call of sandbox-exec.
type Wrapper interface {
	Wrap(program string, args []string, cwd string) (newProgram string, newArgs []string, err error)
}

// An End describes the end of a command for Options.Cause.
type End struct {
	ID       string
	PID      int
	ExitCode int
	Signal   string // "" if it was not killed by a signal
}

func (o *Options) normalize() error {
	if !filepath.IsAbs(o.Root) {
		return fmt.Errorf("process: root %q: %w: must be an absolute path", o.Root, fault.InvalidArgument)
	}
	if info, err := os.Stat(o.Root); err != nil {
		return fmt.Errorf("process: root: %w: %w", errorCode(err), err)
	} else if !info.IsDir() {
		return fmt.Errorf("process: root %s: %w: not a directory", o.Root, fault.InvalidArgument)
	}
	if o.Retain != 0 && o.Retain < DefaultRetain {
		return fmt.Errorf("process: retain %v: %w: the minimum is %v", o.Retain, fault.InvalidArgument, DefaultRetain)
	}
	for name, n := range map[string]int64{
		"MaxLog": o.MaxLog, "MaxLogs": o.MaxLogs, "MaxSessions": int64(o.MaxSessions), "MaxProcs": int64(o.MaxProcs),
		"Timeout": int64(o.Timeout), "WaitDelay": int64(o.WaitDelay),
	} {
		if n < 0 {
			return fmt.Errorf("process: %s %d: %w: must not be negative", name, n, fault.InvalidArgument)
		}
	}
	orDefault(&o.MaxLog, DefaultMaxLog)
	orDefault(&o.MaxLogs, DefaultMaxLogs)
	orDefault(&o.Retain, DefaultRetain)
	orDefault(&o.MaxSessions, DefaultMaxSessions)
	orDefault(&o.MaxProcs, DefaultMaxProcs)
	orDefault(&o.WaitDelay, DefaultWaitDelay)
	if o.BaseEnv == nil {
		o.BaseEnv = os.Environ()
	}
	return nil
}

func orDefault[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}
