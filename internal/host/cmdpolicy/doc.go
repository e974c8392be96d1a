// Package cmdpolicy checks commands against a command policy before they are spawned:
// programs, arguments, paths and variables.
//
// It needs no privileges and no kernel feature, so any provider can use it, for commands on
// the host, in a container or on another machine.
//
// A [Checker] takes a driver.Command and returns the command to run, with its environment
// filtered, or a [Refusal], whose texts are constants of this package. [Checker.Module]
// puts the check in front of a whole Shell module. The rules are [Options]; [Local],
// [Strict] and [Sandbox] are presets:
//
//	opts := cmdpolicy.Local()
//	opts.Root, opts.Files = dir, root
//	c, err := cmdpolicy.New(opts)
//	ws.Shell = c.Module(ws.Shell)
//
// # What is checked
//
// Programs are found where a shell would find them: the first word of a command, through
// paths (/usr/bin/sudo), assignments, lists, pipes, loops, functions, substitutions,
// programs that run another program (env, nohup, timeout, xargs, find -exec, busybox, ...)
// and scripts within scripts (sh -c, eval, trap). A word that is only an argument is never
// taken for a program: "grep -rn mount ." and "echo su" pass. Scripts are parsed as bash,
// not searched as text.
//
// Arguments that can be paths, targets of redirections and the working directory are
// resolved below the workspace, symlink by symlink; a path that does not exist is resolved
// up to its nearest existing parent. No file outside the workspace is accessed, so a
// refusal never reveals whether a file exists there.
//
// # What is not prevented
//
// The check reads the command; it does not see what runs. It does not prevent
//
//   - a name that is known only while a script runs: x=sudo; $x id, or cat "$f"
//   - code that is not a shell script on the command line: a script on disk or on
//     standard input, python -c, awk, make, a binary
//   - a program that runs another one by an option that the table of wrappers lacks
//   - a change between the check and the use of a path (TOCTOU)
//   - a relative path in a script after a cd that can't be followed: cd "$d"
//   - the effect of a variable that a script sets itself: PATH=. git
//
// If that matters, the kernel must isolate the command: package provider/sandbox on Linux,
// and on macOS [Seatbelt], which is applied after the check, right before the spawn.
package cmdpolicy
