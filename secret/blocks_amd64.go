package secret

import "golang.org/x/sys/cpu"

// hasBlocks says that there is a nextPlace.
var hasBlocks = cpu.X86.HasAVX2 && cpu.X86.HasBMI1

// hasWide says that there is a nextWide, too. Processors with tables of 128 bytes do
// not lower their clock for wide blocks.
var hasWide = hasBlocks && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VBMI

// nextPlace returns the first place in the n bytes at p that is one of the groups,
// and whose four bytes have a hash that is in four. Where found is false there is
// none before at, and what is left there is shorter than blockReach.
//
//go:noescape
func nextPlace(in *groups, four *[1024]uint64, p *byte, n int) (at int, found bool)

// nextWide is nextPlace by whole bytes, at 64 places at once. Where found is false
// what is left is shorter than wideReach.
//
//go:noescape
func nextWide(in *groups, four *[1024]uint64, p *byte, n int) (at int, found bool)
