package workspace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace/driver"
)

// openLocal opens a workspace in a directory, as a driver has it.
func openLocal(t *testing.T) *driver.Workspace {
	t.Helper()
	p, err := local.New(&local.Config{Root: filepath.Join(t.TempDir(), "ws")})
	if err != nil {
		t.Fatal(err)
	}
	d, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: local.Kind})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// ways are those to leave a handle, and what calls answer from then on.
var ways = map[string]struct {
	leave func(*Workspace, context.Context) error
	code  fault.Code
}{
	"destroy": {(*Workspace).Destroy, fault.NotFound},
	"close":   {(*Workspace).Close, fault.WrongState},
}

func openFDs(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("skipped: host: it has no /proc/self/fd")
	}
	return len(fds)
}

// A watcher that nobody closed held its descriptors and goroutines for as long as
// the process lived.
func TestLeavingClosesWatchers(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			w := newHandle(t, openLocal(t), nil)
			fds, routines := openFDs(t), runtime.NumGoroutine()
			var watchers []Watcher
			var waiting sync.WaitGroup
			for i := range 10 {
				x, err := w.Watch(t.Context(), ".", &WatchOptions{Recursive: true})
				if err != nil {
					t.Fatal(err)
				}
				watchers = append(watchers, x)
				if i%2 == 0 {
					waiting.Go(func() {
						if _, err := x.Next(t.Context()); !errors.Is(err, io.EOF) {
							t.Errorf("next: %v", err)
						}
					})
				}
			}
			if err := way.leave(w, t.Context()); err != nil {
				t.Fatal(err)
			}
			waiting.Wait()
			if got := openFDs(t); got > fds {
				t.Errorf("%d descriptors are open, %d before the watches", got, fds)
			}
			for till := time.Now().Add(2 * time.Minute); runtime.NumGoroutine() > routines; time.Sleep(time.Millisecond) {
				if time.Now().After(till) { // one that has answered may still be on its way out, but not for so long
					t.Fatalf("%d goroutines run, %d before the watches", runtime.NumGoroutine(), routines)
				}
			}
			for _, x := range watchers {
				if err := x.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
				if _, err := x.Next(t.Context()); !errors.Is(err, io.EOF) {
					t.Errorf("next after close: %v", err)
				}
			}
		})
	}
}

// countingWatcher counts how often it is closed, and knows whether its workspace
// still was there.
type countingWatcher struct {
	closed atomic.Int32
	gone   *atomic.Bool
	late   atomic.Bool
}

func (c *countingWatcher) Next(ctx context.Context) (Changes, error) {
	<-ctx.Done()
	return Changes{}, ctx.Err()
}

func (c *countingWatcher) Close() error {
	c.closed.Add(1)
	c.late.Store(c.gone.Load())
	return nil
}

func TestWatcherIsClosedOnceAndBeforeTheEnd(t *testing.T) {
	for range 50 {
		var gone atomic.Bool
		x := &countingWatcher{gone: &gone}
		d := *openMemory(t, new(memory.Provider))
		fs := *d.FS
		fs.Watch = func(context.Context, string, *driver.WatchOptions) (driver.Watcher, error) { return x, nil }
		d.FS = &fs
		destroy := d.Life.Destroy
		d.Life.Destroy = func(ctx context.Context) error { gone.Store(true); return destroy(ctx) }
		w := newHandle(t, &d, nil)
		got, err := w.Watch(t.Context(), ".", nil)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { got.Close() })
		wg.Go(func() { w.Destroy(t.Context()) })
		wg.Wait()
		if n := x.closed.Load(); n != 1 || x.late.Load() {
			t.Fatalf("closed %d times, after the end: %v", n, x.late.Load())
		}
	}
}

// stalledBody yields a little and then nothing until it is let go.
type stalledBody struct {
	first   bool
	waiting chan struct{}
	letGo   chan struct{}
}

func newStalled(t *testing.T) *stalledBody {
	b := &stalledBody{waiting: make(chan struct{}), letGo: make(chan struct{})}
	t.Cleanup(func() { close(b.letGo) })
	return b
}

