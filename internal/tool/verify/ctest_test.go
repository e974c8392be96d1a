package verify

import (
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
)

// TestCTestOfFiles: ctest runs the tests whose programs are built from a file.
func TestCTestOfFiles(t *testing.T) {
	testenv.NeedsProgram(t, "ctest")
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			ws, _ := open(t, kind, map[string]string{
				"CMakeLists.txt": "cmake_minimum_required(VERSION 3.10)\nproject(m C)\nenable_testing()\n" +
					"add_library(calc STATIC src/calc.c)\nadd_executable(add add_test.c)\ntarget_link_libraries(add calc)\n" +
					"add_executable(other other_test.c)\nadd_executable(tool tool.c)\n" +
					"add_test(NAME adds COMMAND add)\nadd_test(NAME other COMMAND other)\nadd_test(NAME fine COMMAND true)\n",
				"src/calc.c":   "int add(int a, int b) { return a + b; }\n",
				"calc.h":       "int add(int, int);\n",
				"add_test.c":   "#include \"calc.h\"\nint main(void) { return add(1, 2) != 3; }\n",
				"other_test.c": "int main(void) { return 0; }\n",
				"tool.c":       "int main(void) { return 0; }\n",
			})
			p := project(t, ws)
			for _, tt := range []struct {
				files  []string
				passed int
				note   string
			}{
				{[]string{"src/calc.c"}, 1, ""},
				{[]string{"other_test.c"}, 1, ""},
				{[]string{"src/calc.c", "other_test.c"}, 2, ""},
				{[]string{"calc.h"}, 3, "calc.h"},
			} {
				r, err := Test(t.Context(), ws, p, &Options{Files: tt.files})
				if err != nil {
					t.Fatal(err)
				}
				if notes := strings.Join(r.Notes, "\n"); !r.OK() || r.Passed != tt.passed || !strings.Contains(notes, tt.note) || tt.note == "" && notes != "" {
					t.Errorf("%q: %d passed, notes %q; want %d and %q\n%s", tt.files, r.Passed, notes, tt.passed, tt.note, r.Stdout)
				}
			}
			if _, err := Test(t.Context(), ws, p, &Options{Files: []string{"tool.c"}}); fault.Of(err) != fault.NotFound {
				t.Errorf("a file that no test covers: %v, want %s", err, fault.NotFound)
			}
		})
	}
}
