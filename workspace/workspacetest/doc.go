// Package workspacetest is the conformance suite of the contract in package
// driver, published so that a provider written anywhere can be held against it.
//
// A provider's whole contract test is one function:
//
//	func TestConformance(t *testing.T) {
//		workspacetest.Run(t, workspacetest.Harness{
//			Provider: func(t testing.TB, dir string) driver.Provider { ... },
//		})
//	}
//
// [Run] goes through [Checks], a flat list. Each check is a subtest of its own
// with a fresh directory, a fresh provider and fresh workspaces, and each is a
// sentence of the contract turned into an attempt to refute it. A check is
// skipped for three reasons only, and the message says which: a module or
// function is absent, the Traits do not claim the property, or the host lacks a
// facility that is named. No provider is ever named.
//
// Some promises are about the death of a process. For these the suite starts
// the test binary again as a child that runs only the test which called Run; Run
// sees that it is in a child, does the job that the parent gave it, and dies
// where it was told to. So whatever that test does before Run happens in every
// child, too.
//
// One of them kills a process that writes, again and again at random moments: ten
// times, or as often as CROFT_WORKSPACETEST_ROUNDS says.
//
// [Bench] measures the same provider, and [Scripted] is a provider that fails on
// command, for the tests of what stands above providers.
package workspacetest
