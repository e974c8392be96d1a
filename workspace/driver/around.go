package driver

import (
	"context"
	"io"
	"net"
	"reflect"
	"time"
)

// A Call is one call of a function of a workspace, as a Hook sees it.
type Call struct {
	// Verb names the function: "fs.Write", "shell.Run", "session.Kill",
	// "code.RunCode", "snapshot.Seal", "life.Destroy".
	Verb string

	// Args are the arguments of the caller, without the context. A hook may read them
	// but must not change them.
	Args []any
}

// A Hook is middleware around every call of a workspace. It runs the call with next:
// once, several times (a retry), or never. The caller gets the results of the last
// next, with the error that the hook returns. If the hook returns an error without
// calling next, the caller gets only that error.
type Hook func(ctx context.Context, call Call, next func(ctx context.Context) error) error

// Around returns a copy of ws with the hook around every function of every module,
// and around those of the sessions that ws starts. Decorators are made with Around:
// the structs are copied, so fields that a decorator does not know are kept. Extras,
// the files of a snapshot, the body of a read, a connection and a watcher are passed
// through without the hook.
func Around(ws *Workspace, hook Hook) *Workspace {
	if ws == nil {
		return nil
	}
	out, a := *ws, around(hook)
	out.Life = *aroundFuncs(&ws.Life, "life.", hook)
	if ws.FS != nil {
		fs := aroundFuncs(ws.FS, "fs.", hook)
		fs.Files = aroundFiles{a, ws.FS.Files}
		out.FS = fs
	}
	if ws.Shell != nil {
		out.Shell = a.wrapShell(ws.Shell)
	}
	out.Code = a.wrapInterpreter("code.", ws.Code)
	out.Script = a.wrapInterpreter("script.", ws.Script)
	if snaps := ws.Life.Snapshot; snaps != nil {
		s := aroundFuncs(snaps, "snapshot.", hook)
		s.Snapshotter = aroundSnapshotter{a, snaps.Snapshotter}
		out.Life.Snapshot = s
	}
	return &out
}

// around runs the methods of a module under a hook.
type around Hook

// callResult runs a call that has one result under the hook.
func callResult[R any](ctx context.Context, a around, verb string, call func(context.Context) (R, error), args ...any) (R, error) {
	var res R
	err := a(ctx, Call{verb, args}, func(ctx context.Context) (err error) {
		res, err = call(ctx)
		return err
	})
	return res, err
}

// callErr runs a call that returns only an error under the hook.
func (a around) callErr(ctx context.Context, verb string, call func(context.Context) error, args ...any) error {
	return a(ctx, Call{verb, args}, call)
}

func (a around) wrapShell(shell *Shell) *Shell {
	out := aroundFuncs(shell, "shell.", Hook(a))
	out.Starter = aroundStarter{a, shell.Starter}
	if attach := out.Attach; attach != nil {
		out.Attach = func(ctx context.Context, id string) (*Session, error) {
			s, err := attach(ctx, id)
			return a.wrapSession(s), err
		}
	}
	if dial := shell.Dial; dial != nil {
		out.Dial = func(ctx context.Context, port int) (net.Conn, error) {
			var conn net.Conn
			err := a.callErr(ctx, "shell.Dial", func(ctx context.Context) (err error) {
				if conn != nil { // the hook repeats a successful dial
					_ = conn.Close() // the caller never got this connection
				}
				conn, err = dial(ctx, port)
				return err
			}, port)
			if err != nil && conn != nil { // the hook rejects a successful dial
				_ = conn.Close() // the caller never gets this connection
				conn = nil
			}
			return conn, err
		}
	}
	return out
}

func (a around) wrapSession(s *Session) *Session {
	if s == nil {
		return nil
	}
	out := aroundFuncs(s, "session.", Hook(a))
	out.Process = aroundProcess{a, s.Process}
	return out
}

func (a around) wrapInterpreter(prefix string, in *Interpreter) *Interpreter {
	if in == nil {
		return nil
	}
	out := aroundFuncs(in, prefix, Hook(a))
	out.Coder = aroundCoder{a, prefix, in.Coder}
	return out
}

// aroundFuncs returns a copy of the struct with the hook around each function field
// that is set. By the contract every such function takes a context first and returns
// an error last, so function fields that are added later are wrapped, too.
func aroundFuncs[T any](module *T, prefix string, hook Hook) *T {
	out := *module
	v := reflect.ValueOf(&out).Elem()
	for i := range v.NumField() {
		field := v.Field(i)
		if field.Kind() != reflect.Func || field.IsNil() {
			continue
		}
		typ, inner, verb := field.Type(), reflect.ValueOf(field.Interface()), prefix+v.Type().Field(i).Name
		field.Set(reflect.MakeFunc(typ, func(args []reflect.Value) []reflect.Value {
			return aroundCall(typ, inner, verb, args, hook)
		}))
	}
	return &out
}

