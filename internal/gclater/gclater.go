// Package gclater makes garbage collection rare in the first second of a program: a short
// command ends before its few megabytes are worth a collection.
package gclater

import (
	"runtime/debug"
	"sync"
	"time"
)

// percent is the garbage collection percentage that the program was started with. It is
// changed in the initialization of this package, because that of other packages allocates
// some megabytes already: Go initializes packages in the order of their paths, each after
// those that it imports.
var percent = debug.SetGCPercent(800)

var mu sync.Mutex // guards percent after the initialization

// Restore restores the percentage after a second.
func Restore() {
	time.AfterFunc(time.Second, func() {
		mu.Lock()
		defer mu.Unlock()
		debug.SetGCPercent(percent)
	})
}

// Save makes garbage collection more frequent than by default, for a command that holds much
// and leaves more as garbage. Who sets GOGC has decided already. A limit of memory would be
// worse: where more than the limit is held, the program does nothing but collect.
func Save() {
	const usual, often = 100, 25
	mu.Lock()
	defer mu.Unlock()
	if percent == usual {
		percent = often
		debug.SetGCPercent(often)
	}
}
