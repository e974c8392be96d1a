package memory_test

import (
	"testing"

	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

func TestConformance(t *testing.T) {
	workspacetest.Run(t, workspacetest.Harness{
		Provider: func(t testing.TB, _ string) driver.Provider {
			return &memory.Provider{Snapshots: snapshot.Open(snapshot.Dir(t.TempDir()), nil)}
		},
	})
}
