// Package codeblock finds the blocks of code in what a model wrote, and runs them
// in a workspace.
//
//	blocks, err := codeblock.Extract(reply, nil)
//	res, err := codeblock.Run(ctx, ws, blocks, nil)
//
// Blocks are found as CommonMark says: a fence is at least three backticks or
// tildes on a line of their own, the end of a block is a fence of the same
// character that is at least as long, and ticks within a line are none. Fences in the
// items of lists are found, too, where code may have less indent than its fence, as
// models write it. What is written without an end is not run: it may be half of what
// was meant.
//
// Each block becomes a file below src in the workspace and is run by the
// interpreter of its language there, behind the fence, in order, until one fails.
// What the blocks leave below out is in the result.
package codeblock
