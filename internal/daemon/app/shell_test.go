package app_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// serveShell serves a data directory with a provider that has commands.
func serveShell(t testing.TB, dir string) (sys *app.System, url string) {
	t.Helper()
	p, err := testshell.New(filepath.Join(dir, "shelltest"))
	if err != nil {
		t.Fatal(err)
	}
	return serveWith(t, app.Config{DataDir: dir, Settings: settings(t, "version: 1\nserver: {providers: [shelltest]}\n"), Providers: []driver.Provider{p}})
}

// TestRemoteOverShell is what the suite says of commands. The provider below is
// no more than that.
//
//croft:slow
//croft:slow-race ^(Concurrency|Shell|Sessions|Watch)
func TestRemoteOverShell(t *testing.T) {
	all := workspacetest.Checks
	workspacetest.Checks = slices.DeleteFunc(slices.Clone(all), func(c workspacetest.Check) bool { return !strings.HasPrefix(c.Name, "Shell/") })
	t.Cleanup(func() { workspacetest.Checks = all })
	if len(workspacetest.Checks) < 30 {
		t.Errorf("the suite has %d checks of commands", len(workspacetest.Checks))
	}
	workspacetest.Run(t, workspacetest.Harness{
		SessionsEnd: true,
		Provider: func(t testing.TB, dir string) driver.Provider {
			sys, url := serveShell(t, filepath.Join(dir, "data"))
			p, err := client.New(client.Config{URL: url, Token: sys.Token, Client: "suite", Kind: testshell.Kind})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Client.Close)
			return p
		},
	})
}
