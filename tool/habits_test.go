package tool_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/cmdpolicy"
	"github.com/croft-run/croft/tool"
)

// TestHabitsOfModels: what models know from other tools works, or the error helps.
func TestHabitsOfModels(t *testing.T) {
	env := coding(t, "w")
	put(t, env, "w", "a.go", "package a\n\nvar X = 1\n")
	if got := ok(t, env, "Grep", args(t, "pattern", "x", "-i", true, "-n", true, "-A", 1)); !strings.Contains(got, "var X") {
		t.Errorf("Grep with the arguments of a shell: %q", got)
	}
	root := strings.TrimSpace(ok(t, env, "Bash", `{"command": "pwd", "timeout": 120000}`))
	if got := ok(t, env, "Glob", args(t, "pattern", root+"/*.go")); got != "a.go" {
		t.Errorf("Glob with an absolute pattern: %q", got)
	}
	if got := refused(t, env, "Read", args(t, "file_path", "A.go"), fault.NotFound); got != "stat A.go: no such file or directory; there is a.go" {
		t.Errorf("another case: %q", got)
	}
	denied := tool.CommandError(fmt.Errorf("cmdpolicy: %q: %s%w", "docker", cmdpolicy.TextDenied, fault.SandboxViolation))
	if got, want := tool.ErrorText(denied), `command rejected: "docker": command uses denylisted token`; !strings.HasPrefix(got, want) {
		t.Errorf("a refused command: %q, want %q", got, want)
	}
	for _, timeout := range []int{601, 9999, 700_000} {
		if got := refused(t, env, "Bash", args(t, "command", "true", "timeout", timeout), fault.InvalidArgument); got != "timeout must be between 1 and 600 seconds" {
			t.Errorf("timeout %d: %q", timeout, got)
		}
	}
}

// TestReadOnlyToolsAreOfUse: a read-only server does not offer the events of commands that it does
// not start.
func TestReadOnlyToolsAreOfUse(t *testing.T) {
	env := newEnv(t, tool.Config{Tools: tool.Coding(), Workspaces: newSet(t, "w"), ReadOnly: true})
	list, err := env.Available(t.Context(), "")
	if err != nil || len(list) == 0 || slices.ContainsFunc(list, func(x *tool.Tool) bool { return strings.HasPrefix(x.Name, "watch_process") }) {
		t.Errorf("a read-only server offers %d tools, %v, or watch_process_events", len(list), err)
	}
}
