package cli

import (
	"errors"
	"fmt"
	"testing"

	"github.com/croft-run/croft/fault"
)

// TestErrorText: an error is shown without names of packages and ids, with what to do apart.
func TestErrorText(t *testing.T) {
	const id = "aaaaaaaaaaaaaaaaaaaa"
	a := &command{named: map[string]string{id: "demo"}}
	for _, tt := range []struct{ err, what, hint string }{
		{`registry: workspace "web": already exists: choose another name`, `workspace "web": already exists`, "choose another name"},
		{`registry: open ` + id + `: sandbox: open: not found: no directory /x`, "no directory /x", ""},
		{`registry: workspace "` + id + `": wrong state: it is paused`, `workspace "demo": wrong state: it is paused`, ""},
		{`registry: create: unknown provider "x": invalid argument: the providers are a, b`, `unknown provider "x"`, "the providers are a, b"},
		{`registry: workspace name "A": invalid argument: a name is x`, `workspace name "A" is not valid`, "a name is x"},
		{`app: API key: scope "all": invalid argument: the scopes are x`, `API key: scope "all" is not valid`, "the scopes are x"},
		{`program "echo hi": not found: not in PATH`, `program "echo hi": not found: not in PATH`,
			"the program and its arguments are separate words, such as: -- echo hi; a shell command is: -- sh -c 'echo hi'"},
		{"not found", "not found", ""},
		{"read: use of closed network connection", "read: use of closed network connection", ""},
		{"app: one: unavailable\nclient: two: give a token", "one: unavailable\ntwo", "give a token"},
		{"data /x/" + id + "/files: failed", "data /x/" + id + "/files: failed", ""},
	} {
		if what, hint := a.errorText(errors.New(tt.err)); what != tt.what || hint != tt.hint {
			t.Errorf("%q: %q, hint %q; want %q, %q", tt.err, what, hint, tt.what, tt.hint)
		}
	}
	w := &command{inWork: true}
	for err, want := range map[string]string{
		`program "./x": not found: no such file or directory`: workPathAdvice, `command uses denylisted token "sudo"`: workSudoAdvice,
		`isolation "gvisor": unsupported: tried x; croft doctor says it; --provider docker isolates, too`: "croft doctor says it; --isolation none does without a sandbox",
	} {
		if _, hint := w.errorText(errors.New(err)); hint != want {
			t.Errorf("%q in croft work: hint %q, want %q", err, hint, want)
		}
	}
	joined := errors.Join(fmt.Errorf("registry: a: %w: choose x", fault.Conflict), fmt.Errorf("registry: b: %w: choose x", fault.Conflict))
	if what, hint := a.errorText(joined); what != "a: conflict\nb: conflict" || hint != "choose x" {
		t.Errorf("two errors: %q, hint %q", what, hint)
	}
}
