package workspacetest

import (
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

var crashChecks = []Check{
	{"Crash/in-Open-then-Sweep-leaves-nothing", allNeeds(needPersistence, needKill, needLeftovers), crashOpenSweep},
	{"Crash/in-Open-then-Open-works", allNeeds(needPersistence, needKill), crashOpenOpen},
	{"Crash/in-Destroy-then-Sweep-leaves-nothing", allNeeds(needPersistence, needKill, needLeftovers), crashDestroySweep},
	{"Crash/in-Destroy-then-Destroy-ends-it", allNeeds(needPersistence, needKill), crashDestroyAgain},
	{"Crash/in-Update-then-Open-converges", allNeeds(needPersistence, needKill, needUpdate), crashUpdate},
	{"Crash/loses-no-workspace", allNeeds(needPersistence, needKill, needFS), crashResolve},
}

// atEverySteps runs a job in children that crash at the first step, at the second,
// and so on, each with its own directory, and at last in one that crashes after the
// verb. prepare returns the job; after checks what is left.
func atEveryStep(t testing.TB, e *Env, prepare func(*Env) childJob, after func(e *Env, j childJob, died string)) {
	t.Helper()
	for at := 1; ; at++ {
		env := e.newEnv(t)
		j := prepare(env)
		j.KillAt = at
		a := env.runChild(t, j)
		died := "after a crash at step " + itoa(at)
		if a.Done {
			if err := a.asError(); err != nil {
				t.Errorf("%s: %v", j.Verb, err)
			}
			if at == 1 {
				t.Errorf("%s marks no step (driver.Step), so that a crash between its effects can't be tried", j.Verb)
			}
			died = "after a crash when the verb was done"
		}
		after(env, j, died)
		if a.Done {
			return
		}
	}
}

func crashOpenSweep(t testing.TB, e *Env) {
	atEveryStep(t, e, func(env *Env) childJob {
		return childJob{Verb: "open", Spec: env.spec()}
	}, func(env *Env, _ childJob, died string) {
		p := env.sharedProvider(t)
		wantNil(t, died+": Sweep", p.Sweep(t.Context(), nil))
		env.wantNothing(t, died+" in Open and Sweep")
		wantNil(t, died+": second Sweep", p.Sweep(t.Context(), nil))
		env.open(t).wantUsable(t)
	})
}

func crashOpenOpen(t testing.TB, e *Env) {
	atEveryStep(t, e, func(env *Env) childJob {
		return childJob{Verb: "open", Spec: env.spec()}
	}, func(env *Env, j childJob, died string) {
		wantNil(t, died+": Sweep that keeps it", env.sharedProvider(t).Sweep(t.Context(), []string{j.Spec.ID}))
		d, err := env.sharedProvider(t).Open(t.Context(), j.Spec)
		if !wantNil(t, died+": Open again", err) {
			return
		}
		p := newTestWorkspace(t, j.Spec, d)
		p.wantUsable(t)
		wantNil(t, died+": Destroy", p.Destroy(t.Context()))
		env.wantNothing(t, died+", Open again and Destroy")
	})
}

// destroyJob opens a workspace with files and returns the job that destroys it.
func destroyJob(t testing.TB, env *Env) childJob {
	p := env.open(t)
	if p.d.FS != nil {
		p.write(t, "a/b/c", "deep")
		p.write(t, "top", "file")
	}
	ref := p.Ref()
	wantNil(t, "Close", p.Close(t.Context()))
	return childJob{Verb: "destroy", Spec: p.spec, Ref: &ref}
}

func crashDestroySweep(t testing.TB, e *Env) {
	atEveryStep(t, e, func(env *Env) childJob { return destroyJob(t, env) }, func(env *Env, _ childJob, died string) {
		env.restartProvider(t)
		wantNil(t, died+": Sweep", env.sharedProvider(t).Sweep(t.Context(), nil))
		env.wantNothing(t, died+" in Destroy and Sweep")
	})
}

func crashDestroyAgain(t testing.TB, e *Env) {
	atEveryStep(t, e, func(env *Env) childJob { return destroyJob(t, env) }, func(env *Env, j childJob, died string) {
		// A partly destroyed workspace either still resolves, so that it can be
		// destroyed, or is gone; then Sweep removes what is left.
		d, err := env.restartProvider(t).Resolve(t.Context(), *j.Ref)
		if err != nil {
			wantFailed(t, died+": Resolve", err)
			if got := fault.CauseOf(err); got != fault.CauseGone {
				t.Errorf("%s: Resolve has the cause %q, want %q", died, got, fault.CauseGone)
			}
			wantNil(t, died+": Sweep", env.sharedProvider(t).Sweep(t.Context(), nil))
		} else {
			wantNil(t, died+": Destroy again", d.Life.Destroy(t.Context()))
		}
		env.wantNothing(t, died+" in Destroy and Destroy again")
	})
}

func crashUpdate(t testing.TB, e *Env) {
	policy := otherPolicy(e)
	atEveryStep(t, e, func(env *Env) childJob {
		p := env.open(t)
		ref := p.Ref()
		wantNil(t, "Close", p.Close(t.Context()))
		return childJob{Verb: "update", Spec: p.spec, Ref: &ref, Policy: policy}
	}, func(env *Env, j childJob, died string) {
		p := env.restartProvider(t)
		if _, err := p.Resolve(t.Context(), *j.Ref); err != nil {
			wantFailed(t, died+": Resolve of the old ref", err)
			if got := fault.CauseOf(err); got != fault.CauseStale {
				t.Errorf("%s: Resolve has the cause %q, want %q", died, got, fault.CauseStale)
			}
		}
		spec := j.Spec
		spec.Policy = policy
		d, err := p.Open(t.Context(), spec)
		if !wantNil(t, died+": Open with the new policy", err) {
			return
		}
		if d.Ref.Revision <= j.Ref.Revision {
			t.Errorf("%s: Open with the new policy gives revision %d, want more than %d", died, d.Ref.Revision, j.Ref.Revision)
		}
		_, err = p.Resolve(t.Context(), *j.Ref)
		wantFailed(t, died+": Resolve of the old ref after Open with the new policy", err)
		wantPolicy(t, newTestWorkspace(t, spec, d), policy)
	})
}

func crashResolve(t testing.TB, e *Env) {
	spec := e.spec()
	a := e.runChild(t, childJob{Verb: "open", Spec: spec, KillAt: -1})
	if err := a.asError(); err != nil || a.Ref == nil {
		t.Fatalf("open: %v", err)
	}
	p := e.resolve(t, spec, *a.Ref)
	p.wantUsable(t)
	p.write(t, "from/here", "kept")
	// The next process that dies holds the workspace without changing it.
	if err := e.runChild(t, childJob{Verb: "resolve", Spec: spec, Ref: a.Ref, KillAt: -1}).asError(); err != nil {
		t.Errorf("a second process can't resolve: %v", err)
	}
	e.restartProvider(t)
	p = e.resolve(t, spec, *a.Ref)
	p.wantContent(t, "from/here", "kept")
	wantNil(t, "Destroy", p.Destroy(t.Context()))
	e.wantNothing(t, "after Destroy")
}

// wantPolicy reports a workspace that does not enforce a policy of otherPolicy.
func wantPolicy(t testing.TB, p *testWorkspace, policy driver.Policy) {
	t.Helper()
	if !policy.ReadOnly || p.d.FS == nil {
		return
	}
	_, err := p.WriteFile(t.Context(), "forbidden", []byte("x"), nil)
	wantCode(t, "Write to a read-only workspace", err, fault.PermissionDenied)
}
