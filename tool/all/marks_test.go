package all_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/tool/all"
	"github.com/croft-run/croft/workspace"
)

// TestMarksAreNotWrittenBack: no tool that writes text replaces a hidden value by its mark, and
// the error names the line and what to do.
func TestMarksAreNotWrittenBack(t *testing.T) {
	ws, err := workspace.NewMux(new(memory.Provider)).Open(t.Context(), workspace.Spec{Kind: memory.Kind, ID: workspace.NewID()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	set := new(tool.Set)
	if err := set.Add("w", ws); err != nil {
		t.Fatal(err)
	}
	store, err := secret.New(&secret.Options{Environ: []string{"CROFT_SECRET_TOKEN=correct-horse"}})
	if err != nil {
		t.Fatal(err)
	}
	env, err := tool.NewEnv(tool.Config{Tools: slices.Concat(all.Coding(), all.Workspace()), Workspaces: set, Secrets: store})
	if err != nil {
		t.Fatal(err)
	}
	run := func(name, args string) (string, error) {
		t.Helper()
		res, err := env.Run(t.Context(), tool.Request{Tool: name, Args: json.RawMessage(args)})
		return res.Text, err
	}
	files := map[string]string{
		".env": "A=1\nTOKEN=correct-horse\n",
		"a.go": "package a\n\ntype T struct{}\n\nfunc (T) F() string { return \"correct-horse\" }\n",
		"doc":  "marks such as [REDACTED:token]\n",
		"both": "[REDACTED:token]\ncorrect-horse\n",
	}
	for name, text := range files {
		if _, err := ws.WriteFile(t.Context(), name, []byte(text), nil); err != nil {
			t.Fatal(err)
		}
		shown, err := run("Read", `{"file_path": "`+name+`"}`)
		if err != nil || strings.Contains(shown, "correct") {
			t.Fatalf("Read %s: %q, %v", name, shown, err)
		}
	}
	for _, tt := range []struct{ tool, args, want string }{
		{"Write", `{"file_path": ".env", "content": "A=2\nTOKEN=[REDACTED:token]\n"}`, "line 2 has [REDACTED:token]"},
		{"Write", `{"file_path": "new", "content": "A=2\nTOKEN=[REDACTED:token]\n"}`, "line 2 has [REDACTED:token]"},
		{"Write", `{"file_path": "both", "content": "[REDACTED:token]\n[REDACTED:token]\n"}`, "line 1 has [REDACTED:token]"},
		{"workspace_write_file", `{"path": ".env", "content": "TOKEN=[REDACTED:token]\n"}`, "line 1 has [REDACTED:token]"},
		{"Edit", `{"file_path": ".env", "old_string": "A=1", "new_string": "B=[REDACTED:token]"}`, "line 1 has [REDACTED:token]"},
		{"MultiEdit", `{"file_path": ".env", "edits": [{"old_string": "A=1", "new_string": "B=[REDACTED:token]"}]}`, "line 1 has [REDACTED:token]"},
		{"workspace_edit_file", `{"path": ".env", "old": "A=1", "new": "B=[REDACTED:token]"}`, "line 1 has [REDACTED:token]"},
		{"Edit", `{"file_path": ".env", "old_string": "TOKEN=[REDACTED:token]", "new_string": "TOKEN=x"}`, "not found in .env: [REDACTED:token] stands for a hidden value"},
		{"apply_patch", `{"patch": "*** Begin Patch\n*** Update File: .env\n@@\n-A=1\n+A=[REDACTED:token]\n*** End Patch\n"}`, "line 1 has [REDACTED:token]"},
		{"apply_patch", `{"patch": "*** Begin Patch\n*** Add File: new\n+A=[REDACTED:token]\n*** End Patch\n"}`, "line 1 has [REDACTED:token]"},
		{"apply_patch", `{"patch": "*** Begin Patch\n*** Update File: .env\n@@\n-A=1\n+A=2\n TOKEN=[REDACTED:token]\n*** End Patch\n"}`, "[REDACTED:token] stands for a hidden value"},
		{"edit_function_body", `{"file_path": "a.go", "function_name": "T.F", "new_body": "return \"[REDACTED:token]\""}`, "[REDACTED:token], which stands for"},
		{"insert_after_method", `{"file_path": "a.go", "receiver_type": "T", "method_name": "F", "new_method": "func (T) G() string { return \"[REDACTED:token]\" }"}`, "[REDACTED:token], which stands for"},
		{"edit_code", `{"file_path": "a.go", "action": "body", "name": "T.F", "code": "return \"[REDACTED:token]\""}`, "[REDACTED:token], which stands for"},
	} {
		if text, err := run(tt.tool, tt.args); err == nil || !strings.Contains(tool.ErrorText(err), tt.want) {
			t.Errorf("%s(%s): %q, %v, want an error with %q", tt.tool, tt.args, text, err, tt.want)
		}
	}
	for name, want := range files {
		if got, err := ws.ReadFile(t.Context(), name); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v, want %q", name, got, err, want)
		}
	}
	if _, err := ws.Stat(t.Context(), "new", nil); fault.Of(err) != fault.NotFound {
		t.Errorf("a new file was written: %v", err)
	}
	for _, tt := range []struct{ tool, args string }{
		{"Edit", `{"file_path": ".env", "old_string": "A=1", "new_string": "A=2"}`},
		{"Edit", `{"file_path": "doc", "old_string": "such as", "new_string": "[REDACTED:token] and"}`},
		{"Write", `{"file_path": "doc", "content": "[REDACTED:token] is a mark\n"}`},
		{"Write", `{"file_path": "new", "content": "[REDACTED:\n[REDACTED:]\n"}`},
	} {
		if _, err := run(tt.tool, tt.args); err != nil {
			t.Errorf("%s(%s): %v", tt.tool, tt.args, err)
		}
	}
	if got, err := ws.ReadFile(t.Context(), ".env"); err != nil || string(got) != "A=2\nTOKEN=correct-horse\n" {
		t.Errorf("after an edit of another line .env is %q, %v", got, err)
	}
}
