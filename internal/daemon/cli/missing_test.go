package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/workspace/driver"
)

// lossy is a provider whose snapshots lack files.
type lossy struct{ driver.Provider }

func (p lossy) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	return p.lose(p.Provider.Open(ctx, spec))
}

func (p lossy) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	return p.lose(p.Provider.Resolve(ctx, ref))
}

func (p lossy) lose(ws *driver.Workspace, err error) (*driver.Workspace, error) {
	if err == nil {
		ws.Life.Snapshot = &driver.Snapshots{Snapshotter: p}
		ws.Ref.Capabilities = ws.Built()
	}
	return ws, err
}

var lost = []driver.Skip{{Path: "a", Reason: driver.SkipVanished}, {Path: "b\nc", Reason: driver.SkipUnreadable}}

func (lossy) Snapshot(_ context.Context, opts *driver.SnapshotOptions) (driver.SnapshotInfo, error) {
	if opts.Complete {
		return driver.SnapshotInfo{}, fmt.Errorf("test: %w: a file can't be read", fault.Unavailable)
	}
	return driver.SnapshotInfo{ID: driver.NewID(), Frozen: true, Missing: lost, MissingTotal: 5}, nil
}

// TestMissingFiles: what a snapshot lacks is named on standard error and in the
// JSON, and with --complete an error.
func TestMissingFiles(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	inner, err := testshell.New(filepath.Join(data, "shelltest"))
	if err != nil {
		t.Fatal(err)
	}
	croft := func(args ...string) (status int, stdout, stderr string) {
		var out, errs bytes.Buffer
		status = cli.Run(t.Context(), append([]string{"croft", "--data", data}, args...), console.Streams{In: strings.NewReader(""),
			Out: &out, Err: &errs}, lossy{inner})
		return status, out.String(), errs.String()
	}
	if status, _, stderr := croft("ws", "open", "demo", "--provider", "shelltest"); status != 0 {
		t.Fatalf("open: %d: %s", status, stderr)
	}
	status, _, stderr := croft("ws", "snapshot", "demo")
	if want := "missing: a: vanished\nmissing: \"b\\nc\": unreadable\nmissing: 3 more\n"; status != 0 || stderr != want {
		t.Errorf("snapshot: %d: %q, want %q", status, stderr, want)
	}
	status, stdout, _ := croft("ws", "snapshot", "demo", "--json")
	var got driver.SnapshotInfo
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != 0 {
		t.Fatalf("snapshot --json: %d: %v: %s", status, err, stdout)
	}
	if diff := cmp.Diff(lost, got.Missing); diff != "" || got.MissingTotal != 5 {
		t.Errorf("snapshot --json: %d missing, -want +got:\n%s", got.MissingTotal, diff)
	}
	if status, _, stderr := croft("ws", "snapshot", "demo", "--complete"); status == 0 || !strings.Contains(stderr, "a file can't be read") {
		t.Errorf("snapshot --complete: %d: %s", status, stderr)
	}
}
