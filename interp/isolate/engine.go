package isolate

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed" // the interpreter and what scripts see
	"errors"
	"fmt"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/croft-run/croft/fault"
)

//go:embed quickjs.wasm.gz
var interpreter []byte

//go:embed prelude.js
var prelude string

const (
	pageSize = 64 << 10
	// maxPages bounds the memory of any isolate; Options.Memory is the lower bound of
	// one.
	maxPages = MaxMemory/pageSize + 64
	// stackSize bounds the recursion of scripts; the stack of the interpreter is
	// twice that.
	stackSize = 512 << 10
	// countWord is the address of the loop counter of the interpreter (see
	// internal/meter), and countStart its start value: about 100 us.
	countWord  = 8
	countStart = 20_000
)

// defaultMost is the default of Engine.Most.
const defaultMost = 8

// An Engine creates isolates. Its zero value is ready. It is safe for concurrent use
// by any number of workspaces.
type Engine struct {
	// Cache is a directory for the machine code of the interpreter, so that the next
	// process need not compile it. The directory must not be writable by other users,
	// because its content is executed. "" keeps the code in memory.
	Cache string

	// Most is the concurrency limit of isolates; 0 is 8.
	Most int

	mu      sync.Mutex
	runtime wazero.Runtime
	cache   wazero.CompilationCache
	image   *image
	types   *image // image of isolates that remove types
	slots   chan struct{}
}

// An image is the memory of a prepared isolate, with the addresses of its functions.
type image struct {
	compiled wazero.CompiledModule
	memory   []byte
	settle   uint64
	fail     uint64
	tick     uint64
	strip    uint64 // only in the image that removes types
}

// Close frees all memory. It must not be called during a run.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.runtime == nil {
		return nil
	}
	err := e.runtime.Close(ctx)
	if e.cache != nil {
		err = errors.Join(err, e.cache.Close(ctx))
	}
	e.runtime, e.cache, e.image, e.types = nil, nil, nil, nil
	return err
}

// acquireSlot waits for a free isolate slot and returns how to release it.
func (e *Engine) acquireSlot(ctx context.Context) (release func(), err error) {
	e.mu.Lock()
	if e.slots == nil {
		most := e.Most
		if most <= 0 {
			most = defaultMost
		}
		e.slots = make(chan struct{}, most)
	}
	slots := e.slots
	e.mu.Unlock()
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// preparedImage returns the image, created at the first use.
func (e *Engine) preparedImage(ctx context.Context) (*image, wazero.Runtime, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.image != nil {
		return e.image, e.runtime, nil
	}
	ctx = context.WithoutCancel(ctx) // the result is shared with other runs
	if err := e.startRuntime(ctx); err != nil {
		return nil, nil, fmt.Errorf("isolate: start the interpreter: %w: %w", fault.Internal, err)
	}
	img, err := e.prepareImage(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("isolate: prepare the interpreter: %w: %w", fault.Internal, err)
	}
	e.image = img
	return img, e.runtime, nil
}

// startRuntime creates the runtime and the module that the interpreter imports.
func (e *Engine) startRuntime(ctx context.Context) error {
	if e.runtime != nil {
		return nil
	}
	cfg := wazero.NewRuntimeConfig().WithMemoryLimitPages(maxPages)
	if e.Cache != "" {
		cache, err := wazero.NewCompilationCacheWithDir(e.Cache)
		if err != nil {
			return err
		}
		e.cache, cfg = cache, cfg.WithCompilationCache(cache)
	}
	r := wazero.NewRuntimeWithConfig(ctx, cfg)
	_, err := wasi_snapshot_preview1.Instantiate(ctx, r)
	if err == nil {
		_, err = hostFunctions(r).Instantiate(ctx)
	}
	if err != nil {
		return errors.Join(err, r.Close(ctx))
	}
	e.runtime = r
	return nil
}

// hostFunctions returns the host functions of the interpreter. The context has the calling
// isolate.
func hostFunctions(r wazero.Runtime) wazero.HostModuleBuilder {
	b := r.NewHostModuleBuilder("env")
	for name, fn := range map[string]any{
		"host_call": func(ctx context.Context, _ api.Module, name, nameLen, this, argc, argv uint32) uint32 {
			return isolateOf(ctx).hostCall(ctx, argc, argv)
		},
		"host_module_normalize": func(ctx context.Context, _ api.Module, base, name uint32) uint32 {
			return isolateOf(ctx).normalizeModule(ctx, base, name)
		},
		"host_module_load": func(ctx context.Context, _ api.Module, name, outLen uint32) uint32 {
			return isolateOf(ctx).loadModule(ctx, name, outLen)
		},
		"host_interrupt": func(ctx context.Context, m api.Module) uint32 {
			m.Memory().WriteUint32Le(countWord, countStart)
			if ctx.Err() != nil {
				return 1
			}
			return 0
		},
		"host_get_timezone_offset": func(_, _ uint32) uint32 { return 0 }, // scripts run in UTC
		"host_promise_rejection": func(ctx context.Context, _ api.Module, promise, reason, handled uint32) {
			isolateOf(ctx).trackRejection(ctx, promise, reason, handled != 0)
		},
	} {
		b.NewFunctionBuilder().WithFunc(fn).Export(name)
	}
	return b
}

// prepareImage compiles the interpreter, runs the prelude, and keeps the resulting memory.
func (e *Engine) prepareImage(ctx context.Context) (*image, error) {
	code, err := decompress(interpreter)
	if err != nil {
		return nil, err
	}
	img := &image{}
	if img.compiled, err = e.runtime.CompileModule(ctx, code); err != nil {
		return nil, err
	}
	err = e.captureMemory(ctx, img, func(ctx context.Context, iso *isolate) error { return iso.runPrelude(ctx, img) })
	return img, err
}

// captureMemory starts an interpreter, calls fill, and stores the resulting memory in the
// image.
func (e *Engine) captureMemory(ctx context.Context, img *image, fill func(context.Context, *isolate) error) error {
	iso, err := img.instantiate(ctx, e.runtime)
	if err != nil {
		return err
	}
	defer iso.close(ctx)
	ctx = withIsolate(ctx, iso)
	if err := iso.initInterpreter(ctx); err != nil {
		return err
	}
	if err := fill(ctx, iso); err != nil {
		return err
	}
	memory, ok := iso.memory().Read(0, iso.memory().Size())
	if !ok {
		return errors.New("the memory of the isolate can't be read")
	}
	img.memory = bytes.Clone(memory)
	return nil
}

// instantiate creates an isolate: an empty one while the image has no memory yet.
func (img *image) instantiate(ctx context.Context, r wazero.Runtime) (*isolate, error) {
	cfg := wazero.NewModuleConfig().WithName("").WithStartFunctions().
		WithSysWalltime().WithSysNanotime().WithRandSource(rand.Reader)
	mod, err := r.InstantiateModule(ctx, img.compiled, cfg)
	if err != nil {
		return nil, err
	}
	iso := &isolate{mod: mod, image: img}
	if img.memory == nil {
		return iso, nil
	}
	if have, need := mod.Memory().Size(), uint32(len(img.memory)); have < need {
		if _, ok := mod.Memory().Grow((need - have) / pageSize); !ok {
			iso.close(ctx)
			return nil, errors.New("the memory of the image does not fit")
		}
	}
	if !mod.Memory().Write(0, img.memory) {
		iso.close(ctx)
		return nil, errors.New("the memory of the image does not fit")
	}
	return iso, nil
}
