package verify

import (
	"fmt"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/provider/local"
)

// TestMake: what make's recipes print of tests is read: results of automake's driver and of
// TAP, errors of the compiler, and else the target that failed.
func TestMake(t *testing.T) {
	testenv.NeedsProgram(t, "make")
	testenv.NeedsProgram(t, "gcc")
	const program = "test: t\n\t./t\n\nt: t.c\n\t$(CC) -o t t.c\n"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{
			"automake", map[string]string{"t.c": "", "Makefile": "check:\n\t@echo PASS: tests/one; echo 'tests/two.c:7: wrong sum'; echo FAIL: tests/two; echo SKIP: tests/three; false\n"},
			"1 passed, 1 skipped: test tests/two at tests/two.c:7 (wrong sum)",
		},
		{
			"TAP", map[string]string{"t.c": "", "Makefile": "test:\n\t@echo 1..3; echo 'ok 1 - one'; echo 'not ok 2 - two'; echo 'ok 3 - three # SKIP no'; false\n"},
			"1 passed, 1 skipped: test two at :0 (failed)",
		},
		{
			"assertion", map[string]string{"Makefile": program, "t.c": "#include <assert.h>\nint main(void) {\n  assert(1 == 2);\n}\n"},
			"0 passed, 0 skipped: test test at t.c:3 (main: Assertion `1 == 2' failed.",
		},
		{
			"no reason", map[string]string{"Makefile": program, "t.c": "int main(void) { return 3; }\n"},
			"0 passed, 0 skipped: test test at Makefile:2 (Error 3",
		},
		{
			"compiler", map[string]string{"Makefile": program, "t.c": "int main(void) { return nothing; }\n"},
			"0 passed, 0 skipped: build  at t.c:1 (‘nothing’ undeclared",
		},
		{
			"fine", map[string]string{"Makefile": program, "t.c": "int main(void) { return 0; }\n"},
			"0 passed, 0 skipped: ",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ws, _ := open(t, local.Kind, tt.files)
			some, err := Test(t.Context(), ws, project(t, ws), &Options{Files: []string{"t.c"}})
			if err != nil {
				t.Fatal(err)
			}
			if want := "make can't run the tests of some files; all ran"; len(some.Notes) == 0 || some.Notes[0] != want {
				t.Errorf("with files, the notes are %q, want %q", some.Notes, want)
			}
			r, err := Test(t.Context(), ws, project(t, ws), nil)
			if err != nil {
				t.Fatal(err)
			}
			var failures []string
			for _, f := range r.Failures {
				failures = append(failures, fmt.Sprintf("%s %s at %s:%d (%s)", f.Kind, f.Name(), f.File, f.Line, f.Message))
			}
			got := fmt.Sprintf("%d passed, %d skipped: %s", r.Passed, r.Skipped, strings.Join(failures, "; "))
			if !strings.HasPrefix(strings.ReplaceAll(got, "'nothing'", "‘nothing’"), tt.want) || r.OK() != (tt.name == "fine") || r.Runner != "make" {
				t.Errorf("got %s (%s)\nwant %s\n%s\n%s", got, r.Runner, tt.want, r.Stdout, r.Stderr)
			}
		})
	}
}
