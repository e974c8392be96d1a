package sandbox

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// TestMissingGuestIsTheError: without croft-guest the error names it once, and not every
// level of isolation that it keeps from working.
func TestMissingGuestIsTheError(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "croft-guest")
	p, err := New(&Config{Root: filepath.Join(t.TempDir(), "ws"), Guest: missing})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Open(t.Context(), driver.Spec{Kind: "sandbox", ID: workspace.NewID()})
	if fault.Of(err) != fault.NotFound || strings.Count(err.Error(), missing) != 1 || strings.Contains(err.Error(), "tried") {
		t.Errorf("got %v, want one NotFound of %s", err, missing)
	}
}
