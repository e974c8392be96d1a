package workspacetest

import (
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

var crashChecks = []Check{
	{"Crash/in-Open-then-Sweep-leaves-nothing", all(needPersistence, needKill, needLeftovers), crashOpenSweep},
	{"Crash/in-Open-then-Open-works", all(needPersistence, needKill), crashOpenOpen},
	{"Crash/in-Destroy-then-Sweep-leaves-nothing", all(needPersistence, needKill, needLeftovers), crashDestroySweep},
	{"Crash/in-Destroy-then-Destroy-ends-it", all(needPersistence, needKill), crashDestroyAgain},
	{"Crash/in-Update-then-Open-converges", all(needPersistence, needKill, needUpdate), crashUpdate},
	{"Crash/loses-no-workspace", all(needPersistence, needKill, needFS), crashResolve},
}

// atEverySteps runs a job in children that die at the first step, at the
// second, and so on, each over a directory of its own, and at last in one that
// dies when the verb is done. prepare makes the job; after judges what is left.
func atEveryStep(t testing.TB, e *Env, prepare func(*Env) job, after func(e *Env, j job, died string)) {
	t.Helper()
	for at := 1; ; at++ {
		env := e.fresh(t)
		j := prepare(env)
		j.KillAt = at
		a := env.do(t, j)
		died := "after a crash at step " + itoa(at)
		if a.Done {
			if err := a.fail(); err != nil {
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
	atEveryStep(t, e, func(env *Env) job {
		return job{Verb: "open", Spec: env.spec()}
	}, func(env *Env, _ job, died string) {
		p := env.use(t)
		wantNil(t, died+": Sweep", p.Sweep(t.Context(), nil))
		env.wantNothing(t, died+" in Open and Sweep")
		wantNil(t, died+": second Sweep", p.Sweep(t.Context(), nil))
		env.open(t).works(t)
	})
}

func crashOpenOpen(t testing.TB, e *Env) {
	atEveryStep(t, e, func(env *Env) job {
		return job{Verb: "open", Spec: env.spec()}
	}, func(env *Env, j job, died string) {
		wantNil(t, died+": Sweep that keeps it", env.use(t).Sweep(t.Context(), []string{j.Spec.ID}))
		d, err := env.use(t).Open(t.Context(), j.Spec)
		if !wantNil(t, died+": Open again", err) {
			return
		}
		p := hold(t, j.Spec, d)
		p.works(t)
		wantNil(t, died+": Destroy", p.Destroy(t.Context()))
		env.wantNothing(t, died+", Open again and Destroy")
	})
}

// destroying opens a workspace with files and returns the job that ends it.
func destroying(t testing.TB, env *Env) job {
	p := env.open(t)
	if p.d.FS != nil {
		p.write(t, "a/b/c", "deep")
		p.write(t, "top", "file")
	}
	ref := p.Ref()
	wantNil(t, "Close", p.Close(t.Context()))
	return job{Verb: "destroy", Spec: p.spec, Ref: &ref}
}

func crashDestroySweep(t testing.TB, e *Env) {
	atEveryStep(t, e, func(env *Env) job { return destroying(t, env) }, func(env *Env, _ job, died string) {
		env.restart(t)
		wantNil(t, died+": Sweep", env.use(t).Sweep(t.Context(), nil))
		env.wantNothing(t, died+" in Destroy and Sweep")
	})
}

func crashDestroyAgain(t testing.TB, e *Env) {
	atEveryStep(t, e, func(env *Env) job { return destroying(t, env) }, func(env *Env, j job, died string) {
		// One that was cut short still resolves, so that it can be destroyed,
		// or is gone for good; then what is left of it is Sweep's.
		d, err := env.restart(t).Resolve(t.Context(), *j.Ref)
		if err != nil {
			wantFailed(t, died+": Resolve", err)
			if got := fault.CauseOf(err); got != fault.CauseGone {
				t.Errorf("%s: Resolve has the cause %q, want %q", died, got, fault.CauseGone)
			}
			wantNil(t, died+": Sweep", env.use(t).Sweep(t.Context(), nil))
		} else {
			wantNil(t, died+": Destroy again", d.Life.Destroy(t.Context()))
		}
		env.wantNothing(t, died+" in Destroy and Destroy again")
	})
}

func crashUpdate(t testing.TB, e *Env) {
	policy := otherPolicy(e)
	atEveryStep(t, e, func(env *Env) job {
		p := env.open(t)
		ref := p.Ref()
		wantNil(t, "Close", p.Close(t.Context()))
		return job{Verb: "update", Spec: p.spec, Ref: &ref, Policy: policy}
	}, func(env *Env, j job, died string) {
		p := env.restart(t)
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
		enforces(t, hold(t, spec, d), policy)
	})
}

func crashResolve(t testing.TB, e *Env) {
	spec := e.spec()
	a := e.do(t, job{Verb: "open", Spec: spec, KillAt: -1})
	if err := a.fail(); err != nil || a.Ref == nil {
		t.Fatalf("open: %v", err)
	}
	p := e.resolve(t, spec, *a.Ref)
	p.works(t)
	p.write(t, "from/here", "kept")
	// The next one that dies holds the workspace without changing it.
	if err := e.do(t, job{Verb: "resolve", Spec: spec, Ref: a.Ref, KillAt: -1}).fail(); err != nil {
		t.Errorf("a second process can't resolve: %v", err)
	}
	e.restart(t)
	p = e.resolve(t, spec, *a.Ref)
	p.wantContent(t, "from/here", "kept")
	wantNil(t, "Destroy", p.Destroy(t.Context()))
	e.wantNothing(t, "after Destroy")
}

// enforces reports a workspace that does not obey a policy that otherPolicy made.
func enforces(t testing.TB, p *place, policy driver.Policy) {
	t.Helper()
	if !policy.ReadOnly || p.d.FS == nil {
		return
	}
	_, err := p.WriteFile(t.Context(), "forbidden", []byte("x"), nil)
	wantCode(t, "Write to a read-only workspace", err, fault.PermissionDenied)
}
