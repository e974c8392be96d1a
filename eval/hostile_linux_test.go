package eval_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/fault"
)

// victim is a directory of the host that everybody may write, with a file in it.
func victim(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("TOP-SECRET"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// untouched fails where a directory holds more than its secret.
func untouched(t *testing.T, dir string) {
	t.Helper()
	if got := entriesOf(t, dir); len(got) != 1 {
		t.Errorf("what is outside was written to: %q", got)
	}
}

// artifacts finds, in a command of the stub, the directory of its artifacts.
const artifacts = `A=$(dirname $CLAUDE_CONFIG_DIR); `

// TestPlantedArtifacts: what an agent puts in its artifacts in place of our own
// files leads nobody elsewhere, is shown to nobody and is taken for nothing.
func TestPlantedArtifacts(t *testing.T) {
	out := victim(t)
	t.Setenv("VICTIM", out)
	dir := project(t, map[string]string{"template/a.txt": "a", "suite.mjs": isolated(`templateDir: "./template"`) + `
const A = "` + artifacts + `";
const ok = () => {};
export default [
  { id: "further-try", prompt: A + "case $A in */session-2) echo x > $A/inside;; *) ln -s $VICTIM $A/session-2; exit 1;; esac", assert: ok },
  { id: "diff", prompt: A + "ln -s $VICTIM/secret $A/changes.diff; exit 1", assert: ok },
  { id: "pipe", prompt: A + "mkfifo $A/changes.diff $A/explain.json; exit 1", assert: ok },
  { id: "questions", prompt: A + "mkdir -p $A/session-2 $A/x/case/runner/repeat-1; touch $A/x/journal.jsonl; for d in $A $A/session-2 $A/x/case/runner/repeat-1; do echo '{\"cwd\":\"/\"}' > $d/explain.json; done", assert: ok },
  { id: "answers", prompt: A + "ln -s $VICTIM $A/explain; ln -s $VICTIM/new $A/workspace.cleanup-error.log; exit 1", assert: ok },
];`})
	one := 1
	r := runSuite(t, dir, "suite.mjs", &eval.Options{Envs: sandboxed(t), RepeatFailure: &one})
	untouched(t, out)
	if e := of(t, r, "further-try"); !e.Passed || !exists(filepath.Join(e.ArtifactDir, "inside")) {
		t.Errorf("the further try: %+v", e.Error)
	}
	page, err := eval.Page(r)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(page), "TOP-SECRET") {
		t.Error("the page shows a file of the host")
	}
	if found, err := eval.FindExplain(r.ArtifactDir); fault.Of(err) != fault.NotFound {
		t.Errorf("questions of an agent to itself are found: %s, %v", found, err)
	}
}

// TestPlantedRun: an agent whose workspace, in place, holds the directory of the run
// does not make us write elsewhere.
func TestPlantedRun(t *testing.T) {
	out := victim(t)
	t.Setenv("VICTIM", out)
	dir := project(t, map[string]string{"suite.mjs": `export const workspace = { mode: "none" };
export default [
  { id: "first", prompt: "R=$(ls -d .skillgym-results/*); ln -s $VICTIM $R/second; ln -s $VICTIM $R/third", assert() {} },
  { id: "second", prompt: "true", assert() {} },
];`})
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	r := runSuite(t, dir, "suite.mjs", &eval.Options{Envs: sandboxed(t)})
	untouched(t, out)
	if e := of(t, r, "second"); !e.Passed {
		t.Errorf("second: %+v", e.Error)
	}
}

// TestNumbersBeyondMeasure: what an agent says that it used does not keep the results
// from being written, neither alone nor with that of others.
func TestNumbersBeyondMeasure(t *testing.T) {
	usage := `echo '{\"type\":\"result\",\"result\":\"x\",\"total_cost_usd\":1.7e308,\"usage\":{\"input_tokens\":1.7e308,\"output_tokens\":1.7e308,\"cache_read_input_tokens\":1.7e308}}'; exec >/dev/null`
	agent := strings.Replace(stub, `>&2 || exit`, `|| exit`, 1)
	dir := project(t, map[string]string{"agent.sh": agent, "suite.mjs": isolated("") + `
export default ["a", "b", "c"].map((id) => ({ id, prompt: "` + usage + `", assert() {} }));`})
	r := runSuite(t, dir, "suite.mjs", &eval.Options{Envs: eval.Host{}})
	again, err := eval.ReadResult(r.ArtifactDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b", "c"} {
		if e := of(t, again, id); !e.Passed || e.Report == nil || e.Report.Usage.TotalTokens != nil {
			t.Errorf("%s: %+v", id, e)
		}
	}
}

// TestKeptWithoutHoles: a file that says it is larger than any disk is not kept, and
// one with holes keeps them.
func TestKeptWithoutHoles(t *testing.T) {
	dir := project(t, map[string]string{"suite.mjs": isolated("") + `
export default [{ id: "holes", prompt: "truncate -s 4T beyond; truncate -s 256M holes; echo end >> holes; exit 1", assert() {} }];`})
	r := runSuite(t, dir, "suite.mjs", &eval.Options{Envs: sandboxed(t)})
	e := of(t, r, "holes")
	if exists(filepath.Join(e.WorkspacePath, "beyond")) {
		t.Error("a file of 4 TiB is kept")
	}
	info, err := os.Stat(filepath.Join(e.WorkspacePath, "holes"))
	if err != nil {
		t.Fatal(err)
	}
	if room := info.Sys().(*syscall.Stat_t).Blocks * 512; info.Size() != 256<<20+4 || room > 16<<20 {
		t.Errorf("the file with holes has %d bytes and takes %d", info.Size(), room)
	}
	var told struct{ LeftOut []string }
	data, err := os.ReadFile(filepath.Join(e.ArtifactDir, "workspace.json"))
	if err == nil {
		err = json.Unmarshal(data, &told)
	}
	if err != nil || len(told.LeftOut) != 1 || told.LeftOut[0] != "beyond" {
		t.Errorf("left out: %v, %v", told.LeftOut, err)
	}
}

// TestAFullDiskIsReported: where the disk has no room for the workspace of a failed session,
// the result says so.
func TestAFullDiskIsReported(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: user: only root mounts a small disk")
	}
	dir := project(t, map[string]string{"suite.mjs": isolated("") + `
export default [{ id: "big", prompt: "head -c 64M /dev/urandom > big; exit 1", assert() {} }];`})
	results := filepath.Join(dir, ".skillgym-results")
	if err := os.Mkdir(results, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("small", results, "tmpfs", 0, "size=16m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Unmount(results, syscall.MNT_DETACH) })
	e := of(t, runSuite(t, dir, "suite.mjs", &eval.Options{Envs: sandboxed(t)}), "big")
	if e.WorkspacePath != "" || !strings.Contains(e.WorkspaceError, "no space") {
		t.Errorf("the workspace is at %q, and the error is %q; want none, and an error about space", e.WorkspacePath, e.WorkspaceError)
	}
}

// TestResultsOfOthers: an agent sees of the directory with the results what is its own,
// although that lies in the directory of the suite, which is shown.
func TestResultsOfOthers(t *testing.T) {
	for _, mode := range []string{isolated(`templateDir: "./template"`), `export const workspace = { mode: "shared", templateDir: "./template" };` + "\n"} {
		dir := project(t, map[string]string{"template/a.txt": "a", "beside.txt": "b", ".skillgym-results/old/secret": "x", "suite.mjs": mode + `
export default ["one", "two"].map((id) => ({ id, prompt: "cat a.txt ` + "$SUITE/beside.txt && cd $SUITE/.skillgym-results && find . -mindepth 2 >&2 && test ! -e old && test $(ls | wc -l) = 1 && test ! -e */journal.jsonl" + ` && test $(ls -d */*/*/repeat-1 | wc -l) = 1", assert() {} }));`})
		t.Setenv("SUITE", dir)
		r := runSuite(t, dir, "suite.mjs", &eval.Options{Envs: sandboxed(t)})
		for _, id := range []string{"one", "two"} {
			if e := of(t, r, id); !e.Passed {
				log, _ := os.ReadFile(filepath.Join(e.ArtifactDir, "stderr.log"))
				t.Errorf("%s: %+v: %s", id, e.Error, log)
			}
		}
	}
}
