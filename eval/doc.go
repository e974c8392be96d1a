// Package eval runs agents on cases and reports the results: cases x runners, each
// execution in a workspace of its own.
//
// A suite (package suite) lists cases: a prompt, and what must hold afterwards. A
// configuration lists runners: an agent and a model. [Run] plans an execution of each
// case on each runner (plan.go), and for each execution
//
//	prepares a workspace     template, bootstrap command        environments.go, env*.go
//	runs the agent in it     package agent, in that workspace
//	compares the workspace   files, requests, commands          changes.go
//	asserts                  package suite
//	keeps or removes it      the workspace of a failed session stays, as a directory
//
// in the order that a schedule gives (schedule.go), as often as repeat and
// repeat-failure say (execute.go), and writes it all down as it goes: artifacts of
// each session, a journal with a line per execution (journal.go), and at the end
// results.json. An interrupted run resumes from its journal.
//
// Each part of a run is a type with one job: plan (what is run), runResults (the results,
// in memory and in the journal), environments and prefetch (where executions work),
// sessionRunner (one session), tapes (recorded traffic with models), and notifier (events
// for reporters).
//
// Words, files, environment, failure classes and their messages are skillgym's,
// whose suites run as they are.
//
// Where an execution works is an [Env]: a sandbox whose template is the lower directory
// of an overlayfs, so that a fresh workspace costs a millisecond and no copy, or the
// plain host. Nothing that an agent starts outlives its session in either.
//
// [Compare] compares two runs and says which differences are significant.
// Reporters show a run while it goes on and at its end.
package eval
