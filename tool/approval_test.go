package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// TestRulesHoldForAllThatACallIsAbout: a file is not only changed by who names it
// first.
func TestRulesHoldForAllThatACallIsAbout(t *testing.T) {
	rule, err := tool.ParseRule("deny:*(.env)")
	if err != nil {
		t.Fatal(err)
	}
	env := newEnv(t, tool.Config{Tools: tool.Coding(), Workspaces: newSet(t, "w"), Approval: &tool.Approval{Rules: []tool.Rule{rule}}})
	put(t, env, "w", "f", "x\n")
	put(t, env, "w", ".env", "S=1\n")
	for name, args := range map[string]string{
		"Read":        `{"file_path":"./a/../.env"}`,
		"move":        `{"from":"f","to":"./.env","overwrite":true}`,
		"apply_patch": `{"patch":"*** Begin Patch\n*** Update File: f\n@@\n-x\n+y\n*** Delete File: .env\n*** End Patch\n"}`,
	} {
		refused(t, env, name, args, fault.PermissionDenied)
	}
	refused(t, env, "apply_patch", `{"patch":"*** Begin Patch\n*** Update File: f\n*** Move to: .env\n*** End Patch\n"}`, fault.PermissionDenied)
	ok(t, env, "apply_patch", `{"patch":"*** Begin Patch\n*** Update File: f\n@@\n-x\n+y\n*** End Patch\n"}`)
	ok(t, env, "move", `{"from":"f","to":"g"}`)
}

