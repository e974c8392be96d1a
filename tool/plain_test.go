package tool_test

import (
	"strings"
	"testing"

	"github.com/croft-run/croft/tool"
)

func TestCommandOutputHasNoControlSequences(t *testing.T) {
	env := coding(t, "w")
	got := ok(t, env, "Bash", `{"command":"printf '\\033[31mred\\033[0m \\033]0;title\\007end\\n'"}`)
	if !strings.Contains(got, "red end\n") || strings.ContainsRune(got, 0x1b) {
		t.Errorf("output for the model: %q, want \"red end\"", got)
	}
}

func TestErrorsDoNotStutter(t *testing.T) {
	for text, want := range map[string]string{
		"read: read a.txt: not found":     "read a.txt: not found",
		"x: x: x: bad":                    "x: bad",
		"edit a: conflict: changed":       "edit a: conflict: changed",
		"undo: undo: no edit\nx: x: kept": "undo: no edit\nx: x: kept",
	} {
		if got := tool.WithoutStutter(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
