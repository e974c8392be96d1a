// Package cmdpolicy judges commands before anything is spawned. It needs no
// privileges and no kernel feature, so any provider can use it, whatever its
// commands run in: the host, a container, another machine.
//
// A [Guard] takes a driver.Command and returns the command to run, its
// environment filtered, or a [Refusal], whose texts are constants of this
// package. [Guard.Module] puts it in front of a whole Shell module. What is
// judged is a choice; [Local], [Strict] and [Sandbox] are three that make sense:
//
//	opts := cmdpolicy.Local()
//	opts.Root, opts.Boundary = dir, root
//	g, err := cmdpolicy.New(opts)
//	ws.Shell = g.Module(ws.Shell)
//
// # What it looks at
//
// Programs are looked for where a shell would find one: the first word of a
// command, through paths (/usr/bin/sudo), assignments, lists, pipes, loops,
// functions, substitutions, programs that run another (env, nohup, timeout,
// xargs, find -exec, busybox, ...) and scripts within scripts (sh -c, eval, trap).
// A word that is only an argument is never taken for a program: "grep -rn mount
// ." and "echo su" pass. Scripts are parsed as bash, not searched.
//
// Arguments that can be paths, targets of redirections and the working directory
// are resolved below the boundary, symlink by symlink; what does not exist is
// judged by its nearest existing parent. Nothing outside the workspace is looked
// at, so a refusal never tells whether something exists there.
//
// # What it can't stop
//
// A guard reads what is asked for; it does not see what runs. It does not stop
//
//   - a name that is known only while a script runs: x=sudo; $x id, or cat "$f"
//   - code that is not a shell script on the command line: a script on disk or on
//     standard input, python -c, awk, make, a binary
//   - a program that runs another by an option that the table of wrappers lacks
//   - what changes between the check and the use of a path
//   - a relative path in a script after a cd that can't be followed: cd "$d"
//   - what a variable does that a script sets itself: PATH=. git
//
// Where that matters the kernel must be the fence: package provider/sandbox on
// Linux, and on macOS [Seatbelt], which is applied after the guard, right before the
// spawn.
package cmdpolicy
