// Package cgroup makes control groups that limit, freeze and end a workload which a
// supervisor starts: limits of memory, processes and CPU, the freezer, counters of
// what happened in a group, and the removal of groups that no process uses.
//
// A controller is in version 2 or in version 1 of cgroups on a host, or in neither.
// What there is is used: version 1, where each controller has a hierarchy of its
// own, is in package cgroupv1. This process must be able to make groups below its
// own group, or beside it.
//
// # Version 1
//
// A workload has one group for each controller, below the group of this process.
// The supervisor stays outside: its thread that starts the workload joins, through a
// descriptor that this process opened.
//
// # Version 2
//
// There is one hierarchy for all controllers, in which a group with groups below it
// holds no processes, and all threads of a process are in one group. So there are
// three groups:
//
//	croft-NAME        limits what both may use together
//	croft-NAME/guest  the supervisor, which is born there
//	croft-NAME/work   the workload, with the limits
//
// A child is born where the supervisor is, and moved by it at once, with what it has
// started meanwhile; what it can use before that is limited by the group of both.
// The end of the group, by cgroup.kill, is the end of every process in it.
package cgroup
