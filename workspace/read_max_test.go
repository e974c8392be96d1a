package workspace_test

import (
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// TestReadFileMax: a file that is too large is refused instead of being held.
func TestReadFileMax(t *testing.T) {
	ws := openMemory(t)
	if _, err := ws.WriteFile(t.Context(), "f", []byte("12345"), nil); err != nil {
		t.Fatal(err)
	}
	if data, err := ws.ReadFileMax(t.Context(), "f", 5); err != nil || string(data) != "12345" {
		t.Errorf("a file of as many bytes: %q, %v", data, err)
	}
	if _, err := ws.ReadFileMax(t.Context(), "f", 4); fault.Of(err) != fault.ResourceExhausted {
		t.Errorf("a file of one byte more: %v, want %v", err, fault.ResourceExhausted)
	}
	edits := []workspace.Edit{{Old: "1", New: strings.Repeat("1", driver.MaxEdit), All: true}}
	if _, err := ws.Edit(t.Context(), "f", edits, nil); fault.Of(err) != fault.ResourceExhausted {
		t.Errorf("an edit that makes it too large: %v, want %v", err, fault.ResourceExhausted)
	}
}
