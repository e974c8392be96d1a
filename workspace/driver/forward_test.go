package driver

import (
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"testing"

	"github.com/croft-run/croft/fault"
)

// errCalled is what each function of a calledModule returns.
var errCalled = errors.New("called")

// calledModule returns a module whose function fields return errCalled.
func calledModule[M any]() *M {
	m := new(M)
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		if typ := v.Field(i).Type(); typ.Kind() == reflect.Func {
			v.Field(i).Set(reflect.MakeFunc(typ, func([]reflect.Value) []reflect.Value {
				var out []reflect.Value
				for k := range typ.NumOut() {
					out = append(out, reflect.Zero(typ.Out(k)))
				}
				out[len(out)-1] = reflect.ValueOf(&errCalled).Elem()
				return out
			}))
		}
	}
	return m
}

// callFields calls each function field of a module with zero arguments, and returns its errors by name.
// Fields that are nil are in unset.
func callFields(t *testing.T, module any) (errs map[string]error, unset []string) {
	t.Helper()
	errs = map[string]error{}
	v := reflect.ValueOf(module).Elem()
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		switch {
		case f.Kind() != reflect.Func:
			continue
		case f.IsNil():
			unset = append(unset, name)
			continue
		}
		args := []reflect.Value{reflect.ValueOf(t.Context())}
		for k := 1; k < f.Type().NumIn(); k++ {
			args = append(args, reflect.Zero(f.Type().In(k)))
		}
		out := f.Call(args)
		errs[name], _ = out[len(out)-1].Interface().(error)
	}
	if len(errs) == 0 {
		t.Fatal("the module has no functions")
	}
	return errs, unset
}

// TestEveryFunctionIsForwarded: a function that the contract gets is forwarded without a change of
// package driver, unless a provider names it.
func TestEveryFunctionIsForwarded(t *testing.T) {
	forwarded := func(t *testing.T, module any, without []string) {
		t.Helper()
		errs, unset := callFields(t, module)
		for name, err := range errs {
			if !errors.Is(err, errCalled) {
				t.Errorf("%s: %v, want the error of the module", name, err)
			}
		}
		if !slices.Equal(unset, without) {
			t.Errorf("%v is not forwarded, want %v", unset, without)
		}
	}
	fs := func(context.Context) (*FS, error) { return calledModule[FS](), nil }
	forwarded(t, ForwardFS(Ask(fs)), nil)
	forwarded(t, ForwardFS(Ask(fs), "Digest", "GitDirs"), []string{"Digest", "GitDirs"})
	forwarded(t, ForwardShell(Ask(func(context.Context) (*Shell, error) { return calledModule[Shell](), nil })), nil)
}

func TestForwardTellsWhatIsMissing(t *testing.T) {
	errs, _ := callFields(t, ForwardFS(Ask(func(context.Context) (*FS, error) { return new(FS), nil })))
	for name, err := range errs {
		if fault.Of(err) != fault.Unsupported {
			t.Errorf("%s of a module without it: %v, want Unsupported", name, err)
		}
	}
	gone := ForwardFS(Ask(func(context.Context) (*FS, error) { return nil, io.ErrClosedPipe }))
	errs, _ = callFields(t, gone)
	_, errs["Stat"] = gone.Stat(t.Context(), "a", nil)
	errs["Remove"] = gone.Remove(t.Context(), "a", nil)
	for name, err := range errs {
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%s without a module: %v, want why there is none", name, err)
		}
	}
}

func TestForwardReturnsResults(t *testing.T) {
	module := &FS{Digest: func(_ context.Context, name string) (string, error) { return "of " + name, nil }}
	calls := 0
	again := func(ctx context.Context, call func(*FS) error) error { // such as after a module that is closed
		if calls++; calls == 1 {
			if err := call(&FS{Digest: func(context.Context, string) (string, error) { return "old", io.EOF }}); err == nil {
				t.Error("the first call has no error")
			}
		}
		return call(module)
	}
	if got, err := ForwardFS(again).Digest(t.Context(), "a"); got != "of a" || err != nil {
		t.Errorf("Digest = %q, %v; want that of the last call", got, err)
	}
}
