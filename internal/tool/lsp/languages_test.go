package lsp

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/internal/sleep"
)

// TestLanguages asks each server for a definition in another file, renames it
// there, and makes an error that it must find.
func TestLanguages(t *testing.T) {
	tests := []struct {
		language string
		commands [][]string // of these alone
		files    map[string]string
		use      string // file:line:col are those of the use
		line     int
		col      int
		def      string
		renamed  map[string]string
		broken   string // what the file of the use becomes
		message  string
		later    bool // what it says of a text may come in parts, or be of the text before
	}{
		{
			language: "python", commands: [][]string{{"pyright-langserver", "--stdio"}},
			files: map[string]string{"util.py": "def add(a, b):\n    return a + b\n", "main.py": "from util import add\nx = '😀'; y = add(1, 2)\n"},
			use:   "main.py", line: 2, col: 14, def: "util.py:1:5",
			renamed: map[string]string{"util.py": "def plus(a, b):\n    return a + b\n", "main.py": "from util import plus\nx = '😀'; y = plus(1, 2)\n"},
			broken:  "from util import plus\nplus(1, nothing)\n", message: "\"nothing\" is not defined",
		},
		{
			language: "python", commands: [][]string{{"pylsp"}},
			files: map[string]string{"util.py": "def add(a, b):\n    return a + b\n", "main.py": "from util import add\nx = '😀'; y = add(1, 2)\n"},
			use:   "main.py", line: 2, col: 14, def: "util.py:1:5",
			renamed: map[string]string{"util.py": "def plus(a, b):\n    return a + b\n", "main.py": "from util import plus\nx = '😀'; y = plus(1, 2)\n"},
			broken:  "def (:\n", message: "", later: true,
		},
		{
			language: "typescript",
			files: map[string]string{
				"tsconfig.json": "{}", "util.ts": "export function add(a: number, b: number) { return a + b }\n",
				"main.ts": "import { add } from './util'\nconst s = '😀', n = add(1, 2)\n",
			},
			use: "main.ts", line: 2, col: 20, def: "util.ts:1:17",
			renamed: map[string]string{
				"util.ts": "export function plus(a: number, b: number) { return a + b }\n", "main.ts": "import { plus } from './util'\nconst s = '😀', n = plus(1, 2)\n",
			},
			broken: "const s: number = 'x'\n", message: "Type 'string' is not assignable to type 'number'.", later: true,
		},
		{
			language: "c",
			files: map[string]string{
				"compile_commands.json": `[{"directory": "DIR", "command": "cc -c main.c", "file": "main.c"}]`, "util.h": "static inline int add(int a, int b) { return a + b; }\n", "main.c": "#include \"util.h\"\nint main(void) { /* 😀 */ return add(1, 2); }\n",
			},
			use: "main.c", line: 2, col: 34, def: "util.h:1:19",
			renamed: map[string]string{
				"util.h": "static inline int plus(int a, int b) { return a + b; }\n", "main.c": "#include \"util.h\"\nint main(void) { /* 😀 */ return plus(1, 2); }\n",
			},
			broken: "int main(void) { return nothing; }\n", message: "Use of undeclared identifier 'nothing'",
		},
	}
	for _, tt := range tests {
		name := tt.language
		if tt.commands != nil {
			name = tt.commands[0][0]
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needs(t, tt.language)
			ws, dir := open(t, tt.files)
			s := newSet(t, ws)
			if tt.commands != nil {
				spec := *serverOf(tt.language)
				spec.commands = tt.commands
				s.slots[tt.language] = &slot{spec: &spec}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			got, err := s.Definition(ctx, tt.use, tt.line, tt.col)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tt.def}, show(got)); diff != "" {
				t.Errorf("definition (-want +got):\n%s", diff)
			}
			edits, _, err := s.Rename(ctx, tt.use, tt.line, tt.col, "plus")
			if err != nil {
				t.Fatal(err)
			}
			after := map[string]string{}
			for _, e := range edits {
				after[e.Path] = string(e.After)
			}
			if diff := cmp.Diff(tt.renamed, after); diff != "" {
				t.Errorf("rename (-want +got):\n%s", diff)
			}
			if _, err := s.Apply(ctx, edits); err != nil {
				t.Fatal(err)
			}
			write(t, dir, tt.use, tt.broken)
			list, err := s.Diagnostics(ctx, tt.use)
			for err == nil && tt.later && !says(list, tt.message) {
				if err = sleep.For(ctx, 100*time.Millisecond); err == nil {
					list, err = s.Diagnostics(ctx, tt.use)
				}
			}
			if err != nil || !says(list, tt.message) {
				t.Errorf("diagnostics = %+v, %v, want %s", list, err, tt.message)
			}
		})
	}
}

func says(list []Diagnostic, message string) bool {
	return slices.ContainsFunc(list, func(d Diagnostic) bool { return strings.Contains(d.Message, message) })
}
