package eval_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// TestUnrulyAgents: whatever an agent does, the others finish, and each has its
// own verdict.
//
//croft:slow-race
func TestUnrulyAgents(t *testing.T) {
	dir := project(t, map[string]string{"template/a.txt": "a", "suite.mjs": isolated(`templateDir: "./template"`) + `
const ok = () => {};
export default [
  { id: "hangs", prompt: "sleep 600", timeoutMs: 1500, assert: ok },
  { id: "deaf", prompt: "trap '' TERM INT; while :; do sleep 1; done", timeoutMs: 1500, assert: ok },
  { id: "floods", prompt: "head -c 80000000 /dev/zero | tr '\\0' x", timeoutMs: 600000, assert: ok },
  { id: "forks", prompt: "i=0; while [ $i -lt 200 ]; do sleep 100 & i=$((i+1)); done; true", assert: ok },
  { id: "deletes", prompt: "rm -rf ./* ; rm -rf \"$PWD\" ; true", assert: ok },
  { id: "breaks-artifacts", prompt: "true", assert: ok },
  { id: "fine", prompt: "cat a.txt && echo b > b.txt", assert(r) { assert.equal(r.files.changed[0].path, "b.txt"); } },
];`})
	r := runSuite(t, dir, "suite.mjs", &eval.Options{Envs: sandboxed(t), Schedule: eval.Parallel, MaxParallel: 4})
	for id, want := range map[string]string{"hangs": "timeout", "deaf": "timeout", "floods": "", "forks": "", "deletes": "", "breaks-artifacts": "", "fine": ""} {
		e, class := of(t, r, id), ""
		if e.FailureClass != nil {
			class = e.FailureClass.ID
		}
		if class != want {
			t.Errorf("%s has the class %q, want %q: %+v", id, class, want, e.Error)
		}
	}
	if info, err := os.Stat(filepath.Join(of(t, r, "floods").ArtifactDir, "stderr.log")); err != nil || info.Size() > 65<<20 {
		t.Errorf("the log of the flood: %v, %v", info, err)
	}
	if got, want := entriesOf(t, filepath.Join(r.ArtifactDir, "workspaces", "fine")), 0; len(got) != want {
		t.Errorf("the workspace of what passed is left: %v", got)
	}
	if path := of(t, r, "hangs").WorkspacePath; !exists(filepath.Join(path, "a.txt")) {
		t.Errorf("the workspace of what failed is not kept in %s", path)
	}
}

// TestDiskLimit: an agent that fills its disk fails alone.
func TestDiskLimit(t *testing.T) {
	envs := sandboxed(t)
	traits, err := envs.Provider.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !traits.Limits[driver.ResourceDisk].Enforced() {
		t.Skipf("skipped: host: no limit of disk: %s", traits.Limits[driver.ResourceDisk].Reason)
	}
	dir := project(t, map[string]string{"template/a.txt": "a", "suite.mjs": isolated(`templateDir: "./template"`) + `
export default [{ id: "fills", prompt: "cat a.txt && head -c 100000000 /dev/zero > big", assert() {} }, { id: "fine", prompt: "cat a.txt", assert() {} }];`})
	r := runSuite(t, dir, "suite.mjs", &eval.Options{Envs: envs, Limits: driver.Limits{driver.ResourceDisk: {Max: 32 << 20}}})
	if e := of(t, r, "fills"); e.Passed || e.FailureOrigin != eval.OriginRunner {
		t.Errorf("fills: %+v", e)
	}
	if e := of(t, r, "fine"); !e.Passed {
		t.Errorf("fine: %+v", e.Error)
	}
}

func entriesOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

const longSuite = `export const workspace = { mode: "isolated", templateDir: "./template" };
export default Array.from({ length: 6 }, (_, i) => ({ id: "case-" + i, prompt: "echo " + i + " >> $LOG; test " + i + " -ne 3 || test -e $GO || sleep 600", assert() {} }));
`

