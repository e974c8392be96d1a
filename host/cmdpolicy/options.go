package cmdpolicy

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/files"
)

// Options say which rules are on. The zero value has none but the refusal of
// empty commands and of NUL; start from [Local], [Strict] or [Sandbox].
type Options struct {
	// Root is the workspace as commands see it, an absolute path, and Boundary
	// the files there. Both are required where Paths.Check is set.
	Root     string
	Boundary *files.Root

	Commands Commands
	Argv     Argv
	Paths    Paths
	Env      Env
	Limits   Limits

	// Control refuses control characters other than tab, newline and carriage
	// return. NUL is always refused: no process can be given one.
	Control bool
}

// Commands are the rules for programs. A pattern is a name, in which * and ? and
// [...] have their usual meaning.
type Commands struct {
	// Allow, where it is not empty, names the only programs that may run,
	// programs that run others included. A pattern without a slash stands for
	// the program of that name in PATH, one with a slash for that path alone;
	// names that are known only at run time are refused. Functions that a script
	// declares and builtins that run nothing need not be listed.
	Allow []string

	// Deny names programs that may not run, wherever they are: a pattern is held
	// against the last element of the program's path, in lower case and without
	// ".exe".
	Deny []string

	// Unparsed lets scripts run that are not valid bash, for their part that is
	// not; else they are refused, because a shell runs what comes before the
	// mistake.
	Unparsed bool
}

// Argv are the rules for arguments of commands that are not scripts.
type Argv struct {
	Only           bool // scripts are refused
	Metacharacters bool // arguments with a shell's metacharacters are refused
	Globs          bool // arguments with *, ? or [ are refused
}

// Paths are the rules for what names a file.
type Paths struct {
	// Check has the boundary judge arguments, redirections and the directory.
	Check bool

	// Allow are paths outside that may be named; one that ends in a slash
	// stands for everything below it.
	Allow []string

	// Home is what HOME is for commands that do not set it themselves: ~ and
	// $HOME are judged as this path. "" is somewhere outside.
	Home string

	// Programs are directories outside from which a program may be named by its
	// path. A bare name is looked up in PATH and needs no entry.
	Programs []string
}

// Env are the rules for variables that come with a command. A pattern is a name
// in which * has its usual meaning; case does not count. What the workspace gives
// every command is not seen here.
type Env struct {
	Allow  []string // the only names that pass; empty is all
	Deny   []string // names that do not pass, whatever Allow says
	Refuse bool     // refuse the command; else the variable is left out
}

// Limits are caps in bytes. 0 is none, but a script beyond MaxScript is never
// judged, and refused.
type Limits struct {
	Argv   int // all arguments together
	Env    int // all variables of a command together
	Script int
}

// MaxScript is what Linux passes in one argument.
const MaxScript = 128<<10 - 1

// DefaultDeny returns the programs that no preset lets run.
func DefaultDeny() []string {
	return []string{"sudo", "su", "shutdown", "reboot", "halt", "poweroff", "chroot", "mount", "umount", "mkfs", "mkfs.*"}
}

// systemDirs are where a path names what its bare name would.
var systemDirs = []string{"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/homebrew/bin"}

// devices are harmless, and part of how scripts are written.
var devices = []string{
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty",
	"/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd/",
}

// Local returns the rules where nothing else stands between a command and the
// host: everything that a shell can live with. Root and Boundary remain to be set.
func Local() *Options {
	return &Options{
		Commands: Commands{Deny: append(DefaultDeny(), "dd")},
		Paths:    Paths{Check: true, Allow: slices.Clone(devices), Programs: slices.Clone(systemDirs)},
		Env:      Env{Deny: DefaultEnvDeny()},
		Limits:   Limits{Argv: 1 << 20, Env: 256 << 10, Script: MaxScript},
		Control:  true,
	}
}

// Strict returns the rules of Local for those who need no shell: programs by
// bare name or from the workspace, with plain arguments and an environment that
// is taken whole or not at all. Root and Boundary remain to be set.
func Strict() *Options {
	o := Local()
	o.Argv = Argv{Only: true, Metacharacters: true, Globs: true}
	o.Paths.Programs = nil
	o.Env.Refuse = true
	return o
}

// Sandbox returns the rules where the kernel is the fence: the deny list, which
// saves an agent from trying what can't work.
func Sandbox() *Options {
	return &Options{Commands: Commands{Deny: DefaultDeny(), Unparsed: true}}
}

func (o *Options) check() error {
	if o.Paths.Check && (o.Boundary == nil || !filepath.IsAbs(o.Root)) {
		return fmt.Errorf("guard: new: %w: Paths.Check needs a Boundary and an absolute Root, not %q", fault.InvalidArgument, o.Root)
	}
	for _, list := range [][]string{o.Commands.Allow, o.Commands.Deny, o.Env.Allow, o.Env.Deny} {
		for _, pattern := range list {
			if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
				return fmt.Errorf("guard: new: %w: pattern %q; a pattern is a name with *, ? or [...]", fault.InvalidArgument, pattern)
			}
		}
	}
	for _, name := range slices.Concat(o.Paths.Allow, o.Paths.Programs, []string{o.Paths.Home}) {
		if name != "" && !strings.HasPrefix(name, "/") {
			return fmt.Errorf("guard: new: %w: path %q is not absolute", fault.InvalidArgument, name)
		}
	}
	for name, n := range map[string]int{
		"Limits.Argv": o.Limits.Argv, "Limits.Env": o.Limits.Env, "Limits.Script": o.Limits.Script,
	} {
		if n < 0 {
			return fmt.Errorf("guard: new: %w: %s %d must not be negative", fault.InvalidArgument, name, n)
		}
	}
	return nil
}
