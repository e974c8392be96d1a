package workspacetest_test

import (
	"testing"

	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// Test a provider against the contract.
func ExampleRun() {
	p := new(memory.Provider)
	testConformance := func(t *testing.T) {
		workspacetest.Run(t, workspacetest.Harness{
			Provider:    func(testing.TB, string) driver.Provider { return p },
			SessionsEnd: true,
		})
	}
	_ = testConformance
}
