package cmdpolicy

import (
	"context"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/cmdpolicy"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/workspace/driver"
)

func TestCommandsAreJudged(t *testing.T) {
	inner, err := testshell.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p, err := Wrap(inner, &cmdpolicy.Options{
		Commands: cmdpolicy.Commands{Deny: []string{"tac"}}, Env: cmdpolicy.Env{Deny: []string{"BAD_*"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ws, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: testshell.Kind})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Life.Destroy(context.WithoutCancel(t.Context())) })
	again, err := p.Resolve(t.Context(), ws.Ref)
	if err != nil {
		t.Fatal(err)
	}
	for name, ws := range map[string]*driver.Workspace{"opened": ws, "resolved": again} {
		for _, tt := range []struct {
			cmd  driver.Command
			want fault.Code
		}{
			{driver.Command{Argv: []string{"true"}}, ""},
			{driver.Command{Argv: []string{"tac", "f"}}, fault.SandboxViolation},
			{driver.Command{Script: "true; tac f"}, fault.SandboxViolation},
			{driver.Command{Argv: []string{"true"}, Env: map[string]string{"BAD_X": "1"}}, fault.PermissionDenied},
		} {
			s, err := ws.Shell.Start(t.Context(), tt.cmd)
			if fault.Of(err) != tt.want {
				t.Errorf("%s: %v: %v, want %q", name, tt.cmd, err, tt.want)
			}
			if err == nil {
				if _, err := s.Wait(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
	}
}
