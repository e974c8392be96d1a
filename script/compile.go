//go:build !race

package script

import "github.com/tetratelabs/wazero"

// newConfig says how the interpreter is run: compiled to machine code, and
// stopped by its stop word.
func newConfig() wazero.RuntimeConfig { return wazero.NewRuntimeConfig() }

// stopsByWord reports whether the stop word stops an isolate.
const stopsByWord = true
