// Package agent runs coding agents as they are and tells what they did.
//
// An [Agent] knows one kind of program: Claude Code, Codex, opencode, Gemini CLI,
// Cursor's agent, Copilot, any program that speaks the Agent Client Protocol, and
// any program at all that writes Croft's own lines (docs/eval-command.md). It knows
// how such a program is started without a person, with a home of its own, so that
// one session can't see another's and the user's settings stay untouched; how to
// count its rounds with the model while it runs; what it says when a model is
// refused; where it leaves its session; and how all of that reads as a
// [session.Report].
//
// What it does not do is start processes: that is a [Runner], which a program that
// evaluates puts inside a workspace. [Run] brings both together: it prepares,
// runs, watches, keeps the logs, collects and normalises, and answers with an
// [Outcome] that either has a report, or a [Failure] and as much of a report as
// there was. With Input.Resume it goes on with an earlier session, which is how an
// agent is asked why it did what it did.
//
// Names of files, arguments, messages and the shape of reports are skillgym's
// where it has them.
package agent
