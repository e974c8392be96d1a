package suite

import (
	"sync"

	"github.com/dop251/goja"
	"github.com/dop251/goja_nodejs/buffer"
	"github.com/dop251/goja_nodejs/require"
	"github.com/dop251/goja_nodejs/url"
)

// registry has the modules of goja_nodejs, compiled once for all engines.
var registry = sync.OnceValue(func() *require.Registry { return new(require.Registry) })

// lazyNode returns a module of goja_nodejs, url or buffer. It is loaded at its first use,
// because most suites need neither.
func (v *vm) lazyNode(name string) goja.Value {
	if _, ok := v.modules["nodejs"]; !ok {
		registry().Enable(v.rt)
		v.modules["nodejs"] = goja.Undefined()
	}
	switch name {
	case "url":
		return require.Require(v.rt, url.ModuleName)
	case "buffer":
		return require.Require(v.rt, buffer.ModuleName)
	}
	return goja.Undefined()
}
