package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace/driver"
)

// everyFileCall makes each call of the file API once, without options.
func everyFileCall(ctx context.Context, w *Workspace) map[string]error {
	errs := map[string]error{}
	note := func(name string, err error) { errs[name] = err }
	_, err := w.Stat(ctx, "a/", nil)
	note("stat", err)
	_, err = w.ReadDir(ctx, "/")
	note("readdir", err)
	_, err = w.List(ctx, "", nil)
	note("list", err)
	_, _, err = w.Read(ctx, "./a", nil)
	note("read", err)
	_, err = w.ReadFile(ctx, "x/../a")
	note("readfile", err)
	_, err = w.Write(ctx, "b//c/../d", strings.NewReader("x"), nil)
	note("write", err)
	_, err = w.Edit(ctx, "./edit", []Edit{{Old: "old", New: "new"}}, nil)
	note("edit", err)
	note("mkdir", w.Mkdir(ctx, "b/new/", nil))
	note("rename", w.Rename(ctx, "./edit", "b/./edited", nil))
	note("copy", w.Copy(ctx, "a/", "b/../copy", nil))
	note("chmod", w.Chmod(ctx, "./a", 0o600))
	note("symlink", w.Symlink(ctx, "a", "./link"))
	_, err = w.Glob(ctx, "*", nil)
	note("glob", err)
	_, err = w.Grep(ctx, "x", nil)
	note("grep", err)
	watcher, err := w.Watch(ctx, "./b", nil)
	note("watch", err)
	if err == nil {
		watcher.Close()
	}
	_, err = w.Digest(ctx, "b/")
	note("digest", err)
	note("remove", w.Remove(ctx, "./link", nil))
	return errs
}