// loadSuite loads suite.mjs of a directory.
func loadSuite(t *testing.T, dir string) (*suite.Suite, *suite.Config) {
	t.Helper()
	path := filepath.Join(dir, "suite.mjs")
	cfg, err := suite.LoadConfig(t.Context(), path, "")
	if err != nil {
		t.Fatal(err)
	}
	s, err := suite.Load(t.Context(), path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) // temporary files
	return s, cfg
}

// TestInterruptAndResume: a run that is ended keeps what is done, and goes on from
// there.
//
//croft:slow-race
func TestInterruptAndResume(t *testing.T) {
	everywhere(t, func(t *testing.T, envs eval.EnvFactory) {
		dir := project(t, map[string]string{"suite.mjs": longSuite, "template/a": "a", "shared/log": ""})
		if err := os.Chmod(filepath.Join(dir, "shared"), 0o777); err != nil {
			t.Fatal(err)
		}
		log, goOn := filepath.Join(dir, "shared", "log"), filepath.Join(dir, "go")
		t.Setenv("LOG", "/dev/null")
		t.Setenv("GO", goOn)
		s, cfg := loadSuite(t, dir)
		ctx, cancel := context.WithCancel(t.Context())
		stop := stopper(func(e eval.Event) {
			if e.Hook == eval.OnRunnerStart && e.Case.ID == "case-3" {
				time.AfterFunc(300*time.Millisecond, cancel)
			}
		})
		r, err := eval.Run(ctx, eval.File(s), cfg, &eval.Options{Envs: envs, Dir: dir, Reporters: []eval.Reporter{stop}, Note: t.Logf})
		if !errors.Is(err, fault.Canceled) || r == nil || !r.Croft.Interrupted || len(r.Cases) != 3 {
			t.Fatalf("interrupted: %v, %+v", err, r)
		}
		if !exists(filepath.Join(r.ArtifactDir, eval.ResultsName)) {
			t.Error("there are no results of what was done")
		}
		if kept := entriesOf(t, filepath.Join(r.ArtifactDir, "workspaces", "case-3")); len(kept) != 0 {
			t.Errorf("the workspace of what was interrupted is left: %v", kept)
		}
		if err := os.WriteFile(goOn, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		var ran []string
		again, err := eval.Run(t.Context(), eval.File(s), cfg, &eval.Options{Envs: envs, Dir: dir, Resume: r.ArtifactDir, Note: t.Logf,
			Reporters: []eval.Reporter{stopper(func(e eval.Event) {
				if e.Hook == eval.OnRunnerStart {
					ran = append(ran, e.Case.ID)
				}
			})}})
		if err != nil || !again.Passed() || len(again.Cases) != 6 || again.ArtifactDir != r.ArtifactDir {
			t.Fatalf("resumed: %v, %+v", err, again)
		}
		if diff := cmp.Diff([]string{"case-3", "case-4", "case-5"}, ran); diff != "" {
			t.Errorf("what was done ran again: %s", diff)
		}
		_ = log
	})
}

type stopper func(e eval.Event)

func (s stopper) Report(e eval.Event) error { s(e); return nil }

// TestEvaluationIsKilled: kill -9 of the program leaves no process, the next run clears what
// it left, and the run can be resumed.
//
//croft:slow
func TestEvaluationIsKilled(t *testing.T) {
	croft := bin(t, "croft")
	dir := project(t, map[string]string{"suite.mjs": longSuite, "template/a": "a"})
	data := filepath.Join(t.TempDir(), "data")
	env := append(os.Environ(), "CROFT_DATA="+data, "LOG=/dev/null", "GO="+filepath.Join(dir, "go"), "PATH="+filepath.Dir(bin(t, "croft-guest"))+":"+os.Getenv("PATH"))
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(croft, append([]string{"eval", "run"}, args...)...)
		cmd.Dir, cmd.Env = dir, env
		return cmd
	}
	first := command("suite.mjs", "--output-dir", "out")
	var said bytes.Buffer
	first.Stdout, first.Stderr, first.WaitDelay = &said, &said, time.Minute
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	defer first.Process.Kill() // where the test ends before it does
	waitFor(t, func() bool {
		runs, _ := filepath.Glob(filepath.Join(dir, "out/*/case-3/*/repeat-1/stdout.log"))
		return len(runs) == 1
	})
	if err := first.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	first.Wait() // it was killed
	runs, err := filepath.Glob(filepath.Join(dir, "out/*"))
	if err != nil || len(runs) != 1 {
		t.Fatalf("%v, %v\n%s", runs, err, &said)
	}
	waitFor(t, func() bool { return !running(runs[0]) })
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	again := command("--resume", runs[0], "--reporter", "json")
	said.Reset()
	again.Stderr = &said
	out, err := again.Output()
	if err != nil {
		t.Fatalf("resume: %v\n%s\n%s", err, out, &said)
	}
	var r eval.Result
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Cases) != 6 || !r.Passed() {
		t.Errorf("resumed: %d cases, %v", len(r.Cases), r.Passed())
	}
	if left := entriesOf(t, filepath.Join(data, "eval")); len(left) != 0 {
		t.Errorf("in the data directory is left: %v", left)
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for start := time.Now(); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Since(start) > 2*time.Minute {
			t.Fatal("it does not come")
		}
	}
}

