package workspacetest

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

func itoa(n int) string { return strconv.Itoa(n) }

// canary is a text that does not occur by accident.
const canary = "canary-5e1f0c2d9b7a"

var resolveChecks = []Check{
	{"Resolve/has-the-same-files", needFS, resolveSame},
	{"Resolve/from-another-provider-value", allNeeds(needPersistence, needFS), resolveOtherProvider},
	{"Resolve/after-the-opener-was-killed", allNeeds(needPersistence, needKill, needFS), resolveAfterKill},
	{"Resolve/gives-the-same-ref", nil, resolveSameRef},
	{"Resolve/takes-a-ref-that-went-through-JSON", nil, resolveJSON},
	{"Resolve/refuses-a-foreign-ref", nil, resolveForeign},
	{"Resolve/refuses-an-unknown-key-in-the-payload", nil, resolveUnknownKey},
	{"Resolve/refuses-a-garbage-payload", nil, resolveGarbage},
	{"Resolve/refuses-a-payload-with-other-values", nil, resolveOtherValues},
	{"Resolve/refuses-versions-outside-the-window", nil, resolveVersions},
	{"Resolve/takes-versions-in-the-window", nil, resolveWindow},
	{"Resolve/of-what-was-never-there-is-gone", nil, resolveNever},
	{"Resolve/of-what-was-destroyed-is-gone", nil, resolveDestroyed},
	{"Resolve/makes-nothing", needLeftovers, resolveMakesNothing},
	{"Ref/holds-no-secret-of-the-process", nil, refNoSecret},
	{"Ref/holds-no-secret-of-the-policy", nil, refNoSecretOfSpec},
}

func resolveSame(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "dir/file", "kept")
	q := e.resolve(t, p.spec, p.Ref())
	q.wantContent(t, "dir/file", "kept")
	q.write(t, "second", "by the second")
	p.wantContent(t, "second", "by the second")
}

func resolveOtherProvider(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "dir/file", "kept")
	ref := p.Ref()
	e.restartProvider(t)
	q := e.resolve(t, p.spec, ref)
	q.wantContent(t, "dir/file", "kept")
	q.wantUsable(t)
	wantNil(t, "Close", p.Close(t.Context()))
	q.wantContent(t, "dir/file", "kept")
}

func resolveAfterKill(t testing.TB, e *Env) {
	spec := e.spec()
	c := e.startChild(t, childJob{Verb: "write", Spec: spec, Seed: 1})
	defer c.kill()
	a, ok := c.nextAnswer(t)
	if !ok || a.Ref == nil {
		t.Fatalf("the child gave no ref: %v\n%s%s", a.asError(), c.noise.String(), c.stderr.String())
	}
	acked, ok := c.nextAnswer(t)
	if !ok || acked.Name == "" {
		t.Fatalf("the child acknowledged no write: %v\n%s%s", acked.asError(), c.noise.String(), c.stderr.String())
	}
	c.kill()
	p := e.resolve(t, spec, *a.Ref)
	if _, err := p.Stat(t.Context(), acked.Name, nil); err != nil {
		t.Errorf("a write that was acknowledged before the kill is lost: %v", err)
	}
	p.wantUsable(t)
	wantNil(t, "Destroy", p.Destroy(t.Context()))
	e.wantNothing(t, "after Destroy")
}

func resolveSameRef(t testing.TB, e *Env) {
	p := e.open(t)
	q := e.resolve(t, p.spec, p.Ref())
	if got, want := encodeJSON(t, q.Ref()), encodeJSON(t, p.Ref()); got != want {
		t.Errorf("Resolve gives the ref\n%s, want\n%s", got, want)
	}
	if !reflect.DeepEqual(p.d.Traits, q.d.Traits) {
		t.Errorf("Resolve gives the traits\n%+v, want\n%+v", q.d.Traits, p.d.Traits)
	}
}

func encodeJSON(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	return string(data)
}

