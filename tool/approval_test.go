package tool_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/tool"
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
		if data, err := env.Resource(t.Context(), "w", name); name[0] != '/' && fault.Of(err) != fault.PermissionDenied {
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
	if _, err := env.Resource(t.Context(), "w", "good"); err != nil {
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
