package cmdpolicy

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
)

// Options are the rules of a Checker. The zero value refuses only empty commands and NUL;
// start from [Local], [Strict] or [Sandbox].
type Options struct {
	// Root is the absolute path of the workspace as commands see it, and Files gives
	// access to it. Both are required if Paths.Check is set.
	Root  string
	Files *files.Root

	Commands Commands
	Argv     Argv
	Paths    Paths
	Env      Env
	Limits   Limits

	// Control refuses control characters other than tab, newline and carriage return. NUL
	// is always refused, because execve can't pass it.
	Control bool
}

// Commands are the rules for programs. A pattern is a name in which *, ? and [...] have
// their usual meaning.
type Commands struct {
	// Allow, if not empty, names the only programs that may run,
	// including programs that run other programs. A pattern without a slash stands for
	// the program of that name in PATH, one with a slash for that path alone;
	// names that are known only at run time are refused. Functions that a script
	// declares and builtins that run nothing need not be listed.
	Allow []string

	// Deny names programs that may not run, in any directory: a pattern is compared
	// with the last element of the program's path, in lower case and without
	// ".exe".
	Deny []string

	// Unparsed allows scripts that are not valid bash; the part that can't be parsed is not
	// checked. Otherwise such scripts are refused, because a shell runs the commands before
	// a syntax error.
	Unparsed bool
}

// Argv are the rules for arguments of commands that are not scripts.
type Argv struct {
	Only           bool // scripts are refused
	Metacharacters bool // arguments with a shell's metacharacters are refused
	Globs          bool // arguments with *, ? or [ are refused
}

// Paths are the rules for paths.
type Paths struct {
	// Check checks arguments, redirections and the directory against Root.
	Check bool

	// Allow are paths outside the workspace that may be named; one that ends in a slash
	// stands for everything below it.
	Allow []string

	// Home is the HOME of commands that do not set it: ~ and $HOME are checked as this
	// path. "" counts as outside.
	Home string

	// Programs are directories outside the workspace from which a program may be named by
	// its path. A bare name is looked up in PATH and needs no entry.
	Programs []string
}

// Env are the rules for variables of a command. A pattern is a name in which * has its
// usual meaning; case is ignored. Variables that the workspace gives every command are not
// checked.
type Env struct {
	Allow  []string // the only names that are allowed; empty is all
	Deny   []string // names that are refused, whatever Allow says
	Except []string // names that Deny does not concern

	Fixed map[string][]string // the only values of these names that are allowed; a clean environment must have them
}

// Limits are limits in bytes; 0 is unlimited. A script longer than MaxScript is always
// refused.
type Limits struct {
	Argv   int // all arguments together
	Env    int // all variables of a command together
	Script int
}

// MaxScript is the largest argument that Linux passes to a program.
const MaxScript = 128<<10 - 1

// DefaultDeny returns the programs that every preset refuses.
func DefaultDeny() []string {
	return []string{"sudo", "su", "shutdown", "reboot", "halt", "poweroff", "chroot", "mount", "umount", "mkfs", "mkfs.*"}
}

// systemDirs are directories of PATH: a program may be named by a path in them.
var systemDirs = []string{"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/homebrew/bin"}

// devices are harmless devices that scripts commonly use.
var devices = []string{
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty",
	"/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd/",
}

// Local returns the rules for commands that run on the host without isolation. The caller
// sets Root and Files.
func Local() *Options {
	return &Options{
		Commands: Commands{Deny: append(DefaultDeny(), "dd")},
		Paths:    Paths{Check: true, Allow: slices.Clone(devices), Programs: slices.Clone(systemDirs)},
		Env:      Env{Deny: DefaultEnvDeny()},
		Limits:   Limits{Argv: 1 << 20, Env: 256 << 10, Script: MaxScript},
		Control:  true,
	}
}

// Strict returns the rules of Local for callers that need no shell: programs by bare name
// or from the workspace, with plain arguments. The caller sets Root and Files.
func Strict() *Options {
	o := Local()
	o.Argv = Argv{Only: true, Metacharacters: true, Globs: true}
	o.Paths.Programs = nil
	return o
}

// Sandbox returns the rules for commands that the kernel isolates: only the deny list,
// which tells an agent early what can't work.
func Sandbox() *Options {
	return &Options{Commands: Commands{Deny: DefaultDeny(), Unparsed: true}}
}

func (o *Options) validate() error {
	if o.Paths.Check && (o.Files == nil || !filepath.IsAbs(o.Root)) {
		return fmt.Errorf("cmdpolicy: new: %w: Paths.Check needs Files and an absolute Root, not %q", fault.InvalidArgument, o.Root)
	}
	for _, list := range [][]string{o.Commands.Allow, o.Commands.Deny, o.Env.Allow, o.Env.Deny, o.Env.Except} {
		for _, pattern := range list {
			if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
				return fmt.Errorf("cmdpolicy: new: %w: pattern %q; a pattern is a name with *, ? or [...]", fault.InvalidArgument, pattern)
			}
		}
	}
	for _, name := range slices.Concat(o.Paths.Allow, o.Paths.Programs, []string{o.Paths.Home}) {
		if name != "" && !strings.HasPrefix(name, "/") {
			return fmt.Errorf("cmdpolicy: new: %w: path %q is not absolute", fault.InvalidArgument, name)
		}
	}
	for name, n := range map[string]int{
		"Limits.Argv": o.Limits.Argv, "Limits.Env": o.Limits.Env, "Limits.Script": o.Limits.Script,
	} {
		if n < 0 {
			return fmt.Errorf("cmdpolicy: new: %w: %s %d must not be negative", fault.InvalidArgument, name, n)
		}
	}
	return nil
}
