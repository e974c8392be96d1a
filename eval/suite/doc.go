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
// package.json all work. The bundle is evaluated once, in a Node, and stays: what a suite keeps in
// variables of its module lasts from one execution to the next. js/engine.js is the program that Node
// runs. Requests and answers are lines of JSON on its standard input and output; while one execution waits
// (for a command in its workspace, a judge, a timer) others run, and what belongs to which
// is known by the asynchronous context. A Node that gives no control back for ten seconds is killed. The
// executions that were in it are then repeated alone, so that only the one that
// caused it fails.
//
// [Loader.Node] says where Node runs: croft eval starts it in a sandbox. Without that it is a child of
// this process, and a suite may do what the user may.
//
// A suite in YAML is checked by this package itself. Node runs only the cases with JavaScript.
//
// Stack traces name the lines and columns of the file that was written.
//
// # What a suite can reach
//
// The module skillgym, with the groups of assertions that Croft adds, and all of Node. node:fs is
// served by this process, so that it finds the workspace of an execution with every provider. It
// reaches the suite's directory, its
// configuration's, and those of the run: its workspace, its artifacts and a temporary
// directory, which os.tmpdir() names. Any other path is a SandboxViolation, decided
// by internal/host/files.
//
// # What is not prevented
//
// esbuild runs in this process and can't be interrupted: a
// suite that is written to keep its parser busy, such as thousands of nested type
// arguments, does so for hours. Untrusted TypeScript is run by package interp/isolate.
package suite
