// Package workspacetest is the conformance suite for providers: it checks the contract
// of package driver. It is published, so that providers outside this module can use it.
//
// A provider's whole contract test is one function:
//
//	func TestConformance(t *testing.T) {
//		workspacetest.Run(t, workspacetest.Harness{
//			Provider: func(t testing.TB, dir string) driver.Provider { ... },
//		})
//	}
//
// [Run] runs [Checks], a flat list. Each check is a subtest with its own directory,
// provider and workspaces, and tries to refute one sentence of the contract. A check is
// skipped for three reasons only, and the message says which: a module or function is
// absent, the Traits do not claim the property, or the host lacks the named facility.
// No check depends on the name of a provider.
//
// Some promises are about the crash of a process. For these the suite starts the test
// binary again as a child that runs only the test which called Run. In a child, Run does
// the job that the parent passed, and crashes at the given step. So everything that the
// test does before Run also happens in every child.
//
// One check kills a process that writes, repeatedly at random moments: ten times, or
// CROFT_WORKSPACETEST_ROUNDS times.
//
// [Bench] measures the same provider, and [Scripted] is a provider that fails on
// command, for tests of the packages above providers.
package workspacetest