func prepare(t *testing.T, d *driver.Workspace) {
	t.Helper()
	for name, content := range map[string]string{"a": "x", "edit": "old", "b/f": ""} {
		if _, err := d.FS.Write(t.Context(), name, strings.NewReader(content), &driver.WriteOptions{Parents: true}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDriversGetValidNamesAndOptions(t *testing.T) {
	for _, part := range []string{"all functions", "required ones"} {
		t.Run(part, func(t *testing.T) {
			d := openMemory(t, new(memory.Provider))
			prepare(t, d)
			if part == "required ones" {
				d = bare(d)
			}
			var calls counter
			w := newHandle(t, hooked(d, func(call, name string, opts any) error {
				calls.add(call)
				if !driver.ValidName(name) {
					t.Errorf("%s got the name %q", call, name)
				}
				if v := reflect.ValueOf(opts); v.Kind() == reflect.Pointer && v.IsNil() {
					t.Errorf("%s got nil options", call)
				}
				return nil
			}), nil)
			for name, err := range everyFileCall(t.Context(), w) {
				lacks := part == "required ones" && (name == "chmod" || name == "symlink" || name == "watch" || name == "remove")
				if got := fault.Of(err); lacks && got != fault.Unsupported && name != "remove" || !lacks && err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			for _, call := range []string{"stat", "readdir", "read", "write", "mkdir", "remove"} {
				if calls.get(call) == 0 {
					t.Errorf("%s was never called", call)
				}
			}
		})
	}
}

func TestNoCallFollowsClose(t *testing.T) {
	d := openMemory(t, new(memory.Provider))
	prepare(t, d)
	var closed atomic.Bool
	inner := d.Life.Close
	h := hooked(d, func(call, name string, _ any) error {
		if closed.Load() {
			t.Errorf("%s %s came after Close", call, name)
		}
		return nil
	})
	var closes atomic.Int32
	h.Life.Close = func(ctx context.Context) error {
		closed.Store(true)
		closes.Add(1)
		return inner(ctx)
	}
	h.Life.Destroy = func(context.Context) error {
		t.Error("Destroy came after Close")
		return nil
	}
	w := newHandle(t, h, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if _, err := w.ReadFile(t.Context(), "a"); err != nil && fault.Of(err) != fault.WrongState {
					t.Errorf("ReadFile = %v, want nil or WrongState", err)
				}
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			if err := w.Close(t.Context()); err != nil {
				t.Errorf("Close = %v", err)
			}
		})
	}
	wg.Wait()
	for name, err := range everyFileCall(t.Context(), w) {
		if got := fault.Of(err); got != fault.WrongState {
			t.Errorf("%s after Close = %v, want WrongState", name, err)
		}
	}
	if err := w.Destroy(t.Context()); fault.Of(err) != fault.WrongState {
		t.Errorf("Destroy after Close = %v, want WrongState", err)
	}
	if got := closes.Load(); got != 1 {
		t.Errorf("the driver was closed %d times", got)
	}
}

func TestCloseWaitsForCallsAsLongAsItMay(t *testing.T) {
	d := openMemory(t, new(memory.Provider))
	started, finish := make(chan struct{}), make(chan struct{})
	w := newHandle(t, hooked(d, func(call, _ string, _ any) error {
		if call == "stat" {
			close(started)
			<-finish
		}
		return nil
	}), nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := w.Stat(t.Context(), ".", nil); err != nil {
			t.Errorf("the call under way = %v", err)
		}
	})
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Close(ctx); fault.Of(err) != fault.Canceled {
		t.Errorf("Close under a canceled context = %v, want Canceled", err)
	}
	// A call within the closing is refused and does not wait.
	if _, err := w.ReadDir(t.Context(), "."); fault.Of(err) != fault.WrongState {
		t.Errorf("a call meanwhile = %v, want WrongState", err)
	}
	close(finish)
	if err := w.Close(t.Context()); err != nil {
		t.Errorf("Close again = %v", err)
	}
	wg.Wait()
}

func TestDestroyEndsTheHandleAndCanBeRepeated(t *testing.T) {
	d := openMemory(t, new(memory.Provider))
	inner, fail := d.Life.Destroy, true
	d.Life.Destroy = func(ctx context.Context) error {
		if fail {
			return fault.Unavailable
		}
		return inner(ctx)
	}
	w := newHandle(t, d, nil)
	if err := w.Destroy(t.Context()); fault.Of(err) != fault.Unavailable {
		t.Errorf("Destroy that fails = %v", err)
	}
	fail = false
	for range 2 {
		if err := w.Destroy(t.Context()); err != nil {
			t.Errorf("Destroy = %v", err)
		}
	}
	if _, err := w.Stat(t.Context(), ".", nil); fault.Of(err) != fault.NotFound {
		t.Errorf("Stat = %v, want NotFound", err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Errorf("Close = %v", err)
	}
}

// evicting returns a handle whose driver answers Evicted until it is renewed
// often enough, and the count of renewals.
func evicting(t *testing.T, p *memory.Provider, times int) (*Workspace, *atomic.Int32) {
	t.Helper()
	d := openMemory(t, p)
	prepare(t, d)
	var renewals atomic.Int32
	flaky := func() *driver.Workspace {
		return hooked(d, func(call, _ string, _ any) error {
			if int(renewals.Load()) < times {
				return fmt.Errorf("%s: %w", call, fault.Evicted)
			}
			return nil
		})
	}
	w := newHandle(t, flaky(), &Options{Renew: func(context.Context, *driver.Workspace) (*driver.Workspace, error) {
		renewals.Add(1)
		return flaky(), nil
	}})
	return w, &renewals
}

func TestEvictionIsRenewedOnceForAll(t *testing.T) {
	w, renewals := evicting(t, new(memory.Provider), 1)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if data, err := w.ReadFile(t.Context(), "a"); string(data) != "x" || err != nil {
				t.Errorf("ReadFile = %q, %v", data, err)
			}
		})
	}
	wg.Wait()
	if got := renewals.Load(); got != 1 {
		t.Errorf("renewed %d times, want 1", got)
	}
}

func TestEvictionIsRepeatedOnce(t *testing.T) {
	w, renewals := evicting(t, new(memory.Provider), 5)
	if _, err := w.ReadFile(t.Context(), "a"); fault.Of(err) != fault.Evicted {
		t.Errorf("ReadFile = %v, want Evicted", err)
	}
	if got := renewals.Load(); got != 1 {
		t.Errorf("renewed %d times, want 1", got)
	}
}

// An update replaces what calls go to, but not the thing behind it: a call that
// began before and is evicted must still renew.
func TestEvictionAfterAnUpdateStillRenews(t *testing.T) {
	p := new(memory.Provider)
	d := openMemory(t, p)
	prepare(t, d)
	entered, updated := make(chan struct{}), make(chan struct{})
	var once sync.Once
	evicted := hooked(d, func(string, string, any) error {
		once.Do(func() { close(entered); <-updated })
		return fault.Evicted
	})
	w := newHandle(t, evicted, &Options{Renew: func(ctx context.Context, stale *driver.Workspace) (*driver.Workspace, error) {
		return p.Resolve(ctx, stale.Ref) // which refuses a ref that is not the newest
	}})
	var wg sync.WaitGroup
	wg.Go(func() {
		if data, err := w.ReadFile(t.Context(), "a"); string(data) != "x" || err != nil {
			t.Errorf("ReadFile = %q, %v", data, err)
		}
	})
	<-entered
	ref, err := w.Update(t.Context(), Policy{ReadOnly: true})
	close(updated)
	wg.Wait()
	if err != nil || ref.Revision != 2 || w.Ref().Revision != 2 {
		t.Errorf("Update = revision %d, %v; the handle has %d", ref.Revision, err, w.Ref().Revision)
	}
	if _, err := w.WriteFile(t.Context(), "a", nil, nil); fault.Of(err) != fault.PermissionDenied {
		t.Errorf("WriteFile under the new policy = %v", err)
	}
}

