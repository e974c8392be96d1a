package eval_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/eval"
)

// TestEveryKindOfChangeIsFound lets agents change files, directories and links of a
// template in ways that an overlay records differently.
func TestEveryKindOfChangeIsFound(t *testing.T) {
	const suiteText = `
export const workspace = { mode: "isolated", templateDir: "./template" };
const cases = {
  nothing: "true",
  dates: "touch same/a",
  text: "echo more >> same/a; echo x > new; mkdir -p deep/er; echo y > deep/er/est",
  modes: "chmod 600 same/b",
  removed: "rm same/a; rm -rf gone",
  opaque: "rm -rf gone; mkdir gone; echo z > gone/new",
  swapped: "rm same/a; mkdir same/a; echo in > same/a/in; rm -rf gone; echo file > gone",
  links: "rm same/b; ln -s a same/b; rm link; echo plain > link",
  moved: "mv gone here",
  undone: "cp same/a kept; rm same/a; mv kept same/a",
};
export default Object.entries(cases).map(([id, prompt]) => ({ id, prompt, assert() {} }));
`
	want := map[string][]string{
		"nothing": nil,
		"dates":   nil,
		"text":    {"added deep/er/est", "added new", "modified same/a"},
		"modes":   {"modified same/b"},
		"removed": {"removed gone/x", "removed gone/y/z", "removed same/a"},
		"opaque":  {"added gone/new", "removed gone/x", "removed gone/y/z"},
		"swapped": {"added gone", "removed gone/x", "removed gone/y/z", "removed same/a", "added same/a/in"},
		"links":   {"modified link", "modified same/b"},
		"moved":   {"removed gone/x", "removed gone/y/z", "added here/x", "added here/y/z"},
		"undone":  nil,
	}
	files := map[string]string{"suite.mjs": suiteText, "template/same/a": "a\n", "template/same/b": "b\n", "template/gone/x": "x\n", "template/gone/y/z": "z\n", "template/link": "l\n"}
	everywhere(t, func(t *testing.T, envs eval.EnvFactory) {
		r := runSuite(t, project(t, files), "suite.mjs", &eval.Options{Envs: envs})
		for id, want := range want {
			var got []string
			for _, c := range of(t, r, id).Report.Files.Changed {
				got = append(got, string(c.Kind)+" "+c.Path)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", id, diff)
			}
		}
	})
}

// TestTheRunIsNotTheAgent: what a run itself writes in the directory where agents work, or
// in their template, is no change of an agent.
func TestTheRunIsNotTheAgent(t *testing.T) {
	const cases = `
const nothing = (r) => { assert.deepEqual(r.files.changed, []); assert.diff.empty(r); };
const one = (r) => { assert.deepEqual(r.files.changed.map((c) => c.path), ["mine.txt"]); assert.files.onlyChanged(r, "mine.txt"); assert.diff.includes(r, "+me"); };
export default [{ id: "nothing", prompt: "true", assert: nothing }, { id: "one", prompt: "echo me > mine.txt", assert: one }, { id: "nothing again", prompt: "cat agent.sh", assert: nothing }];`
	for name, suiteText := range map[string]string{
		"in place": `import { assert } from "skillgym"; export const workspace = { mode: "none", cwd: "." };` + cases,
		"template": isolated(`templateDir: "."`) + cases,
	} {
		for where, opts := range map[string]eval.Options{
			"default":              {},
			"beside":               {OutputDir: "."},
			"below, with the rest": {OutputDir: "out/puts", Record: "ta/pes", Reports: []string{"report.txt"}},
		} {
			t.Run(name+", "+where, func(t *testing.T) {
				everywhere(t, func(t *testing.T, envs eval.EnvFactory) {
					dir := project(t, map[string]string{"suite.mjs": suiteText,
						"skillgym.config.mjs": `export default { runners: { main: { agent: { type: "claude-code", model: "m", command: "./agent.sh", env: { ANTHROPIC_BASE_URL: "http://127.0.0.1:9" } } } } };`})
					o := opts
					o.Envs = envs
					if o.OutputDir != "" {
						o.OutputDir = filepath.Join(dir, o.OutputDir)
					}
					if o.Record != "" {
						o.Record = filepath.Join(dir, o.Record)
					}
					if len(o.Reports) > 0 {
						f, err := os.Create(filepath.Join(dir, o.Reports[0]))
						if err != nil {
							t.Fatal(err)
						}
						defer f.Close()
						r, err := eval.NewReporter("standard", eval.ReporterConfig{Out: f, File: true})
						if err != nil {
							t.Fatal(err)
						}
						o.Reports, o.Reporters = []string{f.Name()}, []eval.Reporter{r}
					}
					for _, c := range runSuite(t, dir, "suite.mjs", &o).Cases {
						if e := c.RunnerResults[0]; !e.Passed {
							t.Errorf("%s: %+v", c.CaseID, e.Error)
						}
					}
				})
			})
		}
	}
}
