//go:build race

package testenv

// Race reports whether the race detector is on, which takes about ten times the memory
// and the time. It is for bounds, never for what is tested.
const Race = true
