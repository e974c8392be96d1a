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
	// maxPages bounds the memory of any isolate; that of one is bounded by its
	// Options, below this.
	maxPages = MaxMemory/pageSize + 64
	// stackSize is how deep scripts may nest; the interpreter's own stack is
	// twice that.
	stackSize = 512 << 10
	// countWord is the address where the loops of the interpreter count down, and
	// turns how many there are before it asks whether to go on: about 100 us.
	countWord = 8
	turns     = 20_000
)

// defaultMost is how many isolates run at once.
const defaultMost = 8

// An Engine makes isolates. Its zero value is ready; it is safe for concurrent
// use by any number of workspaces.
type Engine struct {
	// Cache is a directory for the machine code of the interpreter, so that the
	// next process need not compile it; it must be writable by nobody else.
	// "" keeps it in memory.
	Cache string

	// Most is how many isolates run at once; 0 is 8.
	Most int

	mu      sync.Mutex
	runtime wazero.Runtime
	cache   wazero.CompilationCache
	image   *image
	types   *image // of isolates that drop types
	slots   chan struct{}
}

// An image is a prepared isolate: its memory, and where its functions are.
type image struct {
	compiled wazero.CompiledModule
	memory   []byte
	settle   uint64
	fail     uint64
	tick     uint64
	strip    uint64 // of the image that drops types alone
}

// Close frees all. It must not be called while something runs.
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

// acquire waits for a place to run in and returns how to give it back.
func (e *Engine) acquire(ctx context.Context) (release func(), err error) {
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

// prepared returns the image, making it at the first use.
func (e *Engine) prepared(ctx context.Context) (*image, wazero.Runtime, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.image != nil {
		return e.image, e.runtime, nil
	}
	ctx = context.WithoutCancel(ctx) // what is made serves others, too
	if err := e.start(ctx); err != nil {
		return nil, nil, fmt.Errorf("script: start the interpreter: %w: %w", fault.Internal, err)
	}
	img, err := e.prepare(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("script: prepare the interpreter: %w: %w", fault.Internal, err)
	}
	e.image = img
	return img, e.runtime, nil
}

// start makes the runtime and what the interpreter imports.
func (e *Engine) start(ctx context.Context) error {
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
		_, err = imports(r).Instantiate(ctx)
	}
	if err != nil {
		return errors.Join(err, r.Close(ctx))
	}
	e.runtime = r
	return nil
}

// imports is what the interpreter calls. Which isolate calls is in the context.
func imports(r wazero.Runtime) wazero.HostModuleBuilder {
	b := r.NewHostModuleBuilder("env")
	for name, fn := range map[string]any{
		"host_call": func(ctx context.Context, _ api.Module, name, nameLen, this, argc, argv uint32) uint32 {
			return isolateOf(ctx).hostCall(ctx, argc, argv)
		},
		"host_module_normalize": func(ctx context.Context, _ api.Module, base, name uint32) uint32 {
			return isolateOf(ctx).normalize(ctx, base, name)
		},
		"host_module_load": func(ctx context.Context, _ api.Module, name, outLen uint32) uint32 {
			return isolateOf(ctx).load(ctx, name, outLen)
		},
		"host_interrupt": func(ctx context.Context, m api.Module) uint32 {
			m.Memory().WriteUint32Le(countWord, turns)
			if ctx.Err() != nil {
				return 1
			}
			return 0
		},
		"host_get_timezone_offset": func(_, _ uint32) uint32 { return 0 }, // scripts live in UTC
		"host_promise_rejection": func(ctx context.Context, _ api.Module, promise, reason, handled uint32) {
			isolateOf(ctx).rejected(ctx, promise, reason, handled != 0)
		},
	} {
		b.NewFunctionBuilder().WithFunc(fn).Export(name)
	}
	return b
}

// prepare compiles the interpreter, runs the prelude in it, and keeps what that
// leaves in memory.
func (e *Engine) prepare(ctx context.Context) (*image, error) {
	code, err := unzip(interpreter)
	if err != nil {
		return nil, err
	}
	img := &image{}
	if img.compiled, err = e.runtime.CompileModule(ctx, code); err != nil {
		return nil, err
	}
	err = e.capture(ctx, img, func(ctx context.Context, iso *isolate) error { return iso.boot(ctx, img) })
	return img, err
}

// capture starts an interpreter, lets fill do its work there, and keeps the memory
// that this leaves as that of the image.
func (e *Engine) capture(ctx context.Context, img *image, fill func(context.Context, *isolate) error) error {
	iso, err := img.instantiate(ctx, e.runtime)
	if err != nil {
		return err
	}
	defer iso.close(ctx)
	ctx = withIsolate(ctx, iso)
	if err := iso.start(ctx); err != nil {
		return err
	}
	if err := fill(ctx, iso); err != nil {
		return err
	}
	memory, ok := iso.memory().Read(0, iso.memory().Size())
	if !ok {
		return errors.New("its memory can't be read")
	}
	img.memory = bytes.Clone(memory)
	return nil
}

// instantiate makes an isolate: a bare one before there is a memory to copy.
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
