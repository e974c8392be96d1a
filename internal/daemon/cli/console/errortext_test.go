package console

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
)

// TestErrorText: an error is shown without names of packages and ids, with what to do apart.
func TestErrorText(t *testing.T) {
	const id = "aaaaaaaaaaaaaaaaaaaa"
	invalid := func(text string) error { return fmt.Errorf("%s: %w", text, fault.InvalidArgument) }
	a := new(Console)
	a.named.Store(id, "demo")
	for _, tt := range []struct {
		err        error
		what, hint string
	}{
		{fault.Advise(fmt.Errorf(`registry: workspace "web": %w`, fault.AlreadyExists), "choose another name"), `workspace "web": already exists`, "choose another name"},
		{errors.New(`registry: open ` + id + `: sandbox: open: not found: no directory /x`), "no directory /x", ""},
		{errors.New(`registry: workspace "` + id + `": wrong state: it is paused`), `workspace "demo": wrong state: it is paused`, ""},
		{fault.Advise(invalid(`registry: create: unknown provider "x"`), "the providers are a, b"), `unknown provider "x"`, "the providers are a, b"},
		{fault.Advise(invalid(`registry: workspace name "A"`), "a name is %s", "x"), `workspace name "A" is not valid`, "a name is x"},
		{invalid(`app: API key: scope "all"`), `API key: scope "all" is not valid`, ""},
		{fault.WithHint(fmt.Errorf(`program "echo hi": %w`, fault.NotFound), fault.HintProgram, "echo hi"), `program "echo hi": not found`,
			"the program and its arguments are separate words, such as: -- echo hi; a shell command is: -- sh -c 'echo hi'"},
		{fault.WithHint(errors.New("gone"), fault.HintReset, "web"), "gone", "put it back, and run croft ws reset web"},
		{fault.WithHint(errors.New("refused"), fault.HintSetting, "host roots"), "refused", "hostRoots in croft.yaml lists them"},
		{fault.WithHint(errors.New("refused"), "a kind of a later version"), "refused", ""},
		{errors.New("not found"), "not found", ""},
		{errors.New("read: use of closed network connection"), "read: use of closed network connection", ""},
		{errors.New("data /x/" + id + "/files: failed"), "data /x/" + id + "/files: failed", ""},
		{fmt.Errorf("read: %w", fault.SandboxViolation), "read: sandbox violation", "give a path inside the workspace, such as src/main.go"},
	} {
		over := fault.Encode(fault.Default(tt.err, fault.Failed)).Err() // as a server answers
		for _, err := range []error{tt.err, over} {
			if what, hint := a.errorText(err); what != tt.what || hint != tt.hint {
				t.Errorf("%q: %q, hint %q; want %q, %q", err, what, hint, tt.what, tt.hint)
			}
		}
	}
	w := &Console{InWork: true}
	for want, h := range map[string]fault.Hint{
		"the path is inside the copy of the project": {Kind: fault.HintProgram, Args: []string{"./x"}},
		"install it on this host":                    {Kind: fault.HintProgram, Args: []string{"jq"}},
		"a builtin of the shell":                     {Kind: fault.HintProgram, Args: []string{"cd"}},
		"files of the work are its own":              {Kind: fault.HintDenied, Args: []string{"sudo"}},
		"--isolation none does without a sandbox":    {Kind: fault.HintDoctor},
	} {
		if _, hint := w.errorText(fault.WithHint(fault.NotFound, h.Kind, h.Args...)); !strings.Contains(hint, want) {
			t.Errorf("%v in croft work: hint %q, want %q", h, hint, want)
		}
	}
	conflict := func(name string) error {
		return fault.Advise(fmt.Errorf("registry: %s: %w", name, fault.Conflict), "choose x")
	}
	if what, hint := a.errorText(errors.Join(conflict("a"), conflict("b"))); what != "a: conflict\nb: conflict" || hint != "choose x" {
		t.Errorf("two errors: %q, hint %q", what, hint)
	}
}
