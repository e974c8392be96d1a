// Package process runs the processes of one workspace: commands in the
// foreground, sessions that are polled, written to and waited for, on pipes or
// on a terminal.
//
// A [Manager] is the whole Shell module of a provider whose processes are
// children of the program that holds it: the guest inside a sandbox, or Croft
// itself for a provider without one. It imports little, because the guest is
// small.
//
// # What is promised
//
// An error of Start or Run means that nothing was started. Once something was
// started there is a result, always: a non-zero exit is one, and so is a
// time-out, a kill and a loss, with what was written until then and the cause.
// A cause is only given to a command that it really ended: one that exits by
// itself just before its time-out has none.
//
// # Trees
//
// Every command leads a session (setsid) and a tree of its own. The tree ends
// with its leader, in the foreground and as a session, detached or not: when the
// leader has exited, descendants that still hold its output get WaitDelay to
// finish what they write, and then all that is left is killed. What must go on
// is started as a session of its own. Time-out, Kill, Close and the end of a
// context end the tree in the same way, whatever it has forked, daemonised or
// moved to other process groups. How that is done is a [Tree]: on Linux a walk
// over /proc, which finds descendants by their parents, session, group and the variable CROFT_SESSION in their environment,
// freezes them until no new one appears, and kills them through descriptors, so
// that a number that was used again is never hit. What the walk can't find is a
// process that at once left its parents by a double fork, its session by setsid
// and its environment; a [Manager] that is the subreaper of its descendants
// kills those too, when no other command runs.
//
// # Output
//
// What a command writes goes through bounded memory: the first and the last half
// of MaxOutput are kept, so that a result says how it began and how it ended and
// how many bytes lie between. The log of a session has all of it, up to MaxLog. A
// foreground command gets a log only when its result can't hold everything; a
// command that writes little costs no file at all, and is forgotten when Run
// returns. What has a log is remembered for Options.Retain after its end, also by
// the next Manager over the same LogDir: a command that its Manager did not
// survive is listed with the cause lost, and what still runs of it is killed.
//
// # Cost
//
// While a command runs it has a goroutine for each of its outputs, one that waits
// for its end in waitid(2), and, for a session, one that leaves the result. At its
// end a walk reads /proc/PID/stat of every process of the host, unless this process
// is a subreaper and the list of its children shows that nothing is left.
package process
