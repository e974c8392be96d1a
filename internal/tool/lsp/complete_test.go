package lsp

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestComplete: references and renames have the files that the server did not load by itself,
// and the answer says where else the name is a text.
//
//croft:slow
func TestComplete(t *testing.T) {
	tests := []struct {
		name, language string
		commands       [][]string
		files          map[string]string
		links          map[string]string // symbolic links
		symbol         string
		refs           []string // files with references
		also           []string // files with the name as text alone
		renamed        map[string]string
	}{
		{
			name: "CommonJS without a configuration", language: "typescript",
			files: map[string]string{
				"package.json": `{"name": "lib", "main": "index.js"}`, "index.js": "module.exports = require('./lib/main');\n",
				"lib/utils.js":    "exports.normalizeType = function (type) {\n  return type;\n};\n",
				"lib/main.js":     "var normalizeType = require('./utils').normalizeType;\nexports.type = function () { return normalizeType('a'); };\n",
				"lib/response.js": "const { normalizeType } = require('./utils');\nexports.send = () => normalizeType('b');\n",
				"test/utils.js":   "const utils = require('../lib/utils');\nutils.normalizeType('c');\n",
				"History.md":      "normalizeType is new\n",
			},
			symbol: "normalizeType", refs: []string{"lib/main.js", "lib/response.js", "lib/utils.js", "test/utils.js"}, also: []string{"History.md"},
			renamed: map[string]string{
				"lib/main.js":     "var normalizeType = require('./utils').renamed;\nexports.type = function () { return normalizeType('a'); };\n",
				"lib/response.js": "const { renamed: normalizeType } = require('./utils');\nexports.send = () => normalizeType('b');\n",
				"test/utils.js":   "const utils = require('../lib/utils');\nutils.renamed('c');\n",
			},
		},
		{
			name: "pyright with include", language: "python", commands: [][]string{{"pyright-langserver", "--stdio"}},
			files: map[string]string{
				"pyproject.toml":      "[tool.pyright]\ninclude = [\"src\"]\n",
				"src/pkg/__init__.py": "from .termui import style as style\n", "src/pkg/termui.py": "def style(text):\n    return text\n",
				"tests/test_style.py": "import pkg\n\n\ndef test_style():\n    assert pkg.style('a') == 'a'\n", "examples/e.py": "from pkg import style\n\nstyle('b')\n",
				"docs/api.md": "`style(text)`\n",
			},
			symbol: "style", refs: []string{"examples/e.py", "src/pkg/__init__.py", "src/pkg/termui.py", "tests/test_style.py"}, also: []string{"docs/api.md"},
			renamed: map[string]string{
				"tests/test_style.py": "import pkg\n\n\ndef test_style():\n    assert pkg.renamed('a') == 'a'\n", "examples/e.py": "from pkg import renamed\n\nrenamed('b')\n",
			},
		},
		{
			name: "packages of a workspace with project references", language: "typescript",
			files: map[string]string{
				"package.json":                `{"private": true, "workspaces": ["packages/*"]}`,
				"tsconfig.json":               `{"files": [], "references": [{"path": "packages/core"}, {"path": "packages/app"}]}`,
				"packages/core/package.json":  `{"name": "@m/core", "version": "1.0.0", "main": "dist/index.js", "types": "dist/index.d.ts"}`,
				"packages/core/tsconfig.json": `{"compilerOptions": {"composite": true, "rootDir": "src", "outDir": "dist", "module": "commonjs"}, "include": ["src"]}`,
				"packages/core/src/index.ts":  "export function readBuffer(n: number) { return n }\n", "packages/core/src/other.ts": "import { readBuffer } from './index'\nexport const one = readBuffer(1)\n",
				"packages/app/package.json":  `{"name": "app", "version": "1.0.0", "dependencies": {"@m/core": "*"}}`,
				"packages/app/tsconfig.json": `{"compilerOptions": {"composite": true, "rootDir": "src", "outDir": "dist", "module": "commonjs"}, "include": ["src"], "references": [{"path": "../core"}]}`,
				"packages/app/src/main.ts":   "import { readBuffer } from '@m/core'\nreadBuffer(2)\n",
			},
			links:  map[string]string{"node_modules/@m/core": "../../packages/core"},
			symbol: "readBuffer", refs: []string{"packages/app/src/main.ts", "packages/core/src/index.ts", "packages/core/src/other.ts"},
		},
		{
			name: "packages that are not installed", language: "typescript",
			files: map[string]string{
				"package.json":               `{"private": true, "workspaces": ["packages/*"]}`,
				"packages/core/package.json": `{"name": "@m/core", "version": "1.0.0", "main": "src/index.ts"}`, "packages/core/tsconfig.json": "{}",
				"packages/core/src/index.ts": "export function readBuffer(n: number) { return n }\n",
				"packages/app/package.json":  `{"name": "app", "dependencies": {"@m/core": "*"}}`, "packages/app/tsconfig.json": "{}",
				"packages/app/main.ts": "import { readBuffer } from '@m/core'\nreadBuffer(2)\n",
			},
			symbol: "readBuffer", refs: []string{"packages/core/src/index.ts"}, also: []string{"packages/app/main.ts"},
		},
		{
			name: "Go with a file for another system", language: "go",
			files: map[string]string{
				"go.mod": "module example.com/m\n\ngo 1.24\n", "a.go": "package m\n\nfunc Helper() int { return 1 }\n", "b.go": "package m\n\nvar _ = Helper()\n",
				"c_plan9.go": "package m\n\nvar _ = Helper() + 1\n", "_examples/e.go": "package e\n\n// Helper is a text.\n",
			},
			symbol: "Helper", refs: []string{"a.go", "b.go"}, also: []string{"_examples/e.go", "c_plan9.go"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			needs(t, tt.language)
			ws, dir := open(t, tt.files)
			for name, target := range tt.links {
				name = filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(target, name); err != nil {
					t.Fatal(err)
				}
			}
			s := newSet(t, ws)
			if tt.commands != nil {
				spec := *serverOf(tt.language)
				spec.commands = tt.commands
				s.slots[tt.language] = &slot{spec: &spec}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			at, err := s.findName(ctx, tt.symbol, nil)
			if err != nil {
				t.Fatal(err)
			}
			list, also, err := s.References(ctx, at.FilePath, at.Line, at.Col)
			if err != nil {
				t.Fatal(err)
			}
			found := map[string]bool{}
			for _, l := range list {
				found[l.Path] = true
			}
			if diff := cmp.Diff(tt.refs, slices.Sorted(maps.Keys(found))); diff != "" {
				t.Errorf("files with references (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.also, also.Files); diff != "" {
				t.Errorf("files with the name as text (-want +got):\n%s", diff)
			}
			edits, left, err := s.Rename(ctx, at.FilePath, at.Line, at.Col, "renamed")
			if err != nil {
				t.Fatal(err)
			}
			var renamed []string
			for _, e := range edits {
				renamed = append(renamed, e.Path)
				if want, ok := tt.renamed[e.Path]; ok && string(e.After) != want {
					t.Errorf("%s is\n%s\nwant\n%s", e.Path, e.After, want)
				}
			}
			if diff := cmp.Diff(tt.refs, renamed); diff != "" {
				t.Errorf("renamed files (-want +got):\n%s", diff)
			}
			if text := left.text("were not changed"); len(tt.also) > 0 && (!strings.Contains(text, "that were not changed, in ") || !strings.Contains(text, strings.Join(tt.also, ", "))) {
				t.Errorf("the answer says %q", text)
			}
		})
	}
}

func TestNameAt(t *testing.T) {
	text := []byte("func Añb(x int) {}\n")
	for col, want := range map[int]string{1: "func", 5: "func", 6: "Añb", 9: "Añb", 10: "x", 11: "x", 17: "", 18: "", 19: "", 40: ""} {
		if got := nameAt(text, 1, col); got != want {
			t.Errorf("at %d: %q, want %q", col, got, want)
		}
	}
	if got, want := namesIn(text, 1), "names of the line, with their columns: func at 1, Añb at 6, x at 10, int at 12"; got != want {
		t.Errorf("names: %s, want %s", got, want)
	}
}

// TestLongRename: the diff of a rename that was written is cut, and what is left out is said.
func TestLongRename(t *testing.T) {
	out := renameOutput{Applied: true, Files: []renameFile{{"a.go", 1, "--- a/a.go\n"}, {"b.go", 90, ""}}, Also: &Mentions{Name: "f", Places: 3, Files: []string{"README.md", "c.js"}}}
	want := "Rename → \"g\" touched 2 file(s):\n  - a.go (1 edit(s))\n  - b.go (90 edit(s))\nalso as text in 3 place(s) that were not changed, in 2 file(s): README.md, c.js\n" +
		"\nThese files were written:\n\n--- a/a.go\n... (the diffs of 1 more file(s) are left out)\n"
	if diff := cmp.Diff(want, out.describe("g")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
