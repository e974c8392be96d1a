package eval_test

import (
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
