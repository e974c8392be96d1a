package registry

import (
	"context"
	"testing"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
)

func tenantContext(ctx context.Context, tenant string) context.Context {
	return auth.With(ctx, auth.Principal{Key: "k-" + tenant, Tenant: tenant, Scope: auth.Admin})
}

// Every method that takes an id answers another tenant as if the workspace did not exist.
func TestTenantsDoNotSeeEachOther(t *testing.T) {
	g := newRig(t, nil)
	red, blue, operator := tenantContext(t.Context(), "red"), tenantContext(t.Context(), "blue"), tenantContext(t.Context(), "")
	spec := workspace.Spec{Kind: memory.Kind, Name: "shop"}
	rec, err := g.Create(red, spec)
	if err != nil {
		t.Fatal(err)
	}
	if rec.Tenant != "red" {
		t.Errorf("tenant %q, want red", rec.Tenant)
	}
	if _, err := g.Create(blue, spec); err != nil {
		t.Errorf("the name is taken in another tenant: %v", err)
	}
	if _, err := g.Create(red, spec); fault.Of(err) != fault.AlreadyExists {
		t.Errorf("a second workspace with the name: %v, want AlreadyExists", err)
	}
	for _, live := range []bool{false, true} {
		if live {
			if _, err := g.Acquire(red, rec.ID); err != nil {
				t.Fatal(err)
			}
		}
		for name, call := range map[string]func(context.Context) error{
			"Acquire":  func(ctx context.Context) error { _, err := g.Acquire(ctx, rec.ID); return err },
			"Lookup":   func(ctx context.Context) error { _, err := g.Lookup(ctx, "", rec.ID); return err },
			"Describe": func(ctx context.Context) error { _, err := g.Describe(ctx, rec.ID); return err },
			"SetLabels": func(ctx context.Context) error {
				_, err := g.SetLabels(ctx, rec.ID, map[string]string{"a": "b"})
				return err
			},
			"SetAttributes": func(ctx context.Context) error {
				_, err := g.SetAttributes(ctx, rec.ID, func(*Attributes) error { return nil })
				return err
			},
			"Update":  func(ctx context.Context) error { _, err := g.Update(ctx, rec.ID, workspace.Policy{}); return err },
			"Reset":   func(ctx context.Context) error { _, err := g.Reset(ctx, rec.ID); return err },
			"Pause":   func(ctx context.Context) error { return g.Pause(ctx, rec.ID) },
			"Resume":  func(ctx context.Context) error { return g.Resume(ctx, rec.ID) },
			"Close":   func(ctx context.Context) error { return g.Close(ctx, rec.ID) },
			"Destroy": func(ctx context.Context) error { return g.Destroy(ctx, rec.ID) },
		} {
			if err := call(blue); fault.Of(err) != fault.NotFound {
				t.Errorf("%s of another tenant, live %v: %v, want NotFound", name, live, err)
			}
		}
	}
	for _, test := range []struct {
		ctx  context.Context
		want int
	}{{red, 1}, {blue, 1}, {operator, 2}, {t.Context(), 2}} {
		recs, err := g.List(test.ctx, Filter{})
		if err != nil || len(recs) != test.want {
			t.Errorf("%d workspaces (%v), want %d", len(recs), err, test.want)
		}
	}
	if _, err := g.Lookup(operator, "", rec.ID); err != nil {
		t.Errorf("the operator: %v", err)
	}
	if err := g.Destroy(red, rec.ID); err != nil {
		t.Error(err)
	}
}

func TestEndAt(t *testing.T) {
	g := newRig(t, nil)
	now := time.Now()
	create := func(attrs Attributes) string {
		t.Helper()
		rec, err := g.CreateWith(t.Context(), workspace.Spec{Kind: memory.Kind}, attrs)
		if err != nil {
			t.Fatal(err)
		}
		g.acquireOK(rec.ID)
		return rec.ID
	}
	past := create(Attributes{EndAt: now.Add(-time.Second), Annotations: map[string]string{"a": "1"}})
	future := create(Attributes{EndAt: now.Add(time.Hour)})
	kept := create(Attributes{EndAt: now.Add(-time.Second), OnEnd: PauseOnEnd})
	never := create(Attributes{})

	rec, err := g.Lookup(t.Context(), "", past)
	if err != nil || rec.Annotations["a"] != "1" || rec.EndAt.IsZero() {
		t.Errorf("stored record %+v, %v", rec.Attributes, err)
	}
	// Another process, after a restart, ends what is due.
	n, err := g.twin(nil).EndDue(t.Context())
	if err != nil || n != 2 {
		t.Errorf("ended %d (%v), want 2", n, err)
	}
	for id, want := range map[string]State{past: "", future: Ready, never: Ready, kept: Closed} { // memory has no pause
		if got := g.state(id); got != want {
			t.Errorf("state %q, want %q", got, want)
		}
	}
	if rec, err := g.Lookup(t.Context(), "", kept); err != nil || !rec.EndAt.IsZero() {
		t.Errorf("the end of a kept workspace is %v (%v), want none", rec.EndAt, err)
	}
	if _, err := g.SetAttributes(t.Context(), future, func(a *Attributes) error { a.OnEnd = "explode"; return nil }); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("unknown action: %v, want InvalidArgument", err)
	}
}

// A workspace whose end is moved between the list and the end stays.
func TestEndMovedMeanwhile(t *testing.T) {
	g := newRig(t, nil)
	rec, err := g.CreateWith(t.Context(), workspace.Spec{Kind: memory.Kind}, Attributes{EndAt: time.Now().Add(-time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.SetAttributes(t.Context(), rec.ID, func(a *Attributes) error { a.EndAt = time.Now().Add(time.Hour); return nil }); err != nil {
		t.Fatal(err)
	}
	if done, err := g.endWorkspace(t.Context(), rec); done || err != nil {
		t.Errorf("ended %v, %v", done, err)
	}
	g.wantState(rec.ID, Intended)
}

//croft:race
func TestRunEndsOnTime(t *testing.T) {
	g := newRig(t, nil)
	rec, err := g.CreateWith(t.Context(), workspace.Spec{Kind: memory.Kind}, Attributes{EndAt: time.Now().Add(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- g.Run(ctx) }()
	for deadline := time.Now().Add(30 * time.Second); g.state(rec.ID) != ""; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the workspace is still there")
		}
	}
	stop()
	if err := <-ran; err != nil {
		t.Error(err)
	}
}
