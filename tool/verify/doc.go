// Package verify finds out whether the code in a workspace works: it runs the
// project's tests, linter, type checker and formatter there, and turns what they
// write into failures and diagnostics with a file and a line.
//
// Which commands a project has is package profile's knowledge. This package adds
// what it takes to read their answer: a report that a runner writes into a
// directory for throw-away files, a format that a program can read. Nothing is
// left in the tree.
//
//	p, err := profile.Detect(ws.FS(), nil)
//	project, err := verify.Select(p, "")
//	report, err := verify.Test(ctx, ws, project[0], nil)
//	for _, f := range report.Failures {
//		// f.Test, f.File, f.Line, f.Message, f.Diff
//	}
//	again, err := verify.Rerun(ctx, ws, project[0], report, nil)
//
// A run that ends badly has at least one failure: code that does not compile, a
// runner that breaks off and a test that is cut short by a time-out are failures
// as much as a wrong result is. What the runner reported is never guessed at: for
// a runner whose output is not understood [Report.Structured] is false, and its one
// failure holds the end of its output.
//
// [AfterEdit] is for the moment after a file was changed: it formats and lints
// that file alone, within a bound of time, and says what it could not do.
//
// The parsers are pure functions of what a tool wrote; their tests hold them
// against output of the real tools.
package verify
