package eval_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/eval"
)

// TestAgentsAtOnceInPlace: agents that would work at the same time in one directory
// that holds what is written for each other do so one after the other, so that none can
// lead another out of its sandbox with a link where that one's directory is about to be
// made.
//
//croft:slow-race
func TestAgentsAtOnceInPlace(t *testing.T) {
	dir := project(t, map[string]string{"suite.mjs": `export default ["a", "b"].map((id) => ({ id, prompt: "true", assert() {} }));`})
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	for name, c := range map[string]struct {
		opts eval.Options
		want eval.Schedule
	}{
		"by default":    {eval.Options{}, eval.Serial},
		"deep":          {eval.Options{OutputDir: filepath.Join(dir, "a", "b")}, eval.Serial},
		"itself":        {eval.Options{OutputDir: dir}, eval.Serial},
		"behind a link": {eval.Options{OutputDir: filepath.Join(link, "new")}, eval.Serial},
		"elsewhere":     {eval.Options{OutputDir: elsewhere}, eval.Parallel},
		"one case":      {eval.Options{Cases: []string{"a"}}, eval.Parallel},
		"no sandbox":    {eval.Options{Envs: eval.Host{}}, eval.Parallel},
	} {
		opts := c.opts
		if opts.Envs == nil {
			opts.Envs = sandboxed(t)
		}
		opts.Schedule, opts.MaxParallel = eval.Parallel, 2
		r, err := tryRun(t, dir, "suite.mjs", &opts)
		if err != nil || !r.Passed() {
			t.Errorf("%s: %+v, %v, want passed", name, r, err)
			continue
		}
		if got := eval.Schedule(r.Croft.Schedule); got != c.want {
			t.Errorf("%s: the schedule is %s, want %s", name, got, c.want)
		}
		said := strings.Contains(strings.Join(r.Croft.Notices, "\n"), "agents work one at a time in "+dir)
		if want := c.want == eval.Serial; said != want {
			t.Errorf("%s: the notices are %q", name, r.Croft.Notices)
		}
	}
}
