// Package wrap documents the decorators of providers; each is a package of its own.
//
// A decorator takes a provider and returns one with additional behaviour. No
// decorator depends on a certain provider, and none loses a module: the tests here
// run a stack of decorators against the whole conformance suite.
//
//	cmdpolicy     checks the command policy before commands run
//	concurrency   bounds the commands of a server
//	interpreters  adds code and scripts
//	limit         bounds workspaces, calls, and calls per second
//	pool          keeps workspaces ready
//	record        writes a log of every call
//	retry         repeats transient failures
//
// Most are made with driver.Around. driver.Find finds a provider below them.
package wrap
