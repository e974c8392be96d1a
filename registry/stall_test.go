package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// pausable is a provider whose workspaces can be paused; pauses and destroys of the workspaces in
// stuck hang.
type pausable struct {
	stuck sync.Map // of ids
	free  chan struct{}
	heeds bool // whether a call that hangs ends with its context
	hung  atomic.Int64
}

func (p *pausable) provider() driver.Provider {
	return decorated{new(memory.Provider), func(d *driver.Workspace) {
		var payload struct{ ID string }
		if err := json.Unmarshal(d.Ref.Payload, &payload); err != nil {
			panic(err)
		}
		d.Life.Pause = func(ctx context.Context) error { return p.wait(ctx, payload.ID) }
		d.Life.Resume = func(context.Context) error { return nil }
	}}
}

func (p *pausable) wait(ctx context.Context, id string) error {
	if _, stuck := p.stuck.Load(id); !stuck {
		return nil
	}
	p.hung.Add(1)
	if !p.heeds {
		<-p.free
		return nil
	}
	select {
	case <-p.free:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lockedBuffer is a buffer for concurrent use.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(data)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestAPauseThatHangsStopsNothingElse: one workspace whose pause hangs, at its end or by request,
// leaves the ends of all others in time; it is reported, other changes of it are refused in time, and
// it can be destroyed.
//
//croft:race
func TestAPauseThatHangsStopsNothingElse(t *testing.T) {
	for name, heeds := range map[string]bool{"and heeds its context": true, "and ignores its context": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pausable{free: make(chan struct{}), heeds: heeds}
				log := new(lockedBuffer)
				g := newRigOn(t, sqliteURL(t), workspacetest.NewScripted(p.provider()), &Options{Log: slog.New(slog.NewTextHandler(log, nil))})
				ctx, stop := context.WithCancel(t.Context())
				ran := make(chan error, 1)
				go func() { ran <- g.Run(ctx) }()
				defer func() {
					close(p.free)
					synctest.Wait()
					stop()
					if err := <-ran; err != nil {
						t.Error(err)
					}
				}()
				create := func(tenant string, after time.Duration, on OnEnd, idle time.Duration) string {
					t.Helper()
					ctx := auth.With(t.Context(), auth.Principal{Tenant: tenant})
					attrs := Attributes{OnEnd: on}
					if after > 0 {
						attrs.EndAt = time.Now().Add(after)
					}
					rec, err := g.CreateWith(ctx, workspace.Spec{Kind: memory.Kind, Policy: workspace.Policy{Idle: idle}}, attrs)
					if err != nil {
						t.Fatal(err)
					}
					g.acquireOK(rec.ID)
					return rec.ID
				}
				// More than are worked on at a time.
				var stuck []string
				for range 20 {
					id := create("one", time.Second, PauseOnEnd, 0)
					p.stuck.Store(id, true)
					stuck = append(stuck, id)
				}
				time.Sleep(2 * time.Second)
				paused, destroyed := create("two", time.Second, PauseOnEnd, 0), create("two", time.Second, DestroyOnEnd, 0)
				idle := create("two", 0, DestroyOnEnd, time.Second)
				time.Sleep(10 * time.Second)
				g.wantState(paused, Paused)
				g.wantState(destroyed, "")
				g.wantState(idle, "")
				if n := p.hung.Load(); n != int64(len(stuck)) {
					t.Errorf("%d pauses hang, want one of each of %d workspaces", n, len(stuck))
				}
				if len(g.Stalls()) != 0 {
					t.Errorf("stalls before the limit: %v", g.Stalls())
				}
				began := time.Now()
				wantCode(t, "resume", g.Resume(t.Context(), stuck[0]), fault.Unavailable)
				if took := time.Since(began); took > lockTime {
					t.Errorf("the change was refused after %v, want at most %v", took, lockTime)
				}

				time.Sleep(90 * time.Second)
				var want []Stall
				for _, id := range stuck {
					want = append(want, Stall{Task: "end", Workspace: id})
				}
				slices.SortFunc(want, func(a, b Stall) int { return strings.Compare(a.Workspace, b.Workspace) })
				got := g.Stalls()
				for i := range got {
					got[i].Since = time.Time{}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("stalls (-want +got):\n%s", diff)
				}
				if !strings.Contains(log.String(), "background work stalls") || !strings.Contains(log.String(), stuck[0]) {
					t.Errorf("the log does not name the stall:\n%.2000s", log)
				}
				// The next attempt hangs, too, until the workspace is destroyed.
				time.Sleep(45 * time.Second)
				began = time.Now()
				err := g.Destroy(t.Context(), stuck[0])
				if took := time.Since(began); took > 3*destroyTime {
					t.Errorf("it took %v to destroy the workspace", took)
				}
				if heeds {
					if err != nil {
						t.Errorf("destroy: %v", err)
					}
					g.wantState(stuck[0], "")
				} else if state := g.state(stuck[0]); state != Destroyed && state != "" {
					t.Errorf("the workspace is %s (%v), want destroyed", state, err)
				}
				_, err = g.Acquire(t.Context(), stuck[0])
				wantCode(t, "acquire", err, fault.NotFound)
				more := create("two", time.Second, PauseOnEnd, 0)
				time.Sleep(10 * time.Second)
				g.wantState(more, Paused)
			})
		})
	}
}