// running reports whether any process has something to do with a directory.
func running(dir string) bool {
	lines, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, l := range lines {
		if data, err := os.ReadFile(l); err == nil && strings.Contains(string(data), "CLAUDE_CONFIG_DIR="+dir) {
			return true
		}
	}
	return false
}

// TestResumeKeepsPlaceAndSchedule: a run that was begun in a directory, with a schedule of
// its own, goes on so without naming either, and in no other directory.
func TestResumeKeepsPlaceAndSchedule(t *testing.T) {
	dir := project(t, map[string]string{"suite.mjs": `import { assert } from "skillgym"; export const workspace = { mode: "none" };
export default [1, 2, 3].map((n) => ({ id: "case-" + n, prompt: "touch made-" + n, assert() {} }));`})
	there, elsewhere := filepath.Join(dir, "there"), filepath.Join(dir, "elsewhere")
	if err := errors.Join(os.Mkdir(there, 0o755), os.Mkdir(elsewhere, 0o755)); err != nil {
		t.Fatal(err)
	}
	s, cfg := loadSuite(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stop := stopper(func(e eval.Event) {
		if e.Hook == eval.OnRunnerFinish {
			cancel()
		}
	})
	opts := eval.Options{Dir: dir, Cwd: there, OutputDir: t.TempDir(), Schedule: eval.ByRunner, MaxParallel: 3, Reporters: []eval.Reporter{stop}, Note: t.Logf}
	r, err := eval.Run(ctx, eval.File(s), cfg, &opts)
	if !errors.Is(err, fault.Canceled) || r == nil || len(r.Cases) != 1 {
		t.Fatalf("interrupted: %v, %+v", err, r)
	}
	_, err = eval.Run(t.Context(), eval.File(s), cfg, &eval.Options{Dir: elsewhere, Cwd: elsewhere, Resume: r.ArtifactDir, Note: t.Logf})
	if fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), there) {
		t.Errorf("in another directory it goes on: %v", err)
	}
	r, err = eval.Run(t.Context(), eval.File(s), cfg, &eval.Options{Dir: elsewhere, Resume: r.ArtifactDir, Note: t.Logf})
	if err != nil || !r.Passed() {
		t.Fatalf("resumed: %v, %+v", err, r)
	}
	if r.Croft.Schedule != string(eval.ByRunner) || r.Croft.MaxParallel != 3 {
		t.Errorf("it went on with schedule %s and %d at once", r.Croft.Schedule, r.Croft.MaxParallel)
	}
	if got := len(entriesOf(t, there)); got != 3 {
		t.Errorf("%d files are in its directory, want 3", got)
	}
	if left := entriesOf(t, elsewhere); len(left) > 0 {
		t.Errorf("it worked elsewhere: %v", left)
	}
}
