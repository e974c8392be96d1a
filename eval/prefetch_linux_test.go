package eval_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/fault"
)

// countedEnvs opens none, and notes for which directories it was asked.
type countedEnvs struct {
	mu    sync.Mutex
	asked map[string]int // guarded by mu
}

func (*countedEnvs) Kind() string                { return "counted" }
func (*countedEnvs) Sandboxed() bool             { return true }
func (*countedEnvs) Ready(context.Context) error { return nil }

func (c *countedEnvs) Open(_ context.Context, req eval.EnvSpec) (*eval.Env, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[req.Dir]++
	return nil, fmt.Errorf("counted: open: %w", fault.Unavailable)
}

// TestOneWorkspaceEach: lanes that overtake one another prepare no workspace twice.
func TestOneWorkspaceEach(t *testing.T) {
	const cases = 60
	dir := project(t, map[string]string{"suite.mjs": isolated("") + fmt.Sprintf(`
export default Array.from({length: %d}, (_, i) => ({ id: "case-" + i, prompt: "true", assert() {} }));`, cases)})
	envs := &countedEnvs{asked: map[string]int{}}
	runSuite(t, dir, "suite.mjs", &eval.Options{Envs: envs, Schedule: eval.Parallel, MaxParallel: 12})
	if got, want := len(envs.asked), cases; got != want {
		t.Errorf("%d workspaces were asked for, want %d", got, want)
	}
	for dir, n := range envs.asked {
		if n != 1 {
			t.Errorf("%s was asked for %d times", dir, n)
		}
	}
}