func resolveJSON(t testing.TB, e *Env) {
	p := e.open(t)
	text := encodeJSON(t, p.Ref())
	var ref driver.Ref
	if err := json.Unmarshal([]byte(text), &ref); err != nil {
		t.Fatalf("the ref does not decode: %v\n%s", err, text)
	}
	if got := encodeJSON(t, ref); got != text {
		t.Errorf("the ref comes back as\n%s, want\n%s", got, text)
	}
	e.resolve(t, p.spec, ref).wantUsable(t)
}

// wantRefRefused resolves a ref that must be refused permanently, with an error that does
// not repeat its content.
func (e *Env) wantRefRefused(t testing.TB, what string, ref driver.Ref) error {
	t.Helper()
	d, err := e.sharedProvider(t).Resolve(t.Context(), ref)
	wantFailed(t, "Resolve of "+what, err)
	if d != nil {
		t.Errorf("Resolve of %s returns a workspace", what)
	}
	if err != nil && strings.Contains(err.Error(), canary) {
		t.Errorf("Resolve of %s: the error repeats what the ref holds: %v", what, err)
	}
	return err
}

func resolveForeign(t testing.TB, e *Env) {
	p := e.open(t)
	ref := p.Ref()
	ref.Provider = "foreign-" + canary
	e.wantRefRefused(t, "a foreign ref", ref)
	p.wantUsable(t)
}

// decodePayload decodes the payload of a ref.
func decodePayload(t testing.TB, ref driver.Ref) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(ref.Payload, &m); err != nil {
		t.Fatalf("the payload is no JSON object: %v", err)
	}
	return m
}

func withPayload(t testing.TB, ref driver.Ref, m map[string]any) driver.Ref {
	t.Helper()
	ref.Payload = json.RawMessage(encodeJSON(t, m))
	return ref
}

func resolveUnknownKey(t testing.TB, e *Env) {
	ref := e.open(t).Ref()
	m := decodePayload(t, ref)
	m["zz-unknown"] = canary
	e.wantRefRefused(t, "a payload with an unknown key", withPayload(t, ref, m))
	m = decodePayload(t, ref)
	m["zz-"+canary] = 1
	e.wantRefRefused(t, "a payload with an unknown key", withPayload(t, ref, m))
	for key := range decodePayload(t, ref) {
		upper := strings.ToUpper(key)
		if upper == key {
			continue
		}
		m = decodePayload(t, ref)
		m[upper] = m[key]
		delete(m, key)
		e.wantRefRefused(t, "a payload with a key in other case", withPayload(t, ref, m))
	}
}

func resolveGarbage(t testing.TB, e *Env) {
	ref := e.open(t).Ref()
	for _, data := range []string{``, `{`, canary, `"` + canary + `"`, `["` + canary + `"]`, `null`, `1`, `{} {}`, `{}`, "\x00\xff"} {
		bad := ref
		bad.Payload = json.RawMessage(data)
		e.wantRefRefused(t, "the payload "+quote(data), bad)
	}
}

func resolveOtherValues(t testing.TB, e *Env) {
	ref := e.open(t).Ref()
	for _, value := range []string{canary, "../../../../etc/" + canary, "/" + canary, "", strings.Repeat("a", driver.IDLength)} {
		m := decodePayload(t, ref)
		changed := false
		for key, old := range m {
			if _, ok := old.(string); ok {
				m[key], changed = value, true
			}
		}
		if !changed {
			t.Logf("the payload holds no text: nothing to change")
			return
		}
		e.wantRefRefused(t, "a payload whose texts are "+quote(value), withPayload(t, ref, m))
	}
	m := decodePayload(t, ref)
	for key := range m {
		m[key] = map[string]any{canary: canary}
	}
	e.wantRefRefused(t, "a payload whose values are of another type", withPayload(t, ref, m))
}

