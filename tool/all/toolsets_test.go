package all_test

import (
	"strings"
	"testing"

	"github.com/croft-run/croft/tool/all"
	"github.com/croft-run/croft/workspace/driver"
)

// TestToolsAreInTheirSet: a client gets the tools of a set by their names, so that
// one with the wrong kind of name would be in none.
func TestToolsAreInTheirSet(t *testing.T) {
	for _, x := range all.Coding() {
		if strings.HasPrefix(x.Name, driver.ReservedToolPrefix) {
			t.Errorf("%s is a tool for code, and no client that wants those gets it", x.Name)
		}
	}
	for _, x := range all.Workspace() {
		if !strings.HasPrefix(x.Name, driver.ReservedToolPrefix) {
			t.Errorf("%s is a plain tool, and no client that wants those gets it", x.Name)
		}
	}
}
