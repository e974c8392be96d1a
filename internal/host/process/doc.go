// Package process runs the commands and sessions of one workspace as child processes, kills
// their whole process trees, and keeps their output.
//
// A [Manager] is the complete Shell module of a provider whose processes are children of
// the same program: the guest inside a sandbox, or Croft itself for a provider without one.
// The package imports little, because the guest is small.
//
// # What is promised
//
// An error of Start or Run means that no process was started. Once a process was started
// there is always a result: also after a non-zero exit, a time-out, a kill or a loss, with
// the output until then and the exit cause. A cause is only given to a command that it
// really ended: a command that exits by itself just before its time-out has no cause.
//
// # Process trees
//
// Every command leads a session (setsid) and a process tree of its own. The tree ends with
// its leader, in the foreground and as a session, detached or not: when the leader has
// exited, descendants that still have its output open get WaitDelay to finish writing, and
// then the rest of the tree is killed. A process that must go on is started as a session of
// its own. Time-out, Kill, Close and the end of a context kill the tree in the same way,
// also processes that forked, daemonised or moved to other process groups. A [Tree]
// implements this: on Linux a scan of /proc, which finds descendants by parent, session,
// process group and the variable CROFT_SESSION in their environment, stops them (SIGSTOP)
// until no new one appears, and kills them through pidfds, so that a reused pid is never
// hit. The scan does not find a process that left its parents by a double fork, its session
// by setsid and its environment at once. A [Manager] that is the subreaper of its
// descendants kills those, too, when no other command runs.
//
// # Output
//
// The output of a command is kept in bounded memory: the first and the last half of
// MaxOutput, and the number of bytes between them. The log of a session has all of the
// output, up to MaxLog. A foreground command gets a log only if its result can't hold
// everything; a command that writes little needs no file, and is forgotten when Run
// returns. A command with a log is remembered for Options.Retain after its end, also by the
// next Manager of the same LogDir: a command that was running when its Manager died is
// listed with the cause lost, and its remaining processes are killed.
//
// # Cost
//
// A running command has a goroutine for each of its outputs, one that waits for its end in
// waitid(2), and, for a session, one that stores the result. At its end a scan reads
// /proc/PID/stat of every process of the host, unless this process is a subreaper and the
// list of its children shows that no descendant is left.
package process
