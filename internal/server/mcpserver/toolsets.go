package mcpserver

import (
	"fmt"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace/driver"
)

// A Toolset is a set of tools: one of the names below, or a list of ChooseTools.
type Toolset string

// Toolsets.
const (
	Default   Toolset = "default"   // few tools with many uses; each request of an agent carries their description
	Full      Toolset = "full"      // every tool without the prefix workspace_
	CodeGen   Toolset = "codegen"   // the tools of CodeGen-Sandbox, by its names
	Workspace Toolset = "workspace" // the tools with the prefix workspace_
	Both      Toolset = "both"      // every tool
)

var defaultTools = []string{
	"Read", "Write", "Edit", "Glob", "Grep", "search_code", "Bash", "BashOutput", "KillShell",
	"run_tests", "check", "symbol", "rename_symbol", "edit_code", "profile",
	"snapshot", "snapshot_restore", "undo", "diff", "fork", "apply",
	// Offered only where a secret, a skill or the network is there.
	"secret", "secrets_available", "skill_load", "skill_run", "web_fetch",
}

var codegenTools = []string{
	"Read", "Write", "Edit", "Glob", "Grep", "search_code",
	"Bash", "BashOutput", "KillShell", "watch_process", "watch_process_events",
	"run_tests", "run_lint", "run_typecheck", "run_script", "last_test_failures", "run_failing_tests", "tests_covering",
	"edit_function_body", "change_function_signature", "insert_after_method",
	"find_definition", "find_references", "rename_symbol",
	"snapshot_create", "snapshot_list", "snapshot_restore", "snapshot_diff",
	"secret", "secrets_available", "render_mermaid", "render_dot",
}

// ParseToolset reads the name of a toolset; "" is Default.
func ParseToolset(s string) (Toolset, error) {
	switch t := Toolset(s); t {
	case "":
		return Default, nil
	case Default, Full, CodeGen, Workspace, Both:
		return t, nil
	}
	return "", fault.Advise(fmt.Errorf("mcpserver: toolset %q: %w", s, fault.InvalidArgument),
		"give default, full, codegen, workspace or both")
}

// ChooseTools returns a toolset of these tools alone. Names that no tool has are ignored.
func ChooseTools(names []string) Toolset {
	return Toolset(strings.Join(names, ",") + ",")
}

// contains reports whether a tool is in the set. Tools of providers are in every set that
// has a name.
func (t Toolset) contains(x *tool.Tool) bool {
	if names, chosen := strings.CutSuffix(string(t), ","); chosen {
		return slices.Contains(strings.Split(names, ","), x.Name)
	}
	prefixed := strings.HasPrefix(x.Name, driver.ReservedToolPrefix)
	switch t {
	case Both:
		return true
	case Workspace:
		return prefixed || x.Family == tool.Extra
	case CodeGen:
		return slices.Contains(codegenTools, x.Name) || x.Family == tool.Extra && !x.BuiltIn
	case Default:
		return slices.Contains(defaultTools, x.Name) || x.Family == tool.Extra && !x.BuiltIn
	}
	return !prefixed
}
