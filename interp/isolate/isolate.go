package isolate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/tetratelabs/wazero/api"
)

// An isolate is one interpreter. A value of the script's is known here by its
// handle, an address in the memory of the interpreter; nothing that is read there
// is believed beyond its being bytes.
type isolate struct {
	mod   api.Module
	image *image
	run   *run // nil while the image is made

	functions map[string]api.Function // that are not being called
	rejects   map[uint64]reject       // by what the promise is in memory, which is kept while it is here
}

// A reject is a promise that was rejected while nobody had asked what becomes of it.
type reject struct {
	promise, reason uint64
	order           int
}

type isolateKey struct{}

func withIsolate(ctx context.Context, iso *isolate) context.Context {
	return context.WithValue(ctx, isolateKey{}, iso)
}

func isolateOf(ctx context.Context) *isolate { return ctx.Value(isolateKey{}).(*isolate) }

func (iso *isolate) memory() api.Memory { return iso.mod.Memory() }

func (iso *isolate) close(ctx context.Context) { _ = iso.mod.Close(ctx) } // it only frees memory

// call calls a function of the interpreter. To make one ready for calls takes longer
// than most calls do, so it is kept; one that is being called can't be called again.
func (iso *isolate) call(ctx context.Context, name string, args ...uint64) (uint64, error) {
	fn := iso.functions[name]
	if fn == nil {
		fn = iso.mod.ExportedFunction(name)
	} else {
		delete(iso.functions, name)
	}
	res, err := fn.Call(ctx, args...)
	if err != nil {
		return 0, err
	}
	if iso.functions == nil {
		iso.functions = map[string]api.Function{}
	}
	iso.functions[name] = fn
	if len(res) == 0 {
		return 0, nil
	}
	return res[0], nil
}

// rejected notes a promise that was rejected with nobody to hear of it, or that
// somebody asks about after all.
func (iso *isolate) rejected(ctx context.Context, promise, reason uint32, handled bool) {
	which, ok := iso.memory().ReadUint64Le(promise)
	if !ok {
		panic(errMemory) // ends the isolate, as an error of the run
	}
	free := []uint64{uint64(promise), uint64(reason)}
	if was, known := iso.rejects[which]; known {
		delete(iso.rejects, which)
		free = append(free, was.promise, was.reason)
	}
	const most = 1000 // one is enough to fail, and the first is the one that is told
	if !handled && iso.run != nil && len(iso.rejects) < most {
		if iso.rejects == nil {
			iso.rejects = map[uint64]reject{}
		}
		iso.run.rejects++
		iso.rejects[which] = reject{promise: uint64(promise), reason: uint64(reason), order: iso.run.rejects}
		free = free[2:]
	}
	for _, v := range free {
		if _, err := iso.call(ctx, "qjs_free_value", v); err != nil {
			panic(err)
		}
	}
}

// unheard returns why the first promise was rejected that nobody has asked about; 0
// where there is none.
func (iso *isolate) unheard() uint64 {
	var first reject
	for _, r := range iso.rejects {
		if first.order == 0 || r.order < first.order {
			first = r
		}
	}
	return first.reason
}

var errMemory = errors.New("out of memory")

// put copies data into the memory of the interpreter, with a NUL behind it.
func (iso *isolate) put(ctx context.Context, data []byte) (uint64, error) {
	p, err := iso.call(ctx, "wasm_malloc", uint64(len(data))+1)
	if err != nil {
		return 0, err
	}
	if p == 0 || !iso.memory().Write(uint32(p), data) || !iso.memory().WriteByte(uint32(p)+uint32(len(data)), 0) {
		return 0, errMemory
	}
	return p, nil
}

// with puts data there for the time of one call.
func (iso *isolate) with(ctx context.Context, data []byte, use func(p uint64) (uint64, error)) (uint64, error) {
	p, err := iso.put(ctx, data)
	if err != nil {
		return 0, err
	}
	v, err := use(p)
	if err != nil {
		return 0, err
	}
	_, err = iso.call(ctx, "wasm_free", p)
	return v, err
}

// bytesOut is how the interpreter hands out bytes: a function answers where they
// are and stores how many.
func (iso *isolate) bytesOut(ctx context.Context, function string, v uint64, most uint32) ([]byte, error) {
	var data []byte
	_, err := iso.with(ctx, make([]byte, 4), func(n uint64) (uint64, error) {
		p, err := iso.call(ctx, function, v, n)
		if err != nil {
			return 0, err
		}
		size, _ := iso.memory().ReadUint32Le(uint32(n))
		if p == 0 || size > most {
			return 0, fmt.Errorf("a value of %d bytes", size)
		}
		view, ok := iso.memory().Read(uint32(p), size)
		if !ok {
			return 0, errors.New("a value beyond its memory")
		}
		data = bytes.Clone(view)
		return p, nil
	})
	return data, err
}