func (b *stalledBody) Read(p []byte) (int, error) {
	if !b.first {
		b.first = true
		return copy(p, "half of the"), nil
	}
	close(b.waiting)
	<-b.letGo
	return copy(p, " new content"), io.EOF
}

// Destroying waited for as long as a client that sent half of a file did.
func TestLeavingDoesNotWaitForABody(t *testing.T) {
	for provider, open := range map[string]func(*testing.T) *driver.Workspace{
		"memory": func(t *testing.T) *driver.Workspace { return openMemory(t, new(memory.Provider)) },
		"local":  openLocal,
	} {
		for name, way := range ways {
			t.Run(provider+" "+name, func(t *testing.T) {
				d := open(t)
				w, other := newHandle(t, d, nil), newHandle(t, d, nil)
				if _, err := w.WriteFile(t.Context(), "f", []byte("old"), nil); err != nil {
					t.Fatal(err)
				}
				body, failed := newStalled(t), make(chan error)
				go func() {
					_, err := w.Write(t.Context(), "f", body, nil)
					got, _ := other.ReadFile(t.Context(), "f") // "" where it was destroyed already
					if s := string(got); s != "old" && s != "" {
						t.Errorf("the file has %q", s)
					}
					failed <- err
				}()
				<-body.waiting
				if err := way.leave(w, t.Context()); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if err := <-failed; fault.Of(err) != way.code || !errors.Is(err, w.inflight.closeReason()) {
					t.Errorf("write: %v, want %v", err, way.code)
				}
			})
		}
	}
}

func TestCancelingLeavesABody(t *testing.T) {
	w := newMemory(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	body := newStalled(t)
	go func() { <-body.waiting; cancel() }()
	if _, err := w.Write(ctx, "f", body, nil); fault.Of(err) != fault.Canceled {
		t.Errorf("write: %v", err)
	}
	if _, err := w.Stat(t.Context(), "f", nil); fault.Of(err) != fault.NotFound {
		t.Errorf("stat: %v", err)
	}
}

// What a body panics with is the error of its write, as before it was read aside.
func TestBodyMayPanic(t *testing.T) {
	w := newMemory(t, nil)
	if _, err := w.Write(t.Context(), "f", panicking{}, nil); fault.Of(err) != fault.Internal {
		t.Errorf("write: %v", err)
	}
}

type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("a body of ill will") }

