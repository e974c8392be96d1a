package quote

import "golang.org/x/sys/cpu"

// hasBlocks says that there are plainBlocks and copyBlocks.
var hasBlocks = cpu.X86.HasAVX2 && cpu.X86.HasBMI1

// plainBlocks returns how many of the n bytes at p a JSON string can hold as they
// are, if there is one that it can't (found). Else what follows is shorter than a
// block.
//
//go:noescape
func plainBlocks(p *byte, n int) (plain int, found bool)

// copyBlocks is plainBlocks that copies what it has looked at to where there are n
// bytes of room; what follows the plain bytes there is nothing of use.
//
//go:noescape
func copyBlocks(to, p *byte, n int) (plain int, found bool)
