package session_test

import (
	"fmt"

	"github.com/croft-run/croft/eval/session"
)

// The report of a session that a program of its own follows.
func Example() {
	var b session.Builder
	b.Run("go test ./...", "/project", "")
	b.Say("", "All tests pass.", "")
	report := b.Report(session.Runner{ID: "mine"}, "Make the tests pass.")
	fmt.Println(report.FinalOutput)
	fmt.Println(report.Commands[0].Command)
	// Output:
	// All tests pass.
	// go test ./...
}
