package daemon_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/croft-run/croft/daemon"
	"github.com/croft-run/croft/workspace/driver"
)

// named is a provider of another kind.
type named struct{ driver.Provider }

func (named) Kind() string { return "mine" }

func (named) Probe(context.Context) (driver.Traits, error) { return driver.Traits{Root: "/mine"}, nil }

func (named) Features() driver.Features { return driver.Features{} }

func (named) Close() error { return nil }

func (named) Sweep(context.Context, []string) error { return nil }

// runReplica is croft as the tests of replicas start it; nil where they do not run.
var runReplica func() int

// TestMain lets the test be the program that it tests, as a user would build it.
func TestMain(m *testing.M) {
	if runReplica != nil && os.Getenv("DAEMON_TEST_REPLICA") != "" {
		os.Exit(runReplica())
	}
	if os.Getenv("DAEMON_TEST_MAIN") != "" {
		os.Exit(daemon.Main(named{}))
	}
	os.Exit(m.Run())
}

func TestMainHasTheProvidersOfTheCaller(t *testing.T) {
	croft := func(args ...string) (string, string, int) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
		cmd.Env = append(os.Environ(), "DAEMON_TEST_MAIN=1", "CROFT_DATA="+t.TempDir(), "HOME="+t.TempDir())
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return out.String(), errs.String(), cmd.ProcessState.ExitCode()
	}
	out, errs, status := croft("provider", "list", "--json")
	for _, kind := range []string{"mine", "local", "memory", "filestore"} {
		if !strings.Contains(out, `"kind": "`+kind+`"`) {
			t.Errorf("provider list lacks %s: %s %s", kind, out, errs)
		}
	}
	if status != 0 {
		t.Errorf("provider list ends with %d: %s", status, errs)
	}
	if _, errs, status := croft("ws", "list", "--provider", "nope"); status != 10 || !strings.Contains(errs, "mine") {
		t.Errorf("a kind that is none ends with %d: %s; want 10 and the kinds that there are", status, errs)
	}
	if _, _, status := croft("nonsense"); status != 2 {
		t.Errorf("nonsense ends with %d, want 2", status)
	}
}
