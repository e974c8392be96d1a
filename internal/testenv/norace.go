//go:build !race

package testenv

// Race reports whether the race detector is at work, which takes about ten times
// the memory and the time: for bounds, never for what is tested.
const Race = false
