package eval_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/eval/suite"
)

// Run a suite that is written in Go on an agent that is a shell script.
func ExampleRun() {
	dir, err := os.MkdirTemp("", "eval")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	agent := filepath.Join(dir, "agent.sh")
	script := "#!/bin/sh\necho hello > greeting.txt\necho '{\"type\":\"output\",\"text\":\"done\"}'\n"
	if err := os.WriteFile(agent, []byte(script), 0o700); err != nil {
		log.Fatal(err)
	}

	cases := &eval.Cases{
		Name: filepath.Join(dir, "suite"), Dir: &suite.Workspace{Mode: suite.ModeIsolated},
		List: []eval.Case{{
			Case: suite.Case{ID: "greets", Prompt: "Write a greeting to greeting.txt."},
			Assert: func(ctx context.Context, _ *session.Report, env suite.AssertEnv) error {
				_, err := env.ReadFile(ctx, "greeting.txt")
				return err // why the case fails
			},
		}},
	}
	config := &suite.Config{Dir: dir, Runners: []suite.Runner{{ID: "shell", Agent: suite.Agent{Type: "command", Model: "none", Command: agent}}}}
	result, err := eval.Run(context.Background(), cases, config, &eval.Options{
		Envs:      eval.Host{}, // no isolation; croft eval takes sandboxes
		OutputDir: filepath.Join(dir, "results"),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Passed(), result.Cases[0].RunnerResults[0].Report.FinalOutput)
	// Output: true done
}