// TestRulesHoldWhereAPathLeads: a symlink is a name like any other, and a rule that
// is passed by one is none.
func TestRulesHoldWhereAPathLeads(t *testing.T) {
	var rules []tool.Rule
	for _, s := range []string{"deny:*(.env)", "deny:*(private/*)"} {
		r, err := tool.ParseRule(s)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	env := newEnv(t, tool.Config{Tools: append(tool.Coding(), tool.Workspace()...), Workspaces: newSet(t, "w"), Approval: &tool.Approval{Rules: rules}})
	for _, name := range []string{"f", ".env", "private/key", "a/b/f"} {
		put(t, env, "w", name, "x\n")
	}
	ws, err := env.Workspaces.Get(t.Context(), "w")
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"link": ".env", "twice": "link", "a/up": "../.env", "dir": "private", "a/b/out": "../../dir", "a/top": "..", "good": "f", "loop": "loop", "new": "private/new",
	} {
		if err := ws.Symlink(t.Context(), target, name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"link", "./link", "twice", "a/up", "dir/key", "a/b/out/key", "a/top/.env", "a/top/a/top/link", ws.Traits().Root + "/link"} {
		refused(t, env, "Read", `{"file_path":"`+name+`"}`, fault.PermissionDenied)
		refused(t, env, "workspace_read_file", `{"path":"`+name+`"}`, fault.PermissionDenied)
		if data, err := env.Resource(t.Context(), "", "w", name); name[0] != '/' && fault.Of(err) != fault.PermissionDenied {
			t.Errorf("the resource %s is %q, %v; want it refused", name, data, err)
		}
	}
	for name, args := range map[string]string{
		"Write":         `{"file_path":"dir/made","content":""}`, // where nothing is yet
		"move":          `{"from":"f","to":"dir/f"}`,
		"apply_patch":   `{"patch":"*** Begin Patch\n*** Delete File: dir/key\n*** End Patch\n"}`,
		"list":          `{"path":"dir/../dir/key"}`,
		"workspace_run": `{"cmd":".env"}`,
	} {
		refused(t, env, name, args, fault.PermissionDenied)
	}
	refused(t, env, "Write", `{"file_path":"new","content":""}`, fault.PermissionDenied)
	for _, name := range []string{"f", "good", "a/top/good", "a/b/f"} {
		ok(t, env, "Read", `{"file_path":"`+name+`"}`)
	}
	if _, err := env.Resource(t.Context(), "", "w", "good"); err != nil {
		t.Error(err)
	}
	if text, err := call(t, env, "Read", `{"file_path":"loop"}`); err == nil || fault.Of(err) == fault.PermissionDenied {
		t.Errorf("a loop is %q, %v", text, err)
	}
}

// TestApprovalNamesWhereAPathLeads: who is asked sees what it is about.
func TestApprovalNamesWhereAPathLeads(t *testing.T) {
	rule, err := tool.ParseRule("ask:Read(.env)")
	if err != nil {
		t.Fatal(err)
	}
	env := newEnv(t, tool.Config{Tools: tool.Coding(), Workspaces: newSet(t, "w"), Approval: &tool.Approval{Rules: []tool.Rule{rule}}})
	put(t, env, "w", ".env", "x\n")
	ws, err := env.Workspaces.Get(t.Context(), "w")
	if err != nil {
		t.Fatal(err)
	}
	if err := ws.Symlink(t.Context(), ".env", "harmless"); err != nil {
		t.Fatal(err)
	}
	var asked string
	_, err = env.Run(t.Context(), tool.Request{Tool: "Read", Args: json.RawMessage(`{"file_path":"harmless"}`), Ask: func(_ context.Context, question string) (bool, error) {
		asked = question
		return true, nil
	}})
	if want := "Allow Read in workspace w? harmless (which is .env)"; err != nil || asked != want {
		t.Errorf("asked %q, %v; want %q", asked, err, want)
	}
}

// TestRulesHoldForMarkedArguments: the kind of an argument decides, wherever it is in
// the input and whatever it is called.
func TestRulesHoldForMarkedArguments(t *testing.T) {
	rule, err := tool.ParseRule("deny:*(.env)")
	if err != nil {
		t.Fatal(err)
	}
	type part struct {
		Whence string `json:"whence,omitempty" croft:"path"`
		Why    string `json:"why,omitempty"`
	}
	type input struct {
		Command string          `json:"command,omitempty" croft:"command"`
		Words   []string        `json:"words,omitempty" croft:"word"`
		Place   string          `json:"place,omitempty" croft:"path"`
		Many    []string        `json:"many,omitempty" croft:"path"`
		Parts   []part          `json:"parts,omitempty"`
		One     *part           `json:"one,omitempty"`
		Named   map[string]part `json:"named,omitempty"`
		Change  string          `json:"change,omitempty" croft:"patch"`
		Path    string          `json:"path,omitempty"`
	}
	ran := false
	probe := tool.New(tool.Spec{Name: "probe"}, func(context.Context, *tool.Call, input) (tool.Message, error) {
		ran = true
		return tool.Message{}, nil
	})
	env := newEnv(t, tool.Config{Tools: []*tool.Tool{probe}, Workspaces: newSet(t, "w"), Approval: &tool.Approval{Rules: []tool.Rule{rule}}})
	for args, want := range map[string]bool{
		`{"place":"./x/../.env"}`:                                    false,
		`{"command":"ls","place":".env"}`:                            false,
		`{"command":".env"}`:                                         false,
		`{"command":".env","words":["x"]}`:                           true,
		`{"many":["a","b",".env"]}`:                                  false,
		`{"parts":[{"whence":"a"},{"whence":".env"}]}`:               false,
		`{"parts":[{"whence":"a","WHENCE":".env"}]}`:                 false,
		`{"parts":[{"whence":"workspace://.env"}]}`:                  false,
		`{"one":{"whence":".env"}}`:                                  false,
		`{"named":{"a":{"whence":".env"}}}`:                          false,
		`{"change":"--- a/.env\n+++ b/.env\n@@ -1 +1 @@\n-a\n+b\n"}`: false,
		`{"path":".env"}`:                                            true, // it is not marked
		`{"parts":[{"why":".env"}],"many":["a"]}`:                    true,
	} {
		ran = false
		_, err := env.Run(t.Context(), tool.Request{Tool: "probe", Args: json.RawMessage(args)})
		if ran != want || (err == nil) != want {
			t.Errorf("%s: ran %v, %v; want it to run: %v", args, ran, err, want)
		}
	}
}

// marked are tools of a workspace: one says what its arguments are, one does not.
type marked struct{ ran *bool }

func (m marked) Tools() []driver.Tool {
	in := json.RawMessage(`{"type":"object","properties":{"what":{"type":"array","items":{"type":"object","properties":{"x":{"type":"string"}}}},"text":{"type":"string"}}}`)
	call := func(context.Context, json.RawMessage) (driver.ToolResult, error) {
		*m.ran = true
		return driver.ToolResult{}, nil
	}
	return []driver.Tool{
		{Name: "says", Input: in, Call: call, Arguments: map[string]driver.ArgumentKind{"what": driver.ArgPath}},
		{Name: "silent", Input: in, Call: call},
	}
}

// TestRulesHoldForToolsOfWorkspaces: of a tool that does not say which of its arguments
// are paths each string is one.
func TestRulesHoldForToolsOfWorkspaces(t *testing.T) {
	rule, err := tool.ParseRule("deny:*(.env)")
	if err != nil {
		t.Fatal(err)
	}
	ran := false
	source := func(*workspace.Workspace) driver.ToolSource { return marked{&ran} }
	env := newEnv(t, tool.Config{Workspaces: newSet(t, "w"), Sources: []tool.Source{source}, Approval: &tool.Approval{Rules: []tool.Rule{rule}}})
	for _, tt := range []struct {
		tool, args string
		want       bool
	}{
		{"says", `{"what":[{"x":"./.env"}]}`, false},
		{"says", `{"text":".env"}`, true},
		{"silent", `{"what":[{"x":"a"},{"x":"./.env"}]}`, false},
		{"silent", `{"text":".env"}`, false},
		{"silent", `{"text":"env","workspace":"w"}`, true},
	} {
		ran = false
		_, err := env.Run(t.Context(), tool.Request{Tool: tt.tool, Args: json.RawMessage(tt.args)})
		if ran != tt.want || (err == nil) != tt.want {
			t.Errorf("%s: ran %v, %v; want it to run: %v", fmt.Sprint(tt.tool, tt.args), ran, err, tt.want)
		}
	}
}
