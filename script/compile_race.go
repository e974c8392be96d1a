//go:build race

package script

import "github.com/tetratelabs/wazero"

// newConfig says how the interpreter is run. With the race detector, which
// watches Go and not what runs in the isolate, compiling takes minutes; it is
// interpreted instead, by Go code that reads the stop word without a lock, so the
// runtime stops it.
func newConfig() wazero.RuntimeConfig {
	return wazero.NewRuntimeConfigInterpreter().WithCloseOnContextDone(true)
}

// stopsByWord reports whether the stop word stops an isolate.
const stopsByWord = false
