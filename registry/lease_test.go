package registry

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

//croft:race
func TestIdleWorkspacesExpire(t *testing.T) {
	for name, tt := range map[string]struct {
		persist bool
		want    State
	}{"destroyed": {false, ""}, "closed": {true, Closed}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := new(memory.Provider)
				g := newRigOn(t, sqliteURL(t), workspacetest.NewScripted(base), nil)
				id := g.create(func(s *workspace.Spec) { s.Policy = workspace.Policy{Idle: time.Minute, Persist: tt.persist} })
				forever := g.create(nil)
				ws := g.acquireOK(id)
				g.acquireOK(forever)
				time.Sleep(50 * time.Second)
				if n, err := g.Expire(t.Context()); n != 0 || err != nil {
					t.Errorf("expired %d, %v; want none before its time", n, err)
				}
				if _, err := ws.Stat(t.Context(), ".", nil); err != nil { // a use of the handle
					t.Fatal(err)
				}
				time.Sleep(50 * time.Second)
				if n, err := g.Expire(t.Context()); n != 0 || err != nil {
					t.Errorf("expired %d, %v; want none since it was used", n, err)
				}
				time.Sleep(11 * time.Second)
				if n, err := g.Expire(t.Context()); n != 1 || err != nil {
					t.Errorf("expired %d, %v; want 1", n, err)
				}
				g.wantState(id, tt.want)
				g.wantState(forever, Ready)
				if made(t, base, id) != tt.persist {
					t.Errorf("the provider has it: %v, want %v", made(t, base, id), tt.persist)
				}
				if n, err := g.Expire(t.Context()); n != 0 || err != nil {
					t.Errorf("expired %d more, %v", n, err)
				}
			})
		})
	}
}

func TestACallUnderWayKeepsAWorkspaceFromExpiring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		id := g.create(func(s *workspace.Spec) { s.Policy.Idle = time.Minute })
		ws := g.acquireOK(id)
		g.p.OnCall(workspacetest.Plan{Delay: 10 * time.Minute})
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := ws.Stat(t.Context(), ".", nil); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(9 * time.Minute)
		if n, err := g.Expire(t.Context()); n != 0 || err != nil {
			t.Errorf("expired %d, %v; want none", n, err)
		}
		wg.Wait()
	})
}

// TestLookingOnKeepsNoWorkspaceAlive: who looks on reads a workspace, also with a call that takes
// long, and opens it, and it still expires at its time.
func TestLookingOnKeepsNoWorkspaceAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		id := g.create(func(s *workspace.Spec) { s.Policy.Idle = time.Minute })
		time.Sleep(20 * time.Second)
		ctx := workspace.WithoutUse(t.Context())
		ws, err := g.Acquire(ctx, id) // the first, which opens it
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if _, err := ws.Stat(ctx, ".", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Acquire(ctx, id); err != nil {
			t.Fatal(err)
		}
		g.p.OnCall(workspacetest.Plan{Delay: 10 * time.Second})
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := ws.Stat(ctx, ".", nil); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if ws.Busy() {
			t.Error("busy with a call of who looks on")
		}
		time.Sleep(15 * time.Second)
		wg.Wait()
		if n, err := g.Expire(t.Context()); n != 0 || err != nil {
			t.Errorf("expired %d, %v; want none before its time", n, err)
		}
		time.Sleep(5 * time.Second)
		if n, err := g.Expire(t.Context()); n != 1 || err != nil {
			t.Errorf("expired %d, %v; want 1", n, err)
		}
	})
}

func TestWhatAnotherRegistryHoldsDoesNotExpireUntilItCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		id := g.create(func(s *workspace.Spec) { s.Policy.Idle = time.Second })
		other := g.twin(nil)
		other.acquireOK(id)
		time.Sleep(5 * testLease) // its heartbeat goes on
		if n, err := g.Expire(t.Context()); n != 0 || err != nil {
			t.Errorf("expired %d, %v; want none while another one lives", n, err)
		}
		other.end() // the heartbeat stops, and nothing is released
		time.Sleep(testLease + time.Second)
		if n, err := g.Expire(t.Context()); n != 1 || err != nil {
			t.Errorf("expired %d, %v; want 1 after the crash", n, err)
		}
		g.wantState(id, "")
	})
}

func TestAHandleEndsWhenAnotherRegistryEndsTheWorkspace(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(g *rig, id string) error
		want fault.Code // of Acquire afterwards
	}{
		"destroy": {func(g *rig, id string) error { return g.Destroy(g.t.Context(), id) }, fault.NotFound},
		"close":   {func(g *rig, id string) error { return g.Close(g.t.Context(), id) }, ""},
		"update": {func(g *rig, id string) error {
			_, err := g.Update(g.t.Context(), id, workspace.Policy{ReadOnly: true})
			return err
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, nil)
				other := g.twin(nil)
				id := g.create(nil)
				ws := other.acquireOK(id)
				if err := tt.do(g, id); err != nil {
					t.Fatal(err)
				}
				time.Sleep(testLease)
				synctest.Wait()
				if _, live := other.liveEntry(id); live {
					t.Error("the other registry still has its handle")
				}
				_, err := ws.Stat(t.Context(), ".", nil)
				if want := map[fault.Code]fault.Code{fault.NotFound: fault.NotFound, "": fault.WrongState}[tt.want]; fault.Of(err) != want {
					t.Errorf("the old handle: %v, want %s", err, want)
				}
				next, err := other.Acquire(t.Context(), id)
				wantCode(t, "acquire", err, tt.want)
				if name == "update" && err == nil {
					if _, err := next.WriteFile(t.Context(), "a", nil, nil); err == nil {
						t.Error("the new policy is not in force")
					}
				}
			})
		})
	}
}

