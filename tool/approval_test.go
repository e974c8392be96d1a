package tool_test

import (
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
