// Package evals has what croft adds to package eval: the runs of a server ([Runs]), and the sandboxes
// ([Sandboxes]) and tools ([Tools]) of a run on the command line.
package evals