func TestBodyArrivesWhole(t *testing.T) {
	w := newMemory(t, nil)
	want := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	if _, err := w.Write(t.Context(), "f", io.LimitReader(bytes.NewReader(want), int64(len(want))), nil); err != nil {
		t.Fatal(err)
	}
	if got, err := w.ReadFile(t.Context(), "f"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
}

// A workspace counted as idle, and was ended, during a download from it.
func TestOpenReaderIsUse(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			w := newHandle(t, openLocal(t), nil)
			if _, err := w.WriteFile(t.Context(), "f", []byte("content"), nil); err != nil {
				t.Fatal(err)
			}
			fds := openFDs(t)
			first, _, err := w.Read(t.Context(), "f", nil)
			if err != nil {
				t.Fatal(err)
			}
			second, _, err := w.Read(t.Context(), "f", nil)
			if err != nil || !w.Busy() {
				t.Fatalf("busy %v while two readers are open, %v", w.Busy(), err)
			}
			if got, err := io.ReadAll(first); string(got) != "content" || err != nil || !w.Busy() {
				t.Errorf("read %q, %v; busy %v", got, err, w.Busy())
			}
			first.Close()
			first.Close()
			if !w.Busy() {
				t.Error("not busy while a reader is open")
			}
			if err := way.leave(w, t.Context()); err != nil {
				t.Fatal(err)
			}
			if n, err := second.Read(make([]byte, 1)); n != 0 || fault.Of(err) != way.code {
				t.Errorf("read after the end: %d, %v", n, err)
			}
			if got := openFDs(t); w.Busy() || got > fds {
				t.Errorf("busy %v with %d descriptors, %d before", w.Busy(), got, fds)
			}
			if err := second.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}

// blockingReader tells that it is read, and blocks until it is closed.
type blockingReader struct{ reading, closed chan struct{} }

func (r blockingReader) Read([]byte) (int, error) {
	close(r.reading)
	<-r.closed
	return 0, io.EOF
}

func (r blockingReader) Close() error { close(r.closed); return nil }

// quietWatcher is a deafWatcher that is closed without a panic.
type quietWatcher struct{ deafWatcher }

func (quietWatcher) Close() error { return nil }

// oneReader opens one reader for every file.
type oneReader struct {
	driver.Files
	body io.ReadCloser
}

func (f oneReader) Read(context.Context, string, *driver.ReadOptions) (io.ReadCloser, driver.Info, error) {
	return f.body, driver.Info{}, nil
}

// Whoever only looks on waits for changes, reads a file and measures, and the workspace is idle.
func TestLookingOnIsNotBusy(t *testing.T) {
	d := *openMemory(t, new(memory.Provider))
	waiting, measured := make(chan struct{}), make(chan bool, 1)
	body := blockingReader{make(chan struct{}), make(chan struct{})}
	d.FS = &driver.FS{
		Files: oneReader{d.FS.Files, body},
		Watch: func(context.Context, string, *driver.WatchOptions) (driver.Watcher, error) {
			return quietWatcher{deafWatcher{waiting}}, nil
		},
	}
	var w *Workspace
	life := d.Life
	life.Metrics = func(context.Context) (driver.Metrics, error) { measured <- w.Busy(); return driver.Metrics{}, nil }
	d.Life = life
	w = newHandle(t, &d, nil)
	ctx, cancel := context.WithCancel(WithoutUse(t.Context()))
	defer cancel()
	watcher, err := w.Watch(ctx, ".", nil)
	if err != nil {
		t.Fatal(err)
	}
	reader, _, err := w.Read(ctx, "f", nil)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { watcher.Next(ctx) })
	wg.Go(func() { reader.Read(make([]byte, 1)) })
	<-waiting
	<-body.reading
	if w.Busy() {
		t.Error("busy with a watcher and a reader of who looks on")
	}
	if _, err := w.Metrics(ctx); err != nil || <-measured {
		t.Errorf("busy with a measurement; %v", err)
	}
	cancel()
	reader.Close()
	wg.Wait()
}

func TestFailedReadIsNoUse(t *testing.T) {
	w := newMemory(t, nil)
	if body, _, err := w.Read(t.Context(), "none", nil); body != nil || fault.Of(err) != fault.NotFound || w.Busy() || len(w.inflight.long) != 0 {
		t.Errorf("read: %v, %v; busy %v", body, err, w.Busy())
	}
}

// Destroying waited for a client that did not take the output of its command.
func TestLeavingDoesNotWaitForACallback(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			d := *openMemory(t, new(memory.Provider))
			shell := driver.Shell{
				Starter: noStarter{},
				Run: func(_ context.Context, cmd driver.Command) (driver.Result, error) {
					return driver.Result{ExitCode: -1, Cause: driver.CauseCanceled}, cmd.OnStdout([]byte("output"))
				},
			}
			d.Shell = &shell
			d.Ref.Capabilities = d.Built()
			w := newHandle(t, &d, nil)
			called, letGo, failed := make(chan struct{}), make(chan struct{}), make(chan error)
			defer close(letGo)
			go func() {
				_, err := w.Run(t.Context(), driver.Command{Argv: []string{"x"}, OnStdout: func([]byte) error {
					close(called)
					<-letGo
					return nil
				}})
				failed <- err
			}()
			<-called
			if err := way.leave(w, t.Context()); err != nil {
				t.Error(err)
			}
			if err := <-failed; fault.Of(err) != way.code {
				t.Errorf("run: %v", err)
			}
		})
	}
}

func TestViolationNamesToolWorkspaceAndSession(t *testing.T) {
	ring := event.NewRing(10)
	w := newMemory(t, &Options{Events: event.NewStream(ring), Session: driver.SessionRef{ID: "s1"}})
	w.Rename(t.Context(), "a", "../out", nil)
	var got map[string]any
	for _, e := range ring.Events() {
		if e.Kind == event.SandboxViolation {
			got = e.Fields
		}
	}
	want := map[string]any{"tool": "rename", "verb": "rename", "workspace": w.ID(), "session": "s1", "path": "a", "to": "../out"}
	for key, value := range want {
		if diff := cmp.Diff(value, got[key]); diff != "" {
			t.Errorf("%s: %s", key, diff)
		}
	}
}

