// Package openfiles knows how many files this process was allowed to have open when it
// began. Go raises that to as many as it may get, and package syscall gives its children
// what was there before; who makes children in another way must do so, too, and can't
// ask: by then it is raised. The package imports nothing, and must not: see given.
package openfiles

// A Limit is as the kernel has it.
type Limit struct{ Cur, Max uint64 }

// Given returns the limit that this process began with, and false where that is not
// known.
func Given() (Limit, bool) { return given, known }
