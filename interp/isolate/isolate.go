package isolate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/tetratelabs/wazero/api"
)

// An isolate is one interpreter. A value of the script is known by its handle, an
// address in the memory of the interpreter. What is read from that memory is
// untrusted bytes.
type isolate struct {
	mod   api.Module
	image *image
	run   *scriptRun // nil while the image is created

	functions map[string]api.Function // functions that are not being called
	rejects   map[uint64]rejection    // by the address of the promise, which is kept alive while it is here
}

// A rejection is a promise that was rejected without a handler.
type rejection struct {
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

// call calls a function of the interpreter. Preparing a function for calls takes
// longer than most calls, so functions are cached; a function that is being called
// can't be called again.
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

// trackRejection records a promise that was rejected without a handler, or removes it when
// a handler is added later.
func (iso *isolate) trackRejection(ctx context.Context, promise, reason uint32, handled bool) {
	which, ok := iso.memory().ReadUint64Le(promise)
	if !ok {
		panic(errMemory) // ends the isolate, as an error of the run
	}
	free := []uint64{uint64(promise), uint64(reason)}
	if was, known := iso.rejects[which]; known {
		delete(iso.rejects, which)
		free = append(free, was.promise, was.reason)
	}
	const most = 1000 // one is enough to fail, and only the first is reported
	if !handled && iso.run != nil && len(iso.rejects) < most {
		if iso.rejects == nil {
			iso.rejects = map[uint64]rejection{}
		}
		iso.run.rejects++
		iso.rejects[which] = rejection{promise: uint64(promise), reason: uint64(reason), order: iso.run.rejects}
		free = free[2:]
	}
	for _, v := range free {
		if _, err := iso.call(ctx, "qjs_free_value", v); err != nil {
			panic(err)
		}
	}
}

// unhandledRejection returns the reason of the first unhandled rejection, or 0.
func (iso *isolate) unhandledRejection() uint64 {
	var first rejection
	for _, r := range iso.rejects {
		if first.order == 0 || r.order < first.order {
			first = r
		}
	}
	return first.reason
}

var errMemory = errors.New("out of memory")

// copyIn copies data into the memory of the interpreter, followed by NUL.
func (iso *isolate) copyIn(ctx context.Context, data []byte) (uint64, error) {
	p, err := iso.call(ctx, "wasm_malloc", uint64(len(data))+1)
	if err != nil {
		return 0, err
	}
	if p == 0 || !iso.memory().Write(uint32(p), data) || !iso.memory().WriteByte(uint32(p)+uint32(len(data)), 0) {
		return 0, errMemory
	}
	return p, nil
}

// withBytes copies data into the memory for one call.
func (iso *isolate) withBytes(ctx context.Context, data []byte, use func(p uint64) (uint64, error)) (uint64, error) {
	p, err := iso.copyIn(ctx, data)
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

// bytesOut reads bytes that a function of the interpreter returns: the result is
// their address, and their length is stored.
func (iso *isolate) bytesOut(ctx context.Context, function string, v uint64, most uint32) ([]byte, error) {
	var data []byte
	_, err := iso.withBytes(ctx, make([]byte, 4), func(n uint64) (uint64, error) {
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

// stringOf returns a string of the script as bytes.
func (iso *isolate) stringOf(ctx context.Context, v uint64) (string, error) {
	data, err := iso.bytesOut(ctx, "qjs_get_string_len", v, math.MaxInt32)
	return string(bytes.ToValidUTF8(data, []byte("\uFFFD"))), err
}

// readCString reads a NUL-terminated string.
func (iso *isolate) readCString(p uint32) string {
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

// numberOf returns a value as a number.
func (iso *isolate) numberOf(ctx context.Context, v uint64) (float64, error) {
	bits, err := iso.call(ctx, "qjs_get_float64", v)
	return api.DecodeF64(bits), err
}

// newText creates a string of the script.
func (iso *isolate) newText(ctx context.Context, s string) (uint64, error) {
	return iso.withBytes(ctx, []byte(s), func(p uint64) (uint64, error) {
		return iso.call(ctx, "qjs_new_string", p, uint64(len(s)))
	})
}

// newBuffer creates an ArrayBuffer of the script.
func (iso *isolate) newBuffer(ctx context.Context, data []byte) (uint64, error) {
	return iso.withBytes(ctx, data, func(p uint64) (uint64, error) {
		return iso.call(ctx, "qjs_new_array_buffer", p, uint64(len(data)))
	})
}

// Flags of evaluation.
const (
	evalScript uint64 = 0
	evalModule uint64 = 1
	evalAsync  uint64 = 1 << 7 // top-level await
)

// evalSource evaluates source; the result may be an exception.
func (iso *isolate) evalSource(ctx context.Context, source, name string, flags uint64) (uint64, error) {
	return iso.withBytes(ctx, []byte(source), func(p uint64) (uint64, error) {
		return iso.withBytes(ctx, []byte(name), func(n uint64) (uint64, error) {
			return iso.call(ctx, "qjs_eval", p, uint64(len(source)), n, flags)
		})
	})
}

// exceptionOf returns the exception if v is one, or 0.
func (iso *isolate) exceptionOf(ctx context.Context, v uint64) (uint64, error) {
	is, err := iso.call(ctx, "qjs_is_exception", v)
	if err != nil || is == 0 {
		return 0, err
	}
	return iso.call(ctx, "qjs_get_exception")
}

// exceptionError returns the exception as an error if v is one.
func (iso *isolate) exceptionError(ctx context.Context, v uint64) error {
	exc, err := iso.exceptionOf(ctx, v)
	if err != nil || exc == 0 {
		return err
	}
	text, _ := iso.stringOf(ctx, exc)
	return fmt.Errorf("exception: %s", text)
}

// callFunction calls a function of the script.
func (iso *isolate) callFunction(ctx context.Context, fn uint64, args ...uint64) (uint64, error) {
	this, err := iso.call(ctx, "qjs_get_undefined")
	if err != nil {
		return 0, err
	}
	argv := make([]byte, 0, 4*len(args))
	for _, a := range args {
		argv = append(argv, byte(a), byte(a>>8), byte(a>>16), byte(a>>24))
	}
	return iso.withBytes(ctx, argv, func(p uint64) (uint64, error) {
		return iso.call(ctx, "qjs_call", fn, this, uint64(len(args)), p)
	})
}

// initInterpreter initializes a new interpreter.
func (iso *isolate) initInterpreter(ctx context.Context) error {
	if _, err := iso.call(ctx, "_initialize"); err != nil {
		return err
	}
	if failed, err := iso.call(ctx, "qjs_init"); err != nil || failed != 0 {
		return errors.Join(err, errors.New("the interpreter does not start"))
	}
	for name, value := range map[string]uint64{"qjs_set_max_stack_size": stackSize, "qjs_set_module_loader": 1, "qjs_set_promise_rejection_handler": 1} {
		if _, err := iso.call(ctx, name, value); err != nil {
			return err
		}
	}
	return nil
}

// runPrelude prepares an interpreter for scripts.
func (iso *isolate) runPrelude(ctx context.Context, img *image) error {
	setup, err := iso.evalSource(ctx, prelude, "croft:prelude", evalScript)
	if err != nil {
		return err
	}
	host, err := iso.withBytes(ctx, []byte("host"), func(p uint64) (uint64, error) {
		return iso.call(ctx, "qjs_new_host_function", p, uint64(len("host")), 0)
	})
	if err != nil {
		return err
	}
	hooks, err := iso.callFunction(ctx, setup, host)
	if err != nil {
		return err
	}
	if err := iso.exceptionError(ctx, hooks); err != nil {
		return err
	}
	for name, hook := range map[string]*uint64{"settle": &img.settle, "fail": &img.fail, "tick": &img.tick} {
		if *hook, err = iso.withBytes(ctx, []byte(name), func(p uint64) (uint64, error) {
			return iso.call(ctx, "qjs_get_prop_string", hooks, p)
		}); err != nil {
			return err
		}
	}
	return nil
}
