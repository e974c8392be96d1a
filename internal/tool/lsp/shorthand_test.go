package lsp

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
)

// TestRenameKeepsPrograms: JavaScript prints the same after a rename, and a shorthand property
// keeps its name.
//
//croft:slow
func TestRenameKeepsPrograms(t *testing.T) {
	needs(t, "typescript")
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("skipped: host: it lacks node")
	}
	tests := []struct {
		dir, file string
		line      int
		text      string // of m.js or m.ts
		want      string // of the file after the rename; "" if it is refused
	}{
		{"shorthand", "m.js", 1, "function foo() { return 1 }\nmodule.exports = { foo };\n",
			"function renamed() { return 1 }\nmodule.exports = { foo: renamed };\n"},
		{"property", "m.js", 1, "module.exports = { foo: () => 1 };\n", "module.exports = { renamed: () => 1 };\n"},
		{"local", "m.js", 1, "function foo() { return 1 }\nexports.foo = foo;\n", "function renamed() { return 1 }\nexports.foo = renamed;\n"},
		{"exports", "m.js", 2, "function foo() { return 1 }\nexports.foo = foo;\n", ""},
		{"use", "u.js", 2, "function foo() { return 1 }\nmodule.exports = { foo };\n",
			"const { foo: renamed } = require('./m');\nconsole.log(renamed());\n"},
		{"pattern", "m.js", 1, "const { foo } = JSON.parse('{\"foo\": 1}');\nexports.foo = () => foo;\n",
			"const { foo: renamed } = JSON.parse('{\"foo\": 1}');\nexports.foo = () => renamed;\n"},
		{"types", "m.ts", 1, "export function send(foo: string) {\n  return { foo };\n}\n",
			"export function send(renamed: string) {\n  return { foo: renamed };\n}\n"},
	}
	files := map[string]string{}
	for _, tt := range tests {
		files[tt.dir+"/u.js"] = "const { foo } = require('./m');\nconsole.log(foo());\n"
		files[tt.dir+"/index.js"] = "require('./u');\nconst m = require('./m');\nconsole.log(m.foo(), require('./m').foo());\n"
		files[tt.dir+"/m"+filepath.Ext(tt.file)] = tt.text
	}
	ws, dir := open(t, files)
	s := newSet(t, ws)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for _, tt := range tests {
		t.Run(tt.dir, func(t *testing.T) {
			file := tt.dir + "/" + tt.file
			text, err := readText(ctx, ws, file)
			if err != nil {
				t.Fatal(err)
			}
			list, _, err := s.Rename(ctx, file, tt.line, columnOf(text, tt.line, 1, "foo"), "renamed")
			if tt.want == "" {
				if fault.Of(err) != fault.Unsupported || !strings.Contains(fmt.Sprint(err), tt.dir+"/u.js:") {
					t.Errorf("renamed %v (%v), want a refusal that names u.js", list, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Apply(ctx, list); err != nil {
				t.Fatal(err)
			}
			if got, err := readText(ctx, ws, file); string(got) != tt.want {
				t.Errorf("%s is %q (%v), want %q", file, got, err, tt.want)
			}
			if filepath.Ext(file) == ".ts" {
				return
			}
			if out, err := exec.CommandContext(ctx, node, filepath.Join(dir, tt.dir, "index.js")).CombinedOutput(); string(out) != "1\n1 1\n" {
				t.Errorf("it prints %s (%v)", out, err)
			}
		})
	}
}

func TestMayBeShorthand(t *testing.T) {
	tests := map[string]bool{
		"x = { NAME }": true, "f({ a: g(1, 2), NAME, b })": true, "const { NAME = 1 } = o": true,
		"x = {\n\ta, // first\n\tNAME,\n}": true, "({ a, /* b */ NAME })": true, "f(a, NAME, b)": false,
		"x = { NAME: 1 }": false, "x = { a: NAME }": false, "import {\n\ta,\n\tNAME,\n} from 'm'": false,
		"export { NAME }": false, "import type { NAME } from 'm'": false, "`${NAME}`": false,
		"[NAME, a]": false, "export const o = { NAME }": true, "NAME": false,
	}
	for text, want := range tests {
		if got := mayBeShorthand([]byte(text), strings.Index(text, "NAME"), len("NAME")); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
