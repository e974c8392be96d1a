package lsp

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace"
)

// TestInSandbox runs gopls in the sandbox: it sees the files of the workspace
// and the Go below /usr/local, has no network, and what it starts is inside, too.
func TestInSandbox(t *testing.T) {
	if _, err := os.Stat("/usr/local/bin/gopls"); err != nil {
		t.Skip("skipped: host: it lacks gopls in /usr/local/bin, where a sandbox sees it")
	}
	p, err := sandbox.New(&sandbox.Config{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	if _, err := p.Probe(t.Context()); err != nil {
		t.Skipf("skipped: host: it lacks isolation: %v", err)
	}
	ws, err := workspace.NewMux(p).Open(t.Context(), workspace.Spec{Kind: sandbox.Kind, ID: workspace.NewID()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Destroy(context.WithoutCancel(t.Context())) })
	put := func(name, text string) {
		t.Helper()
		if _, err := ws.WriteFile(t.Context(), name, []byte(text), &workspace.WriteOptions{Parents: true}); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range goFiles {
		put(name, text)
	}
	s := newSet(t, ws)
	got, _, err := s.References(t.Context(), "util/add.go", 4, 6)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 {
		t.Errorf("references = %v, want 3", show(got))
	}
	put("util/add.go", "package util\n\nfunc Add(a, b int) int { return a + c }\n")
	list, err := s.Diagnostics(t.Context(), "util/add.go")
	if err != nil || len(list) != 1 || !strings.Contains(list[0].Message, "undefined: c") {
		t.Errorf("diagnostics = %+v, %v", list, err)
	}
	// Some may end meanwhile, which is no matter.
	out, err := ws.Command(t.Context(), "sh", "-c", "cat /proc/[0-9]*/comm 2>/dev/null; true").Output()
	if err != nil || !strings.Contains(string(out), "gopls") {
		t.Errorf("processes inside = %q, %v, want gopls among them", out, err)
	}
}
