// Package codeblock extracts code blocks from the text of a model and runs them in a
// workspace.
//
//	blocks, err := codeblock.Extract(reply, nil)
//	res, err := codeblock.Run(ctx, ws, blocks, nil)
//
// Blocks follow CommonMark: a fence is a line with at least three backticks or tildes,
// a block ends at a fence of the same character that is at least as long, and backticks
// within a line are inline code. Fences in list items are found, too; there code may
// have less indent than its fence, because models write it so. A block without a
// closing fence is not run, because it may be incomplete.
//
// Each block becomes a file below src in the workspace. The interpreter of its language
// runs it inside the sandbox. Blocks run in order until one fails. The result lists the
// files that the blocks wrote below out.
package codeblock
