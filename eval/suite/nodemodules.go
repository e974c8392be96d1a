package suite

import (
	"sync"

	"github.com/dop251/goja"
	"github.com/dop251/goja_nodejs/buffer"
	"github.com/dop251/goja_nodejs/require"
)

// registry has the module of goja_nodejs, compiled once for all engines.
var registry = sync.OnceValue(func() *require.Registry { return new(require.Registry) })

// nodeBuffer returns the module buffer of goja_nodejs.
func (v *vm) nodeBuffer() goja.Value {
	registry().Enable(v.rt)
	return require.Require(v.rt, buffer.ModuleName)
}
