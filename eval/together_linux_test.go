package eval_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/fault"
)

// TestAgentsAtOnceInPlace: agents that work at the same time in one directory can't
// reach what is written for each other, so that none can lead another out of its fence
// with a link where that one's directory is about to be made.
func TestAgentsAtOnceInPlace(t *testing.T) {
	dir := project(t, map[string]string{"suite.mjs": `export default ["a", "b"].map((id) => ({ id, prompt: "true", assert() {} }));`})
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	elsewhere, results := t.TempDir(), filepath.Join(dir, eval.DefaultOutputDir)
	for name, opts := range map[string]eval.Options{
		"by default": {}, "deep": {OutputDir: filepath.Join(dir, "a", "b")}, "itself": {OutputDir: dir}, "behind a link": {OutputDir: filepath.Join(link, "new")},
		"tapes": {OutputDir: elsewhere, Record: filepath.Join(dir, "tapes")},
	} {
		opts.Places, opts.Schedule, opts.MaxParallel = fenced(t), eval.Parallel, 2
		_, err := tryRun(t, dir, "suite.mjs", &opts)
		if fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "several agents at once in "+dir) || !strings.Contains(err.Error(), "--schedule serial") {
			t.Errorf("%s: %v, want it to be refused with what to do instead", name, err)
		}
	}
	if exists(results) || exists(filepath.Join(dir, "a")) {
		t.Errorf("what was refused has left something: %v", entriesOf(t, dir))
	}
	for name, opts := range map[string]eval.Options{
		"elsewhere": {Schedule: eval.Parallel, MaxParallel: 2, OutputDir: elsewhere}, "one lane": {Schedule: eval.Parallel, MaxParallel: 1},
		"one case": {Schedule: eval.Parallel, MaxParallel: 2, Cases: []string{"a"}}, "one runner": {Schedule: eval.ByRunner}, "serial": {},
		"no fence": {Places: eval.Host{}, Schedule: eval.Parallel, MaxParallel: 2},
	} {
		if opts.Places == nil {
			opts.Places = fenced(t)
		}
		if r, err := tryRun(t, dir, "suite.mjs", &opts); err != nil || !r.Passed() {
			t.Errorf("%s: %+v, %v, want passed", name, r, err)
		}
	}
}
