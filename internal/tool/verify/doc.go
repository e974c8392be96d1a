// Package verify runs the tests, linter, type checker and formatter of a project in a
// workspace, and parses their output into failures and diagnostics.
//
// Package profile detects the commands of a project. This package adds what is needed to
// parse their output: a report file in a temporary directory, or a machine-readable format.
// It leaves no files in the tree.
//
//	p, err := profile.Detect(ws.FS(), nil)
//	project, err := verify.Select(p, "")
//	report, err := verify.Test(ctx, ws, project[0], nil)
//	for _, f := range report.Failures {
//		// f.Test, f.File, f.Line, f.Message, f.Diff
//	}
//	again, err := verify.Rerun(ctx, ws, project[0], report, nil)
//
// [Choose] finds the tests that cover files.
//
// A failed run has at least one failure: a compile error, a crash of the runner and a
// timeout are failures, too. For a runner whose output can't be parsed [Report.Structured]
// is false, and its one failure has the end of the output.
//
// [AfterEdit] formats and lints one file after it was changed, within a time limit, and
// reports what it could not do.
//
// The parsers are pure functions of a tool's output; they are tested with output of the
// real tools.
package verify
