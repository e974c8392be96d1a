// Package cgroup limits, freezes and kills the workload of a supervisor with Linux cgroups
// of version 1 and 2.
//
// It sets limits of memory, processes and CPU, uses the cgroup freezer, reads counters of a
// cgroup, and removes stale cgroups.
//
// A controller is available in version 2 or in version 1 of cgroups on a host, or in
// neither. Package cgroupv1 implements version 1. This process must be able to create
// cgroups below its own cgroup, or beside it.
//
// # Version 1
//
// A workload has one cgroup for each controller, below the cgroup of this process. The
// supervisor stays outside: its thread that starts the workload joins the cgroups, through
// a descriptor that this process opened.
//
// # Version 2
//
// There is one hierarchy for all controllers. A cgroup with child cgroups has no processes,
// and all threads of a process are in one cgroup. So there are these cgroups:
//
//	croft-NAME        limits what both may use together
//	croft-NAME/guest  the supervisor, which is started there
//	croft-NAME/work   the workload, with the limits
//
// The processes of the workload are in its child cgroup main, but for commands with limits
// of their own: each of those has a cgroup beside main (command-NAME). In version 1 it is
// below that of the workload, and the thread that starts the command joins it meanwhile.
//
// A child of the supervisor starts in the supervisor's cgroup, and the supervisor moves it
// at once, with the processes it has started meanwhile. Until then the limits of croft-NAME
// apply. Writing to cgroup.kill kills every process in the cgroup.
package cgroup
