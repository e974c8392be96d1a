// Package evaltest runs suites of evaluations as Go tests: each case on each
// runner is a subtest, which fails as its execution does.
//
//	func TestSkills(t *testing.T) {
//		evaltest.Run(t, "evals/skills.suite.ts", nil)
//	}
//
// Suites are those of croft eval, with the configuration nearest to them, or
// [eval.Cases] with a configuration that is written in Go. Agents work in
// sandboxes of this host unless the options say otherwise. Failed workspaces and
// all artifacts are in the directory of the run, which the test logs where
// something failed.
package evaltest

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/provider/sandbox"
)

// Run runs the suite in a file. opts may be nil; defaults are those of croft eval, except
// that results go to the artifact directory of the test.
func Run(t *testing.T, path string, opts *eval.Options) *eval.Result {
	t.Helper()
	s, cfg, err := new(suite.Loader).LoadBoth(t.Context(), path, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // removes temporary files
	return RunSuite(t, eval.File(s), cfg, opts)
}

// RunSuite runs a suite that is loaded, or written in Go.
func RunSuite(t *testing.T, s eval.Suite, cfg *suite.Config, opts *eval.Options) *eval.Result {
	t.Helper()
	o := eval.Options{}
	if opts != nil {
		o = *opts
	}
	if o.OutputDir == "" {
		o.OutputDir = t.ArtifactDir()
	}
	if o.Envs == nil {
		o.Requests = new(eval.Requests)
		p, err := sandbox.New(&sandbox.Config{Root: filepath.Join(t.TempDir(), "ws"), Events: o.Requests})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close() //nolint:errcheck // all workspaces are destroyed
		o.Envs = &eval.Sandbox{Provider: p}
	}
	if o.Note == nil {
		o.Note = t.Logf
	}
	r, err := eval.Run(t.Context(), s, cfg, &o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Cases {
		for _, e := range c.RunnerResults {
			t.Run(c.CaseID+"/"+e.Runner.ID, func(t *testing.T) {
				if !e.Passed {
					t.Error(Describe(e))
				}
			})
		}
	}
	return r
}

// Describe returns why an execution failed, and its directories.
func Describe(e *eval.ExecutionResult) string {
	text := string(e.Status)
	if e.FailureClass != nil {
		text += " [" + e.FailureClass.ID + "]"
	}
	if e.Error != nil {
		text += fmt.Sprintf(": %s: %s", e.Error.Name, e.Error.Message)
	}
	if e.WorkspacePath != "" {
		text += "\nworkspace: " + e.WorkspacePath
	}
	return text + "\nartifacts: " + e.ArtifactDir
}