// A workspace whose provider hangs while a client pauses it is destroyed at its end.
//
//croft:race
func TestTheEndWinsOverAChangeThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pausable{free: make(chan struct{}), heeds: true}
		g := newRigOn(t, sqliteURL(t), workspacetest.NewScripted(p.provider()), nil)
		rec, err := g.CreateWith(t.Context(), workspace.Spec{Kind: memory.Kind}, Attributes{EndAt: time.Now().Add(time.Minute)})
		if err != nil {
			t.Fatal(err)
		}
		g.acquireOK(rec.ID)
		p.stuck.Store(rec.ID, true)
		paused := make(chan error, 1)
		go func() { paused <- g.Pause(t.Context(), rec.ID) }()
		time.Sleep(2 * time.Minute)
		if n, err := g.EndDue(t.Context()); n != 1 || err != nil {
			t.Errorf("ended %d, %v; want 1", n, err)
		}
		g.wantState(rec.ID, "")
		if err := <-paused; err == nil {
			t.Error("the pause succeeded")
		}
	})
}

// Pause ends the handle before the provider freezes the processes: a process that ends with the
// handle can't be ended once it is frozen.
func TestPauseClosesTheHandleFirst(t *testing.T) {
	var order []string
	base := decorated{new(memory.Provider), func(d *driver.Workspace) {
		end := d.Life.Close
		d.Life.Close = func(ctx context.Context) error { order = append(order, "close"); return end(ctx) }
		d.Life.Pause = func(context.Context) error { order = append(order, "pause"); return nil }
		d.Life.Resume = func(context.Context) error { order = append(order, "resume"); return nil }
	}}
	g := newRigOn(t, sqliteURL(t), workspacetest.NewScripted(base), nil)
	id := g.create(nil)
	ws := g.acquireOK(id)
	if err := g.Pause(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"close", "pause", "close"}, order); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	_, err := ws.Stat(t.Context(), ".", nil)
	if fault.CauseOf(err) != fault.CausePaused {
		t.Errorf("a call on the handle: %v, want one that says that the workspace is paused", err)
	}

	// After a pause that failed the workspace works.
	if err := g.Resume(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	g.p.On("pause", workspacetest.Plan{Err: fmt.Errorf("no: %w", fault.Failed)})
	wantCode(t, "pause", g.Pause(t.Context(), id), fault.Failed)
	g.wantState(id, Ready)
	if _, err := g.acquireOK(id).Stat(t.Context(), ".", nil); err != nil {
		t.Error(err)
	}
}
