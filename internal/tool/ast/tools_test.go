package ast

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/tool"
)

func TestTools(t *testing.T) {
	ws, dir := place(t)
	set := new(tool.Set)
	if err := set.Add("main", ws); err != nil {
		t.Fatal(err)
	}
	env, err := tool.NewEnv(tool.Config{Tools: append(tool.Coding(), Tools()...), Workspaces: set})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { env.Close(context.WithoutCancel(t.Context())) })
	call := func(name string, args map[string]any) string {
		t.Helper()
		data, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		res, err := env.Run(t.Context(), tool.Request{Tool: name, Args: data})
		if err != nil {
			return "error: " + tool.ErrorText(err)
		}
		return res.Text
	}
	file := filepath.Join(dir, "a.go")
	if err := os.WriteFile(file, []byte(goSource), 0o644); err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		tool string
		args map[string]any
		want string
	}{
		{"edit_function_body", map[string]any{"file_path": "a.go", "function_name": "F", "new_body": "return 2"}, "error: refusing to edit a.go: Read it first"},
		{"Read", map[string]any{"file_path": "a.go"}, "1\t// Package p"},
		{"edit_function_body", map[string]any{"file_path": "a.go", "function_name": "F", "new_body": "return 2"}, "edit_function_body: modified a.go at line 16\n--- before\n+++ after\n@@ starting line 16 @@\n-func F() int { return 1 }\n+func F() int {\n+\treturn 2\n+}\n"},
		{"change_function_signature", map[string]any{"file_path": "a.go", "function_name": "F", "new_signature": "func F(n int) int"}, "change_function_signature: modified a.go at line 16\n"},
		{"insert_after_method", map[string]any{"file_path": "a.go", "receiver_type": "S", "method_name": "Stop", "new_method": "func (s S) Wait() {}"}, "insert_after_method: inserted 20 bytes in a.go at line 16\n+func (s S) Wait() {}\n"},
		{"rename_in_file", map[string]any{"file_path": "a.go", "old_name": "F", "new_name": "G"}, "rename_in_file: renamed F to G at 2 place(s) in a.go\n"},
		{"edit_code", map[string]any{"file_path": "a.go", "action": "rename", "name": "G", "code": "H"}, "edit_code: renamed G to H at 2 place(s) in a.go\n"},
		{"edit_function_body", map[string]any{"file_path": "a.go", "function_name": "X", "new_body": ""}, "error: function X not found in a.go"},
		{"edit_function_body", map[string]any{"file_path": "no.go", "function_name": "X", "new_body": ""}, "error: stat no.go: no such file or directory"},
		{"edit_function_body", map[string]any{"file_path": "../x.go", "function_name": "X", "new_body": ""}, "error: resolve path: path is outside workspace root"},
	}
	for _, s := range steps {
		if got := call(s.tool, s.args); !strings.HasPrefix(got, s.want) {
			t.Errorf("%s(%v) = %q, want it to begin with %q", s.tool, s.args, got, s.want)
		}
	}
	if err := os.WriteFile(file, []byte(goSource), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, want := call("edit_function_body", map[string]any{"file_path": "a.go", "function_name": "F", "new_body": ""}), "error: refusing to edit a.go: it changed since it was read; Read it again"; got != want {
		t.Errorf("after the file changed: %q, want %q", got, want)
	}
}
