package snapshots

import (
	"strings"
	"testing"

	"github.com/croft-run/croft/workspace/driver"
)

// TestMissingFiles: an agent is told which files a snapshot lacks.
func TestMissingFiles(t *testing.T) {
	got := createOutput{newSnapshotOutput(driver.SnapshotInfo{ID: "i", Name: "n", Frozen: true, Missing: []driver.Skip{{Path: "a", Reason: driver.SkipVanished}}, MissingTotal: 3, Skipped: 1, SkippedPaths: []string{"pipe"}})}.Text()
	if want := "\nmissing: a: vanished\nmissing: 2 more\nleft out: 1 special file(s): pipe"; !strings.HasSuffix(got, want) {
		t.Errorf("%q, want %q at its end", got, want)
	}
}