func TestConcurrentUpdatesKeepTheNewestRef(t *testing.T) {
	w := newMemory(t, nil)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := w.Update(t.Context(), Policy{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := w.Ref().Revision; got != 21 {
		t.Errorf("the handle has revision %d, want 21", got)
	}
}

func TestRenewedWorkspacesAreHeldAgainstTheContract(t *testing.T) {
	d := hooked(openMemory(t, new(memory.Provider)), func(string, string, any) error { return fault.Evicted })
	w := newHandle(t, d, &Options{Renew: func(context.Context, *driver.Workspace) (*driver.Workspace, error) {
		return &driver.Workspace{Ref: d.Ref}, nil
	}})
	if _, err := w.Stat(t.Context(), ".", nil); fault.Of(err) != fault.Failed {
		t.Errorf("Stat = %v, want Failed", err)
	}
}

func TestBodiesOfWritesThatAreRepeated(t *testing.T) {
	// The driver takes some of the body before it finds out, or none.
	tests := map[string]struct {
		body io.Reader
		take int
		want fault.Code
	}{
		"seekable":             {strings.NewReader("content"), 3, ""},
		"stream not yet taken": {onlyReader{strings.NewReader("content")}, 0, ""},
		"stream that was":      {onlyReader{strings.NewReader("content")}, 3, fault.Unavailable},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			good := openMemory(t, new(memory.Provider))
			bad := *good
			bad.FS = &driver.FS{Files: evictedWriter{good.FS.Files, tt.take}}
			w := newHandle(t, &bad, &Options{Renew: func(context.Context, *driver.Workspace) (*driver.Workspace, error) { return good, nil }})
			_, err := w.Write(t.Context(), "f", tt.body, nil)
			if got := fault.Of(err); got != tt.want {
				t.Fatalf("Write = %v, want %q", err, tt.want)
			}
			data, err := w.ReadFile(t.Context(), "f")
			if tt.want == "" && (string(data) != "content" || err != nil) {
				t.Errorf("the file holds %q, %v", data, err)
			}
			if tt.want != "" && fault.Of(err) != fault.NotFound {
				t.Errorf("a part was written: %q, %v", data, err)
			}
		})
	}
}

type onlyReader struct{ io.Reader }

// evictedWriter takes some of the body and then answers Evicted.
type evictedWriter struct {
	driver.Files
	take int
}

func (e evictedWriter) Write(_ context.Context, _ string, body io.Reader, _ *driver.WriteOptions) (driver.WriteResult, error) {
	if _, err := io.CopyN(io.Discard, body, int64(e.take)); err != nil {
		return driver.WriteResult{}, err
	}
	return driver.WriteResult{}, fault.Evicted
}

