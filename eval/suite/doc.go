// Package suite loads suites of evaluations and judges sessions by them.
//
// A suite is a list of cases: each has an id, a prompt for an agent, and an
// assertion that looks at what the agent did. It is written for skillgym, in
// TypeScript or JavaScript, and runs here unchanged, or in YAML (*.suite.yaml)
// with the same model. A configuration (skillgym.config.* or croft.eval.yaml)
// says with which runners, and how. This package reads both:
//
//	cfg, err := suite.LoadConfig(ctx, "evals/skills.ts", "")
//	s, err := suite.Load(ctx, "evals/skills.ts", cfg)
//	defer s.Close()
//	outcome, err := s.Assert(ctx, "find-skills", report, env)
//
// It starts no agent and prepares no workspace. The caller does, and passes the report
// of a session as JSON, and an [AssertEnv] through which assertions reach the
// workspace that the agent left.
//
// # How a suite is run
//
// esbuild bundles the file with what it imports, so that enum, paths of a
// tsconfig, imports without an extension and TypeScript below a commonjs
// package.json all work. The bundle is evaluated once, in goja, an engine for
// JavaScript in Go, and stays: what a suite keeps in variables of its module lasts
// from one execution to the next, as it does in Node. One goroutine owns the
// engine. Tasks of executions run on it one after another, and while one waits (for a command in its
// workspace, a judge, a timer) others run; soft failures are kept
// apart by the asynchronous context. Each task has a limit in time, and one of
// memory that is sampled, so that an assertion that never ends fails alone. An operation that
// allocates much at once (a buffer, a repeated text, a filled array)
// is checked first, and is a RangeError with the code E_RESOURCE_EXHAUSTED beyond that limit.
//
// Stack traces name the lines and columns of the file that was written.
//
// # What a suite can reach
//
// The module skillgym, with the groups of assertions that Croft adds; node:assert,
// node:path, node:url, node:os, node:fs and node:fs/promises; process, console,
// timers, URL, structuredClone. Files are those of the suite's directory, of its
// configuration's, and of the run: its workspace, its artifacts and a temporary
// directory, which os.tmpdir() names. Any other path is a SandboxViolation, decided
// by internal/host/files. There is no network and no process but those that an
// assertion asks its workspace for. Any other import is an error that names it.
//
// # What is not prevented
//
// A suite is the user's own program: the engine is in this process, its
// memory is sampled and not isolated, and a single built-in operation (a regular
// expression that backtracks without end, a replacement that makes terabytes of a
// text) can't be interrupted. Nor can esbuild: a
// suite that is written to keep its parser busy, such as thousands of nested type
// arguments, does so for hours. Untrusted TypeScript is run by package interp/isolate.
package suite
