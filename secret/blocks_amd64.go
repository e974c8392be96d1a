package secret

import "golang.org/x/sys/cpu"

// hasBlocks says that there is a nextPlace.
var hasBlocks = cpu.X86.HasAVX2 && cpu.X86.HasBMI1

// nextPlace returns the first place in the n bytes at p that is one of the groups,
// and whose four bytes have a hash that is in four. Where found is false there is
// none before at, and what is left there is shorter than blockReach.
//
//go:noescape
func nextPlace(in *groups, four *[1024]uint64, p *byte, n int) (at int, found bool)
