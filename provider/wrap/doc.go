// Package wrap is the place of the decorators, each in a package of its own: it
// takes a provider and returns one that does a little more. None knows which
// provider it wraps, and none loses a module, which the tests here prove by
// holding a stack of them against the whole conformance suite.
//
//	capped    bounds the commands of a server
//	coded     adds code and scripts
//	guarded   judges commands before they run
//	limit     bounds workspaces, calls, and calls a second
//	pool      keeps workspaces warm
//	record    writes down every call
//	retry     repeats what fails for a while
//
// Most are made of driver.Around. What looks for a provider below them uses
// driver.Find.
package wrap