func TestBoundsOfListsAndSearches(t *testing.T) {
	for name, w := range map[string]*Workspace{"memory": newMemory(t, nil), "local": newHandle(t, openLocal(t), nil)} {
		for what, call := range map[string]func() error{
			"list": func() error {
				_, err := w.List(t.Context(), ".", &ListOptions{Limit: driver.MaxListLimit + 1})
				return err
			},
			"glob": func() error {
				_, err := w.Glob(t.Context(), "*", &GlobOptions{Limit: driver.MaxGlobLimit + 1})
				return err
			},
			"context": func() error { _, err := w.Grep(t.Context(), "m", &GrepOptions{Before: 1_000_000}); return err },
			"matches": func() error { _, err := w.Grep(t.Context(), "m", &GrepOptions{MaxMatches: 2_000_000_000}); return err },
		} {
			if err := call(); fault.Of(err) != fault.InvalidArgument {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		if _, err := w.List(t.Context(), ".", &ListOptions{Limit: driver.MaxListLimit}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type noStarter struct{}

func (noStarter) Start(context.Context, driver.Command) (*driver.Session, error) {
	return nil, fault.Unsupported
}

// A waiter's calls last as long as their contexts. It closes under once one is
// under way.
type waiter struct {
	driver.Files
	under chan struct{}
}

func (w waiter) wait(ctx context.Context) error {
	close(w.under)
	<-ctx.Done()
	return ctx.Err()
}

func (w waiter) Read(ctx context.Context, _ string, _ *driver.ReadOptions) (io.ReadCloser, Info, error) {
	return nil, Info{}, w.wait(ctx)
}

func (w waiter) Write(ctx context.Context, _ string, _ io.Reader, _ *driver.WriteOptions) (WriteResult, error) {
	return WriteResult{}, w.wait(ctx)
}

func (w waiter) Start(ctx context.Context, _ driver.Command) (*driver.Session, error) {
	return nil, w.wait(ctx)
}

// A call that closing cut short said that it was canceled, which nobody had done.
func TestWhatLeavingCutsShortSaysWhy(t *testing.T) {
	calls := map[string]func(context.Context, *Workspace) error{
		"read": func(ctx context.Context, w *Workspace) error {
			_, _, err := w.Read(ctx, "f", nil)
			return err
		},
		"write": func(ctx context.Context, w *Workspace) error {
			_, err := w.WriteFile(ctx, "f", []byte("new"), nil)
			return err
		},
		"run": func(ctx context.Context, w *Workspace) error {
			_, err := w.Run(ctx, driver.Command{Argv: []string{"true"}})
			return err
		},
		"command": func(ctx context.Context, w *Workspace) error { return w.Command(ctx, "true").Start() },
	}
	for verb, call := range calls {
		begin := func(t *testing.T, ctx context.Context) (*Workspace, chan error) {
			d := openMemory(t, new(memory.Provider))
			files := waiter{d.FS.Files, make(chan struct{})}
			d.FS, d.Shell = &driver.FS{Files: files}, &driver.Shell{Starter: files}
			d.Ref.Capabilities = driver.NewCapabilities(driver.CapFS, driver.CapShell)
			w, failed := newHandle(t, d, nil), make(chan error)
			go func() { failed <- call(ctx, w) }()
			<-files.under
			return w, failed
		}
		for name, way := range ways {
			t.Run(name+" "+verb, func(t *testing.T) {
				w, failed := begin(t, t.Context())
				if err := way.leave(w, t.Context()); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if err := <-failed; fault.Of(err) != way.code || !errors.Is(err, w.inflight.closeReason()) {
					t.Errorf("got %v, want %v", err, w.inflight.closeReason())
				}
			})
		}
		t.Run("cancel "+verb, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			_, failed := begin(t, ctx)
			cancel()
			if err := <-failed; fault.Of(err) != fault.Canceled {
				t.Errorf("got %v, want %v", err, fault.Canceled)
			}
		})
	}
}
