package driver

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/croft-run/croft/fault"
)

// A Chooser runs a call on the module that it chooses at that time. Its error is that of the call, or
// why there is no module.
type Chooser[M any] func(ctx context.Context, call func(module *M) error) error

// Ask returns a Chooser that asks for the module at each call.
func Ask[M any](ask func(ctx context.Context) (*M, error)) Chooser[M] {
	return func(ctx context.Context, call func(*M) error) error {
		module, err := ask(ctx)
		if err != nil {
			return err
		}
		return call(module)
	}
}

// ForwardFS returns a module whose functions call those of the module that is chosen at each call: all
// but those named in without, which are nil. A function that the chosen module lacks is Unsupported.
func ForwardFS(choose Chooser[FS], without ...string) *FS {
	out := forwardFuncs(choose, without)
	out.Files = forwardedFiles(choose)
	return out
}

// ForwardShell is ForwardFS for a shell.
func ForwardShell(choose Chooser[Shell]) *Shell {
	out := forwardFuncs(choose, nil)
	out.Starter = forwardedStarter(choose)
	return out
}

// forwardFuncs sets the function fields of a module, also those that are added later: by the contract
// each takes a context first and returns an error last.
func forwardFuncs[M any](choose Chooser[M], without []string) *M {
	out := new(M)
	v := reflect.ValueOf(out).Elem()
	for i := range v.NumField() {
		field, name := v.Field(i), v.Type().Field(i).Name
		if field.Kind() != reflect.Func || slices.Contains(without, name) {
			continue
		}
		typ := field.Type()
		field.Set(reflect.MakeFunc(typ, func(args []reflect.Value) []reflect.Value {
			results := make([]reflect.Value, typ.NumOut())
			for k := range results {
				results[k] = reflect.Zero(typ.Out(k))
			}
			last := len(results) - 1
			err := choose(args[0].Interface().(context.Context), func(module *M) error {
				f := reflect.ValueOf(module).Elem().Field(i)
				if f.IsNil() {
					return fmt.Errorf("%s: %w: what isolates this workspace does not allow it", name, fault.Unsupported)
				}
				results = f.Call(args)
				err, _ := results[last].Interface().(error)
				return err
			})
			results[last] = reflect.ValueOf(&err).Elem()
			return results
		}))
	}
	return out
}

type forwardedFiles Chooser[FS]

func (f forwardedFiles) Stat(ctx context.Context, name string, opts *StatOptions) (info Info, err error) {
	err = f(ctx, func(m *FS) error { info, err = m.Stat(ctx, name, opts); return err })
	return info, err
}

func (f forwardedFiles) ReadDir(ctx context.Context, name string) (list []Info, err error) {
	err = f(ctx, func(m *FS) error { list, err = m.ReadDir(ctx, name); return err })
	return list, err
}

func (f forwardedFiles) Read(ctx context.Context, name string, opts *ReadOptions) (body io.ReadCloser, info Info, err error) {
	err = f(ctx, func(m *FS) error { body, info, err = m.Read(ctx, name, opts); return err })
	return body, info, err
}

func (f forwardedFiles) Write(ctx context.Context, name string, body io.Reader, opts *WriteOptions) (res WriteResult, err error) {
	err = f(ctx, func(m *FS) error { res, err = m.Write(ctx, name, body, opts); return err })
	return res, err
}

func (f forwardedFiles) Mkdir(ctx context.Context, name string, opts *MkdirOptions) error {
	return f(ctx, func(m *FS) error { return m.Mkdir(ctx, name, opts) })
}

func (f forwardedFiles) Remove(ctx context.Context, name string, opts *RemoveOptions) error {
	return f(ctx, func(m *FS) error { return m.Remove(ctx, name, opts) })
}

type forwardedStarter Chooser[Shell]

func (f forwardedStarter) Start(ctx context.Context, cmd Command) (s *Session, err error) {
	err = f(ctx, func(m *Shell) error { s, err = m.Start(ctx, cmd); return err })
	return s, err
}
