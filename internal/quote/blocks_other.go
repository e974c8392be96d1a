//go:build !amd64

package quote

const hasBlocks = false

func plainBlocks(*byte, int) (plain int, found bool) { return 0, false }

func copyBlocks(_, _ *byte, _ int) (plain int, found bool) { return 0, false }
