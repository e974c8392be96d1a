package workspace

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace/driver"
)

// counting is an interpreter of one language: a context counts what it ran, and
// the source "wait" runs until it is told to stop.
type counting struct {
	contexts map[string]int
	began    chan struct{}
}

func (c *counting) RunCode(ctx context.Context, code driver.Code) (driver.CodeResult, error) {
	if code.Source == "wait" {
		close(c.began)
		<-ctx.Done()
		return driver.CodeResult{}, ctx.Err()
	}
	out := driver.Output{Kind: driver.OutputStdout, Text: code.Dir + ":" + code.Source}
	if code.OnOutput != nil {
		if err := code.OnOutput(out); err != nil {
			return driver.CodeResult{}, err
		}
	}
	if code.Source == "evict" {
		return driver.CodeResult{}, fault.Evicted
	}
	c.contexts[code.Context]++
	return driver.CodeResult{Outputs: []driver.Output{out}, Count: c.contexts[code.Context]}, nil
}

func newCoding(t *testing.T, opts *Options) (*Workspace, *counting) {
	t.Helper()
	c := &counting{contexts: map[string]int{}, began: make(chan struct{})}
	d := openMemory(t, new(memory.Provider))
	d.Code = &driver.Interpreter{
		Coder: c, Languages: []string{"count"},
		CreateContext: func(_ context.Context, language string, opts *driver.ContextOptions) (driver.CodeContext, error) {
			id := fmt.Sprint("c", len(c.contexts))
			c.contexts[id] = 0
			return driver.CodeContext{ID: id, Language: language, Dir: opts.Dir}, nil
		},
		Contexts: func(context.Context) (list []driver.CodeContext, _ error) {
			for id := range c.contexts {
				list = append(list, driver.CodeContext{ID: id})
			}
			return list, nil
		},
		Restart:       func(_ context.Context, id string) error { c.contexts[id] = 0; return nil },
		Interrupt:     func(context.Context, string) error { return nil },
		DeleteContext: func(_ context.Context, id string) error { delete(c.contexts, id); return nil },
	}
	d.Script = &driver.Interpreter{Coder: c, Languages: []string{"count"}}
	d.Ref.Capabilities = driver.NewCapabilities(driver.CapFS, driver.CapCode, driver.CapScript)
	return newHandle(t, d, opts), c
}

func TestCodeRunsInContexts(t *testing.T) {
	w, _ := newCoding(t, nil)
	ctx := t.Context()
	c, err := w.CreateContext(ctx, "count", &ContextOptions{Dir: "./a/"})
	if err != nil || c.Dir != "a" {
		t.Fatalf("CreateContext = %+v, %v; want the directory cleaned", c, err)
	}
	for want := 1; want <= 2; want++ {
		res, err := w.RunCode(ctx, Code{Source: "x", Context: c.ID, Dir: "b/.."})
		if err != nil || res.Count != want || res.Outputs[0].Text != ".:x" {
			t.Errorf("RunCode = %+v, %v; want count %d", res, err, want)
		}
	}
	if err := w.RestartContext(ctx, c.ID); err != nil {
		t.Error(err)
	}
	if res, err := w.RunCode(ctx, Code{Source: "x", Context: c.ID}); err != nil || res.Count != 1 {
		t.Errorf("after Restart: %+v, %v", res, err)
	}
	if err := w.InterruptContext(ctx, c.ID); err != nil {
		t.Error(err)
	}
	if err := w.DeleteContext(ctx, c.ID); err != nil {
		t.Error(err)
	}
	if list, err := w.Contexts(ctx); len(list) != 0 || err != nil {
		t.Errorf("Contexts = %v, %v", list, err)
	}
	if diff := cmp.Diff([]string{"count"}, w.Languages()); diff != "" {
		t.Error(diff)
	}
}

