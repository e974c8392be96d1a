package lsp

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/tool"
)

func TestTools(t *testing.T) {
	needs(t, "go")
	ws, dir := open(t, goFiles)
	set := new(tool.Set)
	if err := set.Add("main", ws); err != nil {
		t.Fatal(err)
	}
	env, err := tool.NewEnv(tool.Config{Tools: append(tool.Coding(), Tools()...), Workspaces: set, Effects: []tool.Effect{Effect}, Finders: []secret.Finder{secret.Known()}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := env.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	at := func(file string, line, col int, more ...any) map[string]any {
		m := map[string]any{"file_path": file, "line": line, "col": col}
		for i := 0; i < len(more); i += 2 {
			m[more[i].(string)] = more[i+1]
		}
		return m
	}
	steps := []struct {
		tool string
		args map[string]any
		want string
	}{
		{"find_definition", at("util/add.go", 6, 32), "Found 1 definition(s) for symbol at util/add.go:6:32:\n  1. util/add.go:4:6  func Add(a, b int) int { return a + b }\n"},
		{"find_definition", at("util/add.go", 1, 1), "error: the language server knows no symbol of \"package\" at util/add.go:1:1; names of the line, with their columns: package at 1, util at 9"},
		{"find_definition", at("util/add.go", 0, 1), "error: line (1-based) or name is required"},
		{"find_definition", at("util/add.go", 6, 0), "error: col (1-based) or name is required"},
		{"find_definition", at("no.go", 6, 1), "error: stat no.go: no such file or directory"},
		{"find_references", at("util/add.go", 4, 6), "Found 3 reference(s) for symbol at util/add.go:4:6:\n"},
		{"find_references", at("util/add.go", 4, 1), "error: the language server knows no symbol of \"func\" at util/add.go:4:1; names of the line, with their columns: func at 1, Add at 6"},
		{"find_references", map[string]any{"name": "Add"}, "Found 3 reference(s) for symbol at util/add.go:4:6:\n"},
		{"find_references", map[string]any{"name": "util.Add"}, "error: no declaration of \"util.Add\" found; there is:\n  util/add.go:4:6  Add [function]\n"},
		{"find_references", map[string]any{"name": "Nothing"}, "error: no declaration of \"Nothing\" found: it is in no file"},
		{"find_definition", map[string]any{"name": "Add", "file_path": "main.go"}, "Found 1 definition(s) for symbol at main.go:6:24:\n  1. util/add.go:4:6"},
		{"hover", map[string]any{"name": "Add", "file_path": "main.go", "line": 6}, "```go\nfunc util.Add(a int, b int) int\n```"},
		{"hover", map[string]any{"name": "Add", "file_path": "main.go", "line": 1}, "error: Add is not in line 1 of main.go; names of the line, with their columns: package at 1, main at 9"},
		{"symbol", map[string]any{"ask": "search", "query": "Twice"}, "1 symbol(s) for \"Twice\":\n  util/add.go:6:6"},
		{"symbol", map[string]any{"ask": "references", "name": "Twice"}, "Found 1 reference(s) for symbol at util/add.go:6:6:\n"},
		{"hover", at("util/add.go", 4, 6), "```go\nfunc Add(a int, b int) int\n```"},
		{"document_symbols", map[string]any{"file_path": "util/add.go"}, "2 symbol(s) in util/add.go:\n  4: Add [function]"},
		{"project_symbols", map[string]any{"file_path": "util/add.go", "query": "Twice"}, "1 symbol(s) for \"Twice\":\n  util/add.go:6:6"},
		{"diagnostics", map[string]any{"file_path": "util/add.go"}, "no diagnostics for util/add.go"},
		{"rename_symbol", at("util/add.go", 4, 6, "new_name", "Sum"), "error: refusing to rename from util/add.go: Read it first"},
		{"Read", map[string]any{"file_path": "util/add.go"}, "1\tpackage util"},
		{"rename_symbol", at("util/add.go", 4, 6, "new_name", "Sum"), "Rename → \"Sum\" would touch 2 file(s):\n  - main.go (1 edit(s))\n  - util/add.go ("},
		{"rename_symbol", at("util/add.go", 1, 1, "new_name", "Sum"), "error: the language server knows no symbol of \"package\" at util/add.go:1:1"},
		{"rename_symbol", at("util/add.go", 4, 6, "new_name", "Sum", "apply", true), "Rename → \"Sum\" touched 2 file(s):\n"},
		{"Edit", map[string]any{"file_path": "util/add.go", "old_string": "return a + b", "new_string": "return a + c"}, "replaced 1 occurrence(s) in util/add.go"},
		{"diagnostics", map[string]any{"file_path": "util/add.go"}, "1 diagnostic(s) for util/add.go:\nutil/add.go:4:37: error: undefined: c"},
	}
	for _, s := range steps {
		data, err := json.Marshal(s.args)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if res, err := env.Run(t.Context(), tool.Request{Tool: s.tool, Args: data}); err != nil {
			got = "error: " + tool.ErrorText(err)
		} else {
			got = res.Text
		}
		if !strings.HasPrefix(got, s.want) {
			t.Errorf("%s(%s) = %q, want it to begin with %q", s.tool, data, got, s.want)
		}
	}
	// A value that only another line of the file shows to be a secret.
	const hidden = "zq9-4Kw7pLm2xTb"
	write(t, dir, "util/key.go", "package util\n\nconst Greeting = \""+hidden+"\"\n\nvar _ = map[string]string{\"password\": \""+hidden+"\"}\n")
	for _, name := range []string{"Read", "hover", "rename_symbol"} {
		args := `{"file_path": "util/key.go"}`
		if name != "Read" {
			args = `{"file_path": "util/key.go", "name": "Greeting"` + map[string]string{"hover": `}`, "rename_symbol": `, "new_name": "Hello"}`}[name]
		}
		res, err := env.Run(t.Context(), tool.Request{Tool: name, Args: json.RawMessage(args)})
		if err != nil || strings.Contains(res.Text+string(res.Structured), hidden) || !strings.Contains(res.Text, "[REDACTED:") {
			t.Errorf("%s: %s, %s, %v", name, res.Text, res.Structured, err)
		}
	}
	// A module that can't be downloaded.
	write(t, dir, "util/far.go", "package util\n\nimport _ \"example.com/far\"\n")
	res, err := env.Run(t.Context(), tool.Request{Tool: "diagnostics", Args: json.RawMessage(`{"file_path":"util/far.go"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if want := "note: modules are missing; go mod download gets them where the operator allows proxy.golang.org"; !strings.Contains(res.Text, want) {
		t.Errorf("diagnostics of a missing module: %q, want %q", res.Text, want)
	}
	data, err := os.ReadFile(filepath.Join(dir, "main.go"))
	if err != nil || !strings.Contains(string(data), "util.Sum(1, 2)") {
		t.Errorf("main.go = %s, %v", data, err)
	}
}