func resolveVersions(t testing.TB, e *Env) {
	p := e.open(t)
	versions := []int{driver.SchemaVersion + 1, 999, -1}
	if old := driver.SchemaVersion - 2; old > 0 {
		versions = append(versions, old)
	}
	for _, v := range versions {
		ref := p.Ref()
		ref.SchemaVersion = v
		err := e.wantRefRefused(t, "schema version "+itoa(v), ref)
		if err != nil && (!strings.Contains(err.Error(), itoa(v)) || !strings.Contains(err.Error(), itoa(driver.SchemaVersion))) {
			t.Errorf("the error names neither the version %d nor the supported %d: %v", v, driver.SchemaVersion, err)
		}
	}
}

func resolveWindow(t testing.TB, e *Env) {
	p := e.open(t)
	for _, v := range []int{0, driver.SchemaVersion - 1, driver.SchemaVersion} {
		ref := p.Ref()
		ref.SchemaVersion = v
		d, err := e.sharedProvider(t).Resolve(t.Context(), ref)
		if !wantNil(t, "Resolve of schema version "+itoa(v), err) {
			continue
		}
		if d.Ref.SchemaVersion != driver.SchemaVersion {
			t.Errorf("a ref of version %d resolves to one of version %d, want %d", v, d.Ref.SchemaVersion, driver.SchemaVersion)
		}
		newTestWorkspace(t, p.spec, d).wantUsable(t)
	}
}

// wantGone reports an error of Resolve without the cause that the files are gone.
func wantGone(t testing.TB, what string, err error) {
	t.Helper()
	wantFailed(t, what, err)
	if got := fault.CauseOf(err); err != nil && got != fault.CauseGone {
		t.Errorf("%s: the cause is %q, want %q: %v", what, got, fault.CauseGone, err)
	}
}

func resolveNever(t testing.TB, e *Env) {
	// The ref is of a directory that this provider has never seen.
	other := e.newEnv(t)
	ref := other.open(t).Ref()
	if strings.Contains(encodeJSON(t, ref), other.Dir) {
		t.Logf("the ref holds the place of the workspace: it resolves from anywhere")
		return
	}
	_, err := e.sharedProvider(t).Resolve(t.Context(), ref)
	wantGone(t, "Resolve of what was never there", err)
	e.wantNothing(t, "after it")
}

func resolveDestroyed(t testing.TB, e *Env) {
	p := e.open(t)
	ref := p.Ref()
	wantNil(t, "Destroy", p.Destroy(t.Context()))
	_, err := e.sharedProvider(t).Resolve(t.Context(), ref)
	wantGone(t, "Resolve after Destroy", err)
	if e.Traits.Persists() {
		_, err = e.restartProvider(t).Resolve(t.Context(), ref)
		wantGone(t, "Resolve after Destroy by the next process", err)
	}
	e.wantNothing(t, "after Destroy and Resolve")
}

func resolveMakesNothing(t testing.TB, e *Env) {
	p := e.open(t)
	ref := p.Ref()
	before := len(e.Leftovers(t, e.Dir))
	for range 3 {
		q := e.resolve(t, p.spec, ref)
		wantNil(t, "Close", q.Close(t.Context()))
	}
	if after := e.Leftovers(t, e.Dir); len(after) > before {
		t.Errorf("three Resolves turned %d traces into %d: %q", before, len(after), after)
	}
}

func refNoSecret(t testing.TB, e *Env) {
	e.setSecretVar(t)
	p := e.open(t)
	if ref := encodeJSON(t, p.Ref()); strings.Contains(ref, canary) {
		t.Errorf("the ref holds a value of the process's environment: %s", ref)
	}
	for i, text := range e.Secrets {
		if strings.Contains(encodeJSON(t, p.Ref()), text) {
			t.Errorf("the ref holds Secrets[%d] of the Harness", i)
		}
	}
}

// refNoSecretOfSpec opens a workspace whose policy gives its commands a secret.
func refNoSecretOfSpec(t testing.TB, e *Env) {
	p := e.open(t, func(s *driver.Spec) { s.Policy.Env = map[string]string{"API_TOKEN": canary} })
	if ref := encodeJSON(t, p.Ref()); strings.Contains(ref, canary) {
		t.Errorf("the ref holds a variable of the policy: %s", ref)
	}
}
