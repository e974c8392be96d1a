package evaltest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/eval/evaltest"
	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/eval/suite"
)

const agent = `#!/bin/sh
echo made > made.txt
echo '{"type":"output","text":"I made it."}'
`

func config(t *testing.T) *suite.Config {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "agent.sh")
	if err := os.WriteFile(path, []byte(agent), 0o755); err != nil {
		t.Fatal(err)
	}
	return &suite.Config{Dir: dir, Runners: []suite.Runner{{ID: "shell", Agent: suite.Agent{Type: "command", Model: "none", Command: path}}}}
}

// TestCasesInGo runs a suite that is written in Go.
func TestCasesInGo(t *testing.T) {
	cases := &eval.Cases{Name: filepath.Join(t.TempDir(), "suite"), Dir: &suite.Workspace{Mode: suite.ModeIsolated}, List: []eval.Case{{
		Case: suite.Case{ID: "makes", Prompt: "make it"},
		Assert: func(ctx context.Context, r *session.Report, env suite.AssertEnv) error {
			data, err := env.ReadFile(ctx, "made.txt")
			if err != nil || string(data) != "made\n" {
				return errors.Join(errors.New("made.txt is not made"), err)
			}
			res, err := env.Run(ctx, suite.Command{Script: "wc -l < made.txt"})
			if err != nil || strings.TrimSpace(res.Stdout) != "1" {
				return errors.Join(errors.New("it does not have one line"), err)
			}
			diff, err := env.Diff(ctx, nil)
			if err != nil || !strings.Contains(diff, "+made") {
				return errors.Join(errors.New("the diff does not tell"), err)
			}
			return nil
		},
	}}}
	r := evaltest.RunSuite(t, cases, config(t), &eval.Options{Envs: eval.Host{}})
	if !r.Passed() || r.Cases[0].RunnerResults[0].Report.FinalOutput != "I made it." {
		t.Errorf("got %+v", r.Cases[0].RunnerResults[0])
	}
}

// TestDescribe holds what a failed subtest says.
func TestDescribe(t *testing.T) {
	cases := &eval.Cases{Name: filepath.Join(t.TempDir(), "suite"), Dir: &suite.Workspace{Mode: suite.ModeIsolated}, List: []eval.Case{{
		Case:   suite.Case{ID: "fails", Prompt: "make it"},
		Assert: func(context.Context, *session.Report, suite.AssertEnv) error { return errors.New("not good enough") },
	}}}
	r, err := eval.Run(t.Context(), cases, config(t), &eval.Options{OutputDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	e := r.Cases[0].RunnerResults[0]
	got := evaltest.Describe(e)
	for _, want := range []string{"failed [assertion]: AssertionError: not good enough", "workspace: " + e.WorkspacePath, "artifacts: " + e.ArtifactDir} {
		if !strings.Contains(got, want) {
			t.Errorf("it says %q, want %q in it", got, want)
		}
	}
}
