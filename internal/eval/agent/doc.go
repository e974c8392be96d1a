// Package agent runs unmodified coding agents and reports what they did.
//
// An [Agent] knows one kind of program: Claude Code, Codex, opencode, Gemini CLI,
// Cursor's agent, Copilot, any program that speaks the Agent Client Protocol, and
// any program at all that writes Croft's own lines (docs/eval-runners.md). It knows
// how such a program is started unattended, with a home of its own, so that
// one session can't see another's and the user's settings stay untouched; how to
// count its rounds with the model while it runs; what it says when a model is
// refused; where it leaves its session; and how all of that reads as a
// [session.Report].
//
// An Agent does not start processes. A [Runner] does, in a workspace or on the host.
// [Run] uses both: it prepares,
// runs, watches, keeps the logs, collects and normalises, and answers with an
// [Outcome] that either has a report, or a [Failure] and as much of a report as
// could be read. With Input.Resume it resumes an earlier session, which is how an
// agent is asked why it did what it did.
//
// Names of files, arguments, messages and the shape of reports are skillgym's
// where it has them.
package agent
