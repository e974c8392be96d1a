//go:build !amd64

package secret

const hasBlocks, hasWide = false, false

func nextPlace(*groups, *[1024]uint64, *byte, int) (at int, found bool) { return 0, false }

func nextWide(*groups, *[1024]uint64, *byte, int) (at int, found bool) { return 0, false }
