package workspacetest

import (
	"strings"
	"sync"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

var sessionChecks = []Check{
	{"Sessions/can't-read-each-other", needFS, sessionLeak},
	{"Sessions/may-use-the-same-name", nil, sessionSameName},
	{"Sessions/use-one-provider-at-once", needFS, sessionConcurrent},
	{"Sessions/a-new-id-has-nothing-of-an-old-one", needFS, sessionReuse},
}

func withSession(id string) func(*driver.Spec) {
	return func(s *driver.Spec) { s.Session = driver.SessionRef{ID: id, User: "user-" + id, Agent: "agent"} }
}

func sessionLeak(t testing.TB, e *Env) {
	a, b := e.open(t, withSession("a")), e.open(t, withSession("b"))
	a.write(t, "secret/file", canary)
	b.wantNames(t, ".")
	res, err := b.Grep(t.Context(), canary, &workspace.GrepOptions{Hidden: true, Literal: true})
	if wantNil(t, "Grep", err) && len(res.Matches) > 0 {
		t.Errorf("a session finds what another one wrote: %+v", res.Matches)
	}
	for _, name := range []string{
		"secret/file", "../" + a.spec.ID + "/secret/file", "../../" + a.spec.ID + "/files/secret/file",
		a.spec.ID + "/secret/file", "/" + a.spec.ID, e.Dir,
	} {
		data, err := b.ReadFile(t.Context(), name)
		wantCode(t, "read "+name, err, fault.NotFound, fault.SandboxViolation)
		if strings.Contains(string(data), canary) {
			t.Errorf("%q reads what another session wrote", name)
		}
	}
	b.write(t, "secret/file", "mine")
	a.wantContent(t, "secret/file", canary)
	wantNil(t, "Destroy", b.Destroy(t.Context()))
	a.wantContent(t, "secret/file", canary)
}

func sessionSameName(t testing.TB, e *Env) {
	name := func(s *driver.Spec) { s.Name = "same" }
	a, b := e.open(t, withSession("a"), name), e.open(t, withSession("b"), name)
	if a.d.FS != nil {
		a.write(t, "file", "of a")
		b.write(t, "file", "of b")
		a.wantContent(t, "file", "of a")
		b.wantContent(t, "file", "of b")
	}
	if string(a.Ref().Payload) == string(b.Ref().Payload) {
		t.Errorf("two workspaces of one name have the same ref: %s", a.Ref().Payload)
	}
}

func sessionConcurrent(t testing.TB, e *Env) {
	const sessions = 8
	places := make([]*testWorkspace, sessions)
	for i := range places {
		places[i] = e.open(t, withSession(itoa(i)))
	}
	var wg sync.WaitGroup
	for i, p := range places {
		wg.Go(func() {
			for n := range 10 {
				name := "file-" + itoa(n)
				if _, err := p.WriteFile(t.Context(), name, []byte(itoa(i)), nil); err != nil {
					t.Errorf("session %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	for i, p := range places {
		for n := range 10 {
			p.wantContent(t, "file-"+itoa(n), itoa(i))
		}
	}
}

func sessionReuse(t testing.TB, e *Env) {
	old := e.open(t, withSession("old"))
	old.write(t, "file", canary)
	wantNil(t, "Destroy", old.Destroy(t.Context()))
	e.open(t, withSession("new")).wantNames(t, ".")
	// The same id starts empty after it was destroyed.
	e.openSpec(t, old.spec).wantNames(t, ".")
}
