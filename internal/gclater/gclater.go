// Package gclater makes garbage collection rare in the first second of a program: a short
// command ends before its few megabytes are worth a collection.
package gclater

import (
	"runtime/debug"
	"time"
)

// percent is the garbage collection percentage that the program was started with. It is
// changed in the initialization of this package, because that of other packages allocates
// some megabytes already: Go initializes packages in the order of their paths, each after
// those that it imports.
var percent = debug.SetGCPercent(800)

// Restore restores the percentage after a second.
func Restore() { time.AfterFunc(time.Second, func() { debug.SetGCPercent(percent) }) }
