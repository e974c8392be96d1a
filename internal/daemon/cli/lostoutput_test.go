package cli_test

import (
	"bytes"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/cli"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/workspace/driver"
)

// fullDisk is a stream to a file of a disk that is full.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
}

// endedSession returns a session of the workspace demo that has written hi. One that a command
// leaves behind ends with the command, as workspaces of the provider do.
func endedSession(t *testing.T, data string, p driver.Provider) (id string) {
	t.Helper()
	ctx := t.Context()
	sys, err := app.Open(ctx, app.Config{DataDir: data, Operator: true, Providers: []driver.Provider{p}})
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close(ctx)
	ws, err := app.NewLocal(sys).Open(ctx, "demo")
	if err != nil {
		t.Fatal(err)
	}
	session, err := ws.Start(ctx, driver.Command{Argv: []string{"echo", "hi"}, Detached: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	return session.ID()
}

// TestLostOutput: a command whose output could not be written says so, and does not succeed.
func TestLostOutput(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	p, err := testshell.New(filepath.Join(data, "shelltest"))
	if err != nil {
		t.Fatal(err)
	}
	croft := func(out, errs io.Writer, args ...string) int {
		return cli.Run(t.Context(), append([]string{"croft", "--data", data}, args...), console.Streams{In: strings.NewReader(""), Out: out,
			Err: errs}, p)
	}
	for _, args := range [][]string{
		{"ws", "open", "demo", "--provider", "shelltest"},
		{"ws", "exec", "demo", "--", "sh", "-c", "echo hi > file"},
	} {
		if status := croft(io.Discard, io.Discard, args...); status != 0 {
			t.Fatalf("%s: %d", args, status)
		}
	}
	session := endedSession(t, data, p)
	const full, croftItself = 16, 125
	for _, tt := range []struct {
		line   string
		status int
	}{
		{"ws exec demo -- echo hi", croftItself},
		{"ws exec demo -- sh -c echo${IFS}hi;exit${IFS}3", croftItself},
		{"ws exec demo --tty -- echo hi", croftItself},
		{"ws exec demo --json -- echo hi", croftItself},
		{"ws exec demo --detach -- true", croftItself},
		{"run --provider shelltest -- echo hi", croftItself},
		{"run --provider shelltest --tty -- echo hi", croftItself},
		{"script -c console.log(1)", croftItself},
		{"ws shell demo --session " + session, croftItself},
		{"ws logs demo " + session, full},
		{"ws logs -f demo " + session, full},
		{"ws ps demo", full},
		{"ws ps demo --json", full},
		{"ws list", full},
		{"ws show demo", full},
		{"ws cat demo file", full},
		{"ws get demo file -", full},
		{"ws ls demo", full},
		{"ws grep demo hi", full},
		{"events", full},
		{"events --follow", full},
		{"doctor", full},
		{"config print", full},
		{"completion bash", full},
		{"ws exec --help", full},
		{"--version", full},
		{"version", full},
		{"", full},
	} {
		var errs bytes.Buffer
		status := croft(fullDisk{}, &errs, strings.Fields(tt.line)...)
		if status != tt.status || !strings.Contains(errs.String(), "write standard output: no space left on device") {
			t.Errorf("croft %s: status %d, want %d: %s", tt.line, status, tt.status, &errs)
		}
	}
	for _, line := range []string{"ws exec demo -- sh -c echo${IFS}hi>&2", "script -c console.error(1)"} {
		if status := croft(io.Discard, fullDisk{}, strings.Fields(line)...); status != croftItself {
			t.Errorf("croft %s, whose standard error is full: status %d, want %d", line, status, croftItself)
		}
	}
}