func TestAPanicOfAProviderIsTheCallsOwnError(t *testing.T) {
	var log bytes.Buffer
	d := hooked(openMemory(t, new(memory.Provider)), func(call, _ string, _ any) error {
		if call == "stat" {
			panic("a secret detail")
		}
		return nil
	})
	w := newHandle(t, d, &Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	_, err := w.Stat(t.Context(), ".", nil)
	if fault.Of(err) != fault.Internal || strings.Contains(err.Error(), "secret") {
		t.Errorf("Stat = %v, want an Internal without the detail", err)
	}
	if !strings.Contains(log.String(), "a secret detail") {
		t.Errorf("the log does not have the detail: %s", log.String())
	}
	if _, err := w.ReadDir(t.Context(), "."); err != nil {
		t.Errorf("the next call = %v", err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Errorf("Close = %v", err)
	}
}

func TestMaxFileSizeBoundsEveryWrite(t *testing.T) {
	w := newMemory(t, &Options{MaxFileSize: 4})
	ctx := t.Context()
	if _, err := w.WriteFile(ctx, "f", []byte("1234"), nil); err != nil {
		t.Fatal(err)
	}
	_, larger := w.WriteFile(ctx, "f", []byte("12345"), nil)
	_, raised := w.WriteFile(ctx, "f", []byte("12345"), &WriteOptions{MaxSize: 100})
	_, lowered := w.WriteFile(ctx, "f", []byte("123"), &WriteOptions{MaxSize: 2})
	_, edited := w.Edit(ctx, "f", []Edit{{Old: "4", New: "456"}}, nil)
	created, err := w.FS().With(ctx).Create("f")
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(created, "12345")
	for what, err := range map[string]error{"larger": larger, "raised": raised, "lowered": lowered, "edited": edited, "created": created.Close()} {
		if got := fault.Of(err); got != fault.ResourceExhausted {
			t.Errorf("%s: %v, want ResourceExhausted", what, err)
		}
	}
	if data, err := w.ReadFile(ctx, "f"); string(data) != "1234" {
		t.Errorf("the file holds %q, %v", data, err)
	}
}

func TestACanceledCallHasNoEffect(t *testing.T) {
	d := openMemory(t, new(memory.Provider))
	prepare(t, d)
	var calls counter
	w := newHandle(t, hooked(d, func(call, _ string, _ any) error { calls.add(call); return nil }), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, err := range everyFileCall(ctx, w) {
		if fault.Of(err) != fault.Canceled || !errors.Is(err, context.Canceled) {
			t.Errorf("%s = %v, want Canceled", name, err)
		}
	}
	if diff := cmp.Diff(map[string]int(nil), calls.n); diff != "" {
		t.Errorf("the driver was called:\n%s", diff)
	}
}

func TestPauseSaysWhyItCannot(t *testing.T) {
	d := *openMemory(t, new(memory.Provider))
	d.Life.Pause, d.Life.NoPause = nil, "there is no freezer"
	if err := newHandle(t, &d, nil).Pause(t.Context()); fault.Of(err) != fault.Unsupported || !strings.Contains(err.Error(), "there is no freezer") {
		t.Errorf("Pause = %v", err)
	}
}

func TestWhatAProviderLacksIsUnsupported(t *testing.T) {
	w := newMemory(t, nil)
	ctx := t.Context()
	errs := map[string]error{"pause": w.Pause(ctx), "resume": w.Resume(ctx), "delete": w.DeleteSnapshot(ctx, "x", nil), "command": w.Command(ctx, "true").Run()}
	_, errs["run"] = w.Run(ctx, driver.Command{Script: "true"})
	_, errs["sessions"] = w.Sessions(ctx)
	_, errs["attach"] = w.Attach(ctx, "x")
	_, errs["code"] = w.RunCode(ctx, driver.Code{Source: "1"})
	_, errs["script"] = w.RunScript(ctx, driver.Code{Source: "1"})
	_, errs["context"] = w.CreateContext(ctx, "", nil)
	_, errs["snapshot"] = w.Snapshot(ctx, nil)
	_, errs["snapshots"] = w.Snapshots(ctx, nil)
	_, errs["rollback"] = w.Rollback(ctx, "x", nil)
	_, errs["seal"] = w.Seal(ctx, nil)
	_, errs["checkpoint"] = w.Checkpoint(ctx, nil)
	for what, err := range errs {
		if fault.Of(err) != fault.Unsupported || !strings.Contains(err.Error(), "memory") {
			t.Errorf("%s = %v, want Unsupported with the name of the provider", what, err)
		}
	}
}

func TestMux(t *testing.T) {
	m := NewMux(new(memory.Provider))
	ctx := t.Context()
	id := NewID()
	w, err := m.Open(ctx, Spec{Kind: "memory", ID: id}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteFile(ctx, "f", []byte("x"), nil); err != nil {
		t.Fatal(err)
	}
	again, err := m.Resolve(ctx, id, w.Ref(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := again.ReadFile(ctx, "f"); string(data) != "x" || err != nil {
		t.Errorf("ReadFile = %q, %v", data, err)
	}
	_, unknown := m.Open(ctx, Spec{Kind: "nope", ID: id}, nil)
	_, badID := m.Open(ctx, Spec{Kind: "memory", ID: "../x"}, nil)
	for what, err := range map[string]error{"kind": unknown, "id": badID} {
		if fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%s: %v, want InvalidArgument", what, err)
		}
	}
	if !strings.Contains(unknown.Error(), "memory") {
		t.Errorf("the error does not name the providers: %v", unknown)
	}
	defer func() {
		if recover() == nil {
			t.Error("a second provider of one kind was taken")
		}
	}()
	m.Register(new(memory.Provider))
}