// text returns a string of the script's as bytes.
func (iso *isolate) text(ctx context.Context, v uint64) (string, error) {
	data, err := iso.bytesOut(ctx, "qjs_get_string_len", v, math.MaxInt32)
	return string(bytes.ToValidUTF8(data, []byte("\uFFFD"))), err
}

// cstring reads a text that ends with NUL.
func (iso *isolate) cstring(p uint32) string {
	const most = 4096
	view, ok := iso.memory().Read(p, most)
	if !ok && p < iso.memory().Size() {
		view, _ = iso.memory().Read(p, iso.memory().Size()-p)
	}
	if i := bytes.IndexByte(view, 0); i >= 0 {
		return string(view[:i])
	}
	return ""
}

// number returns a value as a number.
func (iso *isolate) number(ctx context.Context, v uint64) (float64, error) {
	bits, err := iso.call(ctx, "qjs_get_float64", v)
	return api.DecodeF64(bits), err
}

// newText makes a string of the script's.
func (iso *isolate) newText(ctx context.Context, s string) (uint64, error) {
	return iso.with(ctx, []byte(s), func(p uint64) (uint64, error) {
		return iso.call(ctx, "qjs_new_string", p, uint64(len(s)))
	})
}

// newBuffer makes an ArrayBuffer of the script's.
func (iso *isolate) newBuffer(ctx context.Context, data []byte) (uint64, error) {
	return iso.with(ctx, data, func(p uint64) (uint64, error) {
		return iso.call(ctx, "qjs_new_array_buffer", p, uint64(len(data)))
	})
}

// How source is evaluated.
const (
	evalScript uint64 = 0
	evalModule uint64 = 1
	evalAsync  uint64 = 1 << 7 // top-level await
)

// eval evaluates source; what it answers may be an exception.
func (iso *isolate) eval(ctx context.Context, source, name string, flags uint64) (uint64, error) {
	return iso.with(ctx, []byte(source), func(p uint64) (uint64, error) {
		return iso.with(ctx, []byte(name), func(n uint64) (uint64, error) {
			return iso.call(ctx, "qjs_eval", p, uint64(len(source)), n, flags)
		})
	})
}

// exception returns the exception where v is one, and 0 otherwise.
func (iso *isolate) exception(ctx context.Context, v uint64) (uint64, error) {
	is, err := iso.call(ctx, "qjs_is_exception", v)
	if err != nil || is == 0 {
		return 0, err
	}
	return iso.call(ctx, "qjs_get_exception")
}

// failure returns the exception as an error where v is one.
func (iso *isolate) failure(ctx context.Context, v uint64) error {
	exc, err := iso.exception(ctx, v)
	if err != nil || exc == 0 {
		return err
	}
	text, _ := iso.text(ctx, exc)
	return fmt.Errorf("exception: %s", text)
}

// apply calls a function of the script's.
func (iso *isolate) apply(ctx context.Context, fn uint64, args ...uint64) (uint64, error) {
	this, err := iso.call(ctx, "qjs_get_undefined")
	if err != nil {
		return 0, err
	}
	argv := make([]byte, 0, 4*len(args))
	for _, a := range args {
		argv = append(argv, byte(a), byte(a>>8), byte(a>>16), byte(a>>24))
	}
	return iso.with(ctx, argv, func(p uint64) (uint64, error) {
		return iso.call(ctx, "qjs_call", fn, this, uint64(len(args)), p)
	})
}

// start starts a fresh interpreter.
func (iso *isolate) start(ctx context.Context) error {
	if _, err := iso.call(ctx, "_initialize"); err != nil {
		return err
	}
	if failed, err := iso.call(ctx, "qjs_init"); err != nil || failed != 0 {
		return errors.Join(err, errors.New("it does not start"))
	}
	for name, value := range map[string]uint64{"qjs_set_max_stack_size": stackSize, "qjs_set_module_loader": 1, "qjs_set_promise_rejection_handler": 1} {
		if _, err := iso.call(ctx, name, value); err != nil {
			return err
		}
	}
	return nil
}

// boot makes an interpreter ready for scripts.
func (iso *isolate) boot(ctx context.Context, img *image) error {
	setup, err := iso.eval(ctx, prelude, "croft:prelude", evalScript)
	if err != nil {
		return err
	}
	host, err := iso.with(ctx, []byte("host"), func(p uint64) (uint64, error) {
		return iso.call(ctx, "qjs_new_host_function", p, uint64(len("host")), 0)
	})
	if err != nil {
		return err
	}
	hooks, err := iso.apply(ctx, setup, host)
	if err != nil {
		return err
	}
	if err := iso.failure(ctx, hooks); err != nil {
		return err
	}
	for name, hook := range map[string]*uint64{"settle": &img.settle, "fail": &img.fail, "tick": &img.tick} {
		if *hook, err = iso.with(ctx, []byte(name), func(p uint64) (uint64, error) {
			return iso.call(ctx, "qjs_get_prop_string", hooks, p)
		}); err != nil {
			return err
		}
	}
	return nil
}