func aroundCall(typ reflect.Type, inner reflect.Value, verb string, args []reflect.Value, hook Hook) []reflect.Value {
	call := Call{Verb: verb}
	for _, arg := range args[1:] {
		call.Args = append(call.Args, arg.Interface())
	}
	results := make([]reflect.Value, typ.NumOut())
	for i := range results {
		results[i] = reflect.Zero(typ.Out(i))
	}
	last := len(results) - 1
	err := hook(args[0].Interface().(context.Context), call, func(ctx context.Context) error {
		results = inner.Call(append([]reflect.Value{reflect.ValueOf(ctx)}, args[1:]...))
		err, _ := results[last].Interface().(error)
		return err
	})
	results[last] = reflect.ValueOf(&err).Elem()
	return results
}

type aroundFiles struct {
	a    around
	base Files
}

func (f aroundFiles) Stat(ctx context.Context, name string, opts *StatOptions) (Info, error) {
	return callResult(ctx, f.a, "fs.Stat", func(ctx context.Context) (Info, error) { return f.base.Stat(ctx, name, opts) }, name, opts)
}

func (f aroundFiles) ReadDir(ctx context.Context, name string) ([]Info, error) {
	return callResult(ctx, f.a, "fs.ReadDir", func(ctx context.Context) ([]Info, error) { return f.base.ReadDir(ctx, name) }, name)
}

func (f aroundFiles) Read(ctx context.Context, name string, opts *ReadOptions) (io.ReadCloser, Info, error) {
	var body io.ReadCloser
	info, err := callResult(ctx, f.a, "fs.Read", func(ctx context.Context) (info Info, err error) {
		if body != nil { // the hook repeats a successful read
			_ = body.Close() // the caller never got this body
		}
		body, info, err = f.base.Read(ctx, name, opts)
		return info, err
	}, name, opts)
	if err != nil && body != nil { // the hook rejects a successful read
		_ = body.Close() // the caller never gets this body
		body = nil
	}
	return body, info, err
}

func (f aroundFiles) Write(ctx context.Context, name string, body io.Reader, opts *WriteOptions) (WriteResult, error) {
	return callResult(ctx, f.a, "fs.Write", func(ctx context.Context) (WriteResult, error) {
		return f.base.Write(ctx, name, body, opts)
	}, name, body, opts)
}

func (f aroundFiles) Mkdir(ctx context.Context, name string, opts *MkdirOptions) error {
	return f.a.callErr(ctx, "fs.Mkdir", func(ctx context.Context) error { return f.base.Mkdir(ctx, name, opts) }, name, opts)
}

func (f aroundFiles) Remove(ctx context.Context, name string, opts *RemoveOptions) error {
	return f.a.callErr(ctx, "fs.Remove", func(ctx context.Context) error { return f.base.Remove(ctx, name, opts) }, name, opts)
}

type aroundStarter struct {
	a    around
	base Starter
}

func (s aroundStarter) Start(ctx context.Context, cmd Command) (*Session, error) {
	session, err := callResult(ctx, s.a, "shell.Start", func(ctx context.Context) (*Session, error) { return s.base.Start(ctx, cmd) }, cmd)
	return s.a.wrapSession(session), err
}

type aroundProcess struct {
	a    around
	base Process
}

func (p aroundProcess) ID() string { return p.base.ID() }

func (p aroundProcess) Poll(ctx context.Context, limit int64) (Poll, error) {
	return callResult(ctx, p.a, "session.Poll", func(ctx context.Context) (Poll, error) { return p.base.Poll(ctx, limit) }, limit)
}

func (p aroundProcess) Write(ctx context.Context, data []byte) error {
	return p.a.callErr(ctx, "session.Write", func(ctx context.Context) error { return p.base.Write(ctx, data) }, data)
}

func (p aroundProcess) CloseStdin(ctx context.Context) error {
	return p.a.callErr(ctx, "session.CloseStdin", p.base.CloseStdin)
}

func (p aroundProcess) Kill(ctx context.Context, grace time.Duration) error {
	return p.a.callErr(ctx, "session.Kill", func(ctx context.Context) error { return p.base.Kill(ctx, grace) }, grace)
}

func (p aroundProcess) Wait(ctx context.Context) (Result, error) {
	return callResult(ctx, p.a, "session.Wait", p.base.Wait)
}

func (p aroundProcess) State(ctx context.Context) (SessionInfo, error) {
	return callResult(ctx, p.a, "session.State", p.base.State)
}

func (p aroundProcess) Close(ctx context.Context) error {
	return p.a.callErr(ctx, "session.Close", p.base.Close)
}

type aroundCoder struct {
	a      around
	prefix string
	base   Coder
}

func (c aroundCoder) RunCode(ctx context.Context, code Code) (CodeResult, error) {
	return callResult(ctx, c.a, c.prefix+"RunCode", func(ctx context.Context) (CodeResult, error) { return c.base.RunCode(ctx, code) }, code)
}

type aroundSnapshotter struct {
	a    around
	base Snapshotter
}

func (s aroundSnapshotter) Snapshot(ctx context.Context, opts *SnapshotOptions) (SnapshotInfo, error) {
	return callResult(ctx, s.a, "snapshot.Snapshot", func(ctx context.Context) (SnapshotInfo, error) { return s.base.Snapshot(ctx, opts) }, opts)
}
