package evaltest_test

import (
	"testing"

	"github.com/croft-run/croft/eval/evaltest"
)

// A suite as a test of go test: each case on each runner is a subtest.
func ExampleRun() {
	testSkills := func(t *testing.T) { evaltest.Run(t, "evals/skills.suite.ts", nil) }
	_ = testSkills
}
