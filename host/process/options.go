package process

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// DefaultPath is where programs are looked for unless a policy says otherwise:
// the directories of the system, and where Go's own installer puts it.
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

	maxMaxOutput = 64 << 20 // what a result holds of a stream, whatever was asked for
)

// Options say how a Manager runs commands. Only Root is required.
type Options struct {
	// Root is the directory that is "." for commands, as this process sees it.
	Root string

	// LogDir keeps logs and what must outlive this process. It belongs to one
	// Manager at a time and must not be writable for commands. "" keeps output
	// in memory alone, and forgets all at the end of the process.
	LogDir string

	MaxLog  int64 // of a stream's log, in bytes; 0 is DefaultMaxLog
	MaxLogs int64 // of all logs together; 0 is DefaultMaxLogs

	// BaseEnv is where commands get the variables from that are on the allowlist
	// (PATH HOME USER LANG LC_* TERM TMPDIR TZ) or in AllowEnv; nil is the
	// environment of this process. No other variable of it is passed on.
	BaseEnv []string

	AllowEnv []string          // more names for the allowlist; one that ends in * is a prefix
	Env      map[string]string // for every command, over BaseEnv

	// Retain is how long a session is remembered after its end; 0 is an hour,
	// which is also the least.
	Retain time.Duration

	MaxSessions int // running and remembered; 0 is DefaultMaxSessions
	MaxProcs    int // commands that run at a time; 0 is DefaultMaxProcs

	Timeout   time.Duration // of a command that sets none; 0 is none
	WaitDelay time.Duration // for output after the leader's end; 0 is DefaultWaitDelay

	// Tree is how a tree is ended; nil is Walk on Linux and Group elsewhere.
	Tree Tree

	// Subreaper says that this process exists for the commands of this Manager
	// alone: it becomes the subreaper of its descendants (process 1 of a
	// namespace is one anyway), reaps orphans and kills those that belong to
	// no running command. A child that was started elsewhere in this process is
	// left alone as long as it stays in the session of this process.
	Subreaper bool

	// Starter starts the children; nil forks from whatever thread there is.
	Starter Starter

	// Wrapper rewrites what is run, after everything else was decided.
	Wrapper Wrapper

	// Cause is asked why a command ended that was not ended from here and did
	// not exit with 0: it may know of an OOM kill, or that processes or disk ran
	// out. "" says that it does not.
	Cause func(End) driver.Cause
}

// A Wrapper rewrites what is run, such as into a call of sandbox-exec.
type Wrapper interface {
	Wrap(program string, args []string, cwd string) (newProgram string, newArgs []string, err error)
}

// An End is what Options.Cause is told.
type End struct {
	ID       string
	PID      int
	ExitCode int
	Signal   string // "" where it exited by itself
}

func (o *Options) normalize() error {
	if !filepath.IsAbs(o.Root) {
		return fmt.Errorf("process: root %q: %w: must be an absolute path", o.Root, fault.InvalidArgument)
	}
	if info, err := os.Stat(o.Root); err != nil {
		return fmt.Errorf("process: root: %w: %w", codeOf(err), err)
	} else if !info.IsDir() {
		return fmt.Errorf("process: root %s: %w: not a directory", o.Root, fault.InvalidArgument)
	}
	if o.Retain != 0 && o.Retain < DefaultRetain {
		return fmt.Errorf("process: retain %v: %w: the least is %v", o.Retain, fault.InvalidArgument, DefaultRetain)
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