func TestCodeIsJudgedBeforeADriverSeesIt(t *testing.T) {
	w, c := newCoding(t, nil)
	ctx := t.Context()
	_, language := w.RunCode(ctx, Code{Source: "x", Language: "cobol"})
	_, dir := w.RunCode(ctx, Code{Source: "x", Dir: "../.."})
	_, timeout := w.RunCode(ctx, Code{Source: "x", Timeout: -1})
	_, state := w.RunScript(ctx, Code{Source: "x", Context: "c1"})
	_, made := w.CreateContext(ctx, "cobol", nil)
	for what, tt := range map[string]struct {
		err  error
		want fault.Code
	}{
		"language": {language, fault.InvalidArgument}, "dir": {dir, fault.SandboxViolation},
		"timeout": {timeout, fault.InvalidArgument}, "state": {state, fault.Unsupported}, "context": {made, fault.InvalidArgument},
	} {
		if fault.Of(tt.err) != tt.want {
			t.Errorf("%s: %v, want %s", what, tt.err, tt.want)
		}
	}
	if !strings.Contains(language.Error(), "count") {
		t.Errorf("the error does not name the languages: %v", language)
	}
	if len(c.contexts) != 0 {
		t.Errorf("the driver ran something: %v", c.contexts)
	}
}

func TestCodeNeverRunsTwiceAndEndsWithItsHandle(t *testing.T) {
	w, c := newCoding(t, &Options{Renew: func(_ context.Context, stale *driver.Workspace) (*driver.Workspace, error) {
		next := *stale
		return &next, nil
	}})
	outputs := 0
	_, err := w.RunCode(t.Context(), Code{Source: "evict", OnOutput: func(driver.Output) error { outputs++; return nil }})
	if fault.Of(err) != fault.Unavailable || outputs != 1 {
		t.Errorf("RunCode = %v after %d outputs, want Unavailable after 1", err, outputs)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := w.RunScript(t.Context(), Code{Source: "wait"})
		ended <- err
	}()
	<-c.began
	if err := w.Close(t.Context()); err != nil {
		t.Errorf("Close = %v", err)
	}
	if err := <-ended; fault.Of(err) != fault.WrongState {
		t.Errorf("RunScript = %v, want WrongState", err)
	}
}

type snapshotter struct{ opts *driver.SnapshotOptions }

func (s *snapshotter) Snapshot(_ context.Context, opts *driver.SnapshotOptions) (driver.SnapshotInfo, error) {
	s.opts = opts
	return driver.SnapshotInfo{ID: "snap"}, nil
}

func TestSnapshotsReachTheModule(t *testing.T) {
	s := new(snapshotter)
	d := openMemory(t, new(memory.Provider))
	info := func(id string) (driver.SnapshotInfo, error) { return driver.SnapshotInfo{ID: id}, nil }
	var deleted string
	d.Life.Snapshot = &driver.Snapshots{
		Snapshotter: s,
		List: func(_ context.Context, opts *driver.ListSnapshotsOptions) ([]driver.SnapshotInfo, error) {
			return make([]driver.SnapshotInfo, opts.Limit), nil
		},
		Delete: func(_ context.Context, id string, opts *driver.SnapshotAccess) error {
			deleted = id
			_ = *opts
			return nil
		},
		Rollback: func(_ context.Context, id string, opts *driver.SnapshotAccess) (driver.SnapshotInfo, error) {
			_ = *opts
			return info("before " + id)
		},
		Seal: func(_ context.Context, opts *driver.SnapshotOptions) (driver.SnapshotInfo, error) {
			return info("seal" + opts.Name)
		},
		Checkpoint: func(_ context.Context, opts *driver.SnapshotOptions) (driver.SnapshotInfo, error) {
			return info("check" + opts.Name)
		},
	}
	d.Ref.Capabilities = driver.NewCapabilities(driver.CapFS, driver.CapSnapshot)
	w := newHandle(t, d, nil)
	ctx := t.Context()
	taken, err1 := w.Snapshot(ctx, nil)
	list, err2 := w.Snapshots(ctx, &ListSnapshotsOptions{Limit: 2})
	before, err3 := w.Rollback(ctx, "x", nil)
	sealed, err4 := w.Seal(ctx, nil)
	checked, err5 := w.Checkpoint(ctx, nil)
	for _, err := range []error{err1, err2, err3, err4, err5, w.DeleteSnapshot(ctx, "gone", nil)} {
		if err != nil {
			t.Error(err)
		}
	}
	got := []string{taken.ID, fmt.Sprint(len(list)), before.ID, sealed.ID, checked.ID, deleted}
	if diff := cmp.Diff([]string{"snap", "2", "before x", "seal", "check", "gone"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s.opts == nil {
		t.Error("Snapshot got nil options")
	}
}