//croft:race
func TestTwoRegistriesOpenOnce(t *testing.T) {
	g := newRig(t, nil)
	other := g.twin(nil)
	g.p.OnOpen(workspacetest.Plan{Delay: 200 * time.Millisecond})
	id := g.create(nil)
	var wg sync.WaitGroup
	for _, r := range []*rig{g, other, g, other} {
		wg.Go(func() { r.acquireOK(id) })
	}
	wg.Wait()
	if n := g.p.Count("open"); n != 1 {
		t.Errorf("two registries made %d opens, want 1", n)
	}
}

func TestAnOpeningOfACrashedRegistryIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		id := g.create(nil)
		dead := Holder{ID: driver.NewID()}
		rec, err := g.store.Hold(t.Context(), id, dead, testLease)
		if err != nil {
			t.Fatal(err)
		}
		rec.moveTo(Opening)
		rec.Worker, rec.Attempts = dead.ID, 1
		if _, err := g.store.Put(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		g.acquireOK(id)
		if waited := time.Since(start); waited < testLease-time.Second || waited > testLease+time.Second {
			t.Errorf("took over after %v, want the length of a lease", waited)
		}
	})
}

// TestAFailureElsewhereIsNotTheWorkspaces has a second process that can't attach
// to what the first holds in its memory.
func TestAFailureElsewhereIsNotTheWorkspaces(t *testing.T) {
	g := newRig(t, nil)
	id := g.create(nil)
	ws := g.acquireOK(id)
	stranger := newRigOn(t, g.url, workspacetest.NewScripted(new(memory.Provider)), nil)
	_, err := stranger.Acquire(t.Context(), id)
	wantCode(t, "the stranger", err, fault.Failed)
	g.wantState(id, Ready)
	if _, err := ws.Stat(t.Context(), ".", nil); err != nil {
		t.Error(err)
	}
	if err := g.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = stranger.Acquire(t.Context(), id)
	wantCode(t, "once nobody holds it", err, fault.Failed)
	g.wantState(id, Failed)
}

//croft:race
func TestRunSweepsAndExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := new(memory.Provider)
		g := newRigOn(t, sqliteURL(t), workspacetest.NewScripted(base), nil)
		orphan := driver.NewID()
		if _, err := base.Open(t.Context(), driver.Spec{ID: orphan, Kind: memory.Kind}); err != nil {
			t.Fatal(err)
		}
		id := g.create(func(s *workspace.Spec) { s.Policy.Idle = time.Minute })
		g.acquireOK(id)
		stuck := g.create(nil)
		g.acquireOK(stuck)
		g.p.On("destroy", workspacetest.Plan{Err: fault.Unavailable})
		wantCode(t, "destroy", g.Destroy(t.Context(), stuck), fault.Unavailable)
		g.p.On("destroy", workspacetest.Plan{})
		g.p.On("sweep", workspacetest.Plan{Transient: 1})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- g.Run(ctx) }()
		time.Sleep(3 * time.Minute)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for what, id := range map[string]string{"orphan": orphan, "idle": id, "cut short": stuck} {
			if made(t, base, id) || g.state(id) != "" {
				t.Errorf("the one that was %s is still there", what)
			}
		}
	})
}

// TestRunNotesWhatVanished: what was in the memory of a process that has died is
// failed without being used, as soon as the lease of the dead has ended, and what
// another registry holds is not looked at.
//
//croft:race
func TestRunNotesWhatVanished(t *testing.T) {
	dead := exec.CommandContext(t.Context(), "true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		left, held := g.create(nil), g.create(nil)
		g.acquireOK(left)
		if err := g.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		host, err := os.Hostname()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.store.Hold(t.Context(), left, Holder{ID: driver.NewID(), Host: host, PID: dead.Process.Pid}, testLease); err != nil {
			t.Fatal(err)
		}
		other := newRigOn(t, g.url, workspacetest.NewScripted(new(memory.Provider)), nil)
		other.acquireOK(held)
		next := newRigOn(t, g.url, workspacetest.NewScripted(new(memory.Provider)), nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- next.Run(ctx) }()
		synctest.Wait()
		next.wantState(left, Ready)
		time.Sleep(2 * testLease)
		next.wantState(left, Failed)
		next.wantState(held, Ready)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if rec, err := next.Lookup(t.Context(), "", left); err != nil || rec.Error == nil || !strings.Contains(rec.Error.Message, "gone") {
			t.Errorf("it says %+v, %v; want that it is gone", rec.Error, err)
		}
	})
}

func TestLastUseOutlivesTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		id := g.create(nil)
		g.acquireOK(id)
		time.Sleep(time.Hour)
		g.acquireOK(id)
		used := time.Now()
		time.Sleep(testLease)
		rec, err := openStore(t, g.url).Get(t.Context(), id)
		if err != nil || !rec.LastUsed.Equal(used) {
			t.Errorf("a heartbeat later the last use is %v, %v; want %v", rec.LastUsed, err, used)
		}
		time.Sleep(time.Second)
		g.acquireOK(id)
		used = time.Now()
		if err := g.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if rec, err = g.store.Get(t.Context(), id); err != nil || !rec.LastUsed.Equal(used) {
			t.Errorf("after Shutdown the last use is %v, %v; want %v", rec.LastUsed, err, used)
		}
	})
}
