package daemon_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gocloud.dev/blob"

	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/snapshot/bucket"
)

// take takes a snapshot of a workspace through a replica.
func (f *fleet) take(via *replicaProcess, id, options string) string {
	f.t.Helper()
	return f.field("id", f.do("POST", via, "/v1/workspaces/"+id+"/snapshots", options, nil))
}

// field returns a field of an answer.
func (f *fleet) field(name, text string) string {
	f.t.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		f.t.Fatalf("%v: %s", err, text)
	}
	value, _ := fields[name].(string)
	if value == "" {
		f.t.Fatalf("no %s in %s", name, text)
	}
	return value
}

// openFrom opens a workspace from a snapshot or template at a replica.
func (f *fleet) openFrom(at *replicaProcess, kind, source, id string) string {
	f.t.Helper()
	return f.field("id", f.do("POST", at, "/v1/workspaces", fmt.Sprintf(`{"kind": %q, "from": {%q: %q, "crossSession": true}}`, kind, source, id), nil))
}

//
//croft:race
//croft:slow
func TestReplicasShareABucket(t *testing.T) {
	f := prepareFleet(t, testenv.NeedsPostgres(t))
	f.env = []string{"CROFT_BUCKET=" + testenv.NeedsS3(t)}
	a, b := f.start("a"), f.start("b")
	id := f.open(a, sharedKind, "w")
	f.do("PUT", a, filePath(id, "f"), "first", nil)
	first := f.take(a, id, `{}`)
	f.do("PUT", b, filePath(id, "f"), "second", nil)

	// Replica b has the snapshot that a took: in lists, for new workspaces of any kind, and as a template.
	if got := f.do("GET", b, "/v1/snapshots", "", nil); !strings.Contains(got, first) {
		t.Errorf("the snapshots at b: %s", got)
	}
	for _, kind := range []string{sharedKind, memory.Kind} {
		if got := f.do("GET", b, filePath(f.openFrom(b, kind, "snapshot", first), "f"), "", nil); got != "first" {
			t.Errorf("a workspace of kind %s from the snapshot has %q", kind, got)
		}
	}
	f.do("POST", a, "/v1/templates", fmt.Sprintf(`{"name": "made-at-a", "snapshot": %q}`, first), nil)
	if got := f.do("GET", b, filePath(f.openFrom(b, sharedKind, "template", "made-at-a"), "f"), "", nil); got != "first" {
		t.Errorf("a workspace from the template has %q", got)
	}

	// An artifact that was saved at a is read at b, and the next version has the next number.
	artifact := "/v1/workspaces/" + id + "/artifacts/content?name=report"
	f.do("PUT", a, artifact, "v0", nil)
	a.kill()
	waitFor(t, "b takes over", func() bool {
		status, _ := f.try("GET", b, filePath(id, "f"), "", nil)
		return status == 200
	})
	if got := f.do("GET", b, artifact, "", nil); got != "v0" {
		t.Errorf("the artifact is %q", got)
	}
	if got := f.do("PUT", b, artifact, "v1", nil); !strings.Contains(got, `"version":1`) {
		t.Errorf("the next version: %s", got)
	}

	// The new owner rolls back to what the lost one took.
	f.do("POST", b, "/v1/workspaces/"+id+"/snapshots/"+first+"/rollback", "", nil)
	if got := f.do("GET", b, filePath(id, "f"), "", nil); got != "first" {
		t.Errorf("after the rollback the file has %q", got)
	}
}

// TestASnapshotOverLayersNamesItsNode: the lower layers of such a snapshot are directories of the
// host of one node. A template of it is complete.
func TestASnapshotOverLayersNamesItsNode(t *testing.T) {
	f := prepareFleet(t, testenv.NeedsPostgres(t))
	f.env = []string{"CROFT_BUCKET=" + testenv.NeedsS3(t)}
	a, b := f.start("a"), f.start("b")
	first := f.open(a, sharedKind, "first")
	f.do("PUT", a, filePath(first, "f"), "lower", nil)
	f.do("POST", a, "/v1/templates", fmt.Sprintf(`{"name": "lower", "snapshot": %q}`, f.take(a, first, `{}`)), nil)
	over := f.openFrom(a, sandbox.Kind, "template", "lower")
	f.do("PUT", a, filePath(over, "g"), "upper", nil)
	id := f.take(a, over, `{}`)
	if got := f.do("GET", a, filePath(f.openFrom(a, sandbox.Kind, "snapshot", id), "f"), "", nil); got != "lower" {
		t.Errorf("at its node the file has %q", got)
	}
	body := fmt.Sprintf(`{"kind": %q, "name": "far", "from": {"snapshot": %q, "crossSession": true}}`, sandbox.Kind, id)
	status, text := f.try("POST", b, "/v1/workspaces", body, nil)
	if status != http.StatusServiceUnavailable || !strings.Contains(text, "E_UNAVAILABLE") || !strings.Contains(text, "node a") {
		t.Errorf("at another node: %d %s; want 503 that names node a", status, text)
	}
	if status, text := f.try("GET", b, "/v1/workspaces/far", "", nil); status != http.StatusNotFound {
		t.Errorf("it left a record: %d %s", status, text)
	}
	f.do("POST", a, "/v1/templates", fmt.Sprintf(`{"name": "whole", "snapshot": %q}`, id), nil)
	far := f.openFrom(b, sandbox.Kind, "template", "whole")
	for name, want := range map[string]string{"f": "lower", "g": "upper"} {
		if got := f.do("GET", b, filePath(far, name), "", nil); got != want {
			t.Errorf("at another node, from the template, %s has %q; want %q", name, got, want)
		}
	}
}

// A faultyProxy is an HTTP proxy before a real S3 server. While it is down it answers errors; while
// it is lossy it does so for every third write, after the server has done it.
type faultyProxy struct {
	*httptest.Server
	down, lossy atomic.Bool
	refused     atomic.Int64
	writes      atomic.Int64
}

// newFaultyProxy returns a proxy, and the URL of the bucket through it.
func newFaultyProxy(t *testing.T, address string) (*faultyProxy, string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	target, err := url.Parse(query.Get("endpoint"))
	if err != nil {
		t.Fatal(err)
	}
	p := new(faultyProxy)
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
		r.Out.Host = r.In.Host // it is signed
	}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lost := p.lossy.Load() && r.Method == http.MethodPut && p.writes.Add(1)%3 == 1
		if !p.down.Load() && !lost {
			forward.ServeHTTP(w, r)
			return
		}
		if lost {
			forward.ServeHTTP(httptest.NewRecorder(), r)
		}
		p.refused.Add(1)
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`)
	}))
	t.Cleanup(p.Close)
	query.Set("endpoint", p.URL)
	u.RawQuery = query.Encode()
	return p, u.String()
}

// TestAnswersOfTheBucketAreLost: the client writes again what was written, and gets its answer.
func TestAnswersOfTheBucketAreLost(t *testing.T) {
	f := prepareFleet(t, testenv.NeedsPostgres(t))
	proxy, address := newFaultyProxy(t, testenv.NeedsS3(t))
	f.env = []string{"CROFT_BUCKET=" + address}
	a := f.start("a")
	id := f.open(a, sharedKind, "w")
	proxy.lossy.Store(true)
	for i := range 3 {
		f.do("PUT", a, filePath(id, "f"), fmt.Sprint("content ", i), nil)
		snap := f.take(a, id, `{}`)
		if got := f.do("GET", a, "/v1/workspaces/"+id+"/snapshots/"+snap+"/files?path=f", "", nil); got != fmt.Sprint("content ", i) {
			t.Errorf("snapshot %d has %q", i, got)
		}
		f.do("PUT", a, "/v1/workspaces/"+id+"/artifacts/content?name=report", fmt.Sprint("report ", i), nil)
	}
	var list struct{ Artifacts []struct{ Version int } }
	if err := json.Unmarshal([]byte(f.do("GET", a, "/v1/workspaces/"+id+"/artifacts?name=report", "", nil)), &list); err != nil || len(list.Artifacts) != 3 {
		t.Errorf("the versions are %v, %v; want 3", list, err)
	}
	if proxy.refused.Load() < 6 {
		t.Errorf("%d answers were lost", proxy.refused.Load())
	}
}

// outage is how long the bucket answers errors.
const outage = time.Minute

// TestTheBucketFails for a minute: what was acknowledged is there afterwards, and nothing else.
//
//croft:slow
func TestTheBucketFails(t *testing.T) {
	f := prepareFleet(t, testenv.NeedsPostgres(t))
	real := testenv.NeedsS3(t)
	proxy, address := newFaultyProxy(t, real)
	f.env = []string{"CROFT_BUCKET=" + address}
	a, b := f.start("a"), f.start("b")
	id := f.open(a, sharedKind, "w")
	snapshots := "/v1/workspaces/" + id + "/snapshots"
	artifact := "/v1/workspaces/" + id + "/artifacts/content?name=report"
	taken := map[string]string{} // snapshot -> content of the file
	saved := []string{}          // contents of the versions of the artifact
	errors := 0
	var began time.Time
loop:
	for i := 0; ; i++ {
		switch {
		case i == 3:
			proxy.down.Store(true)
			began = time.Now()
		case i > 3 && proxy.down.Load() && time.Since(began) > outage:
			proxy.down.Store(false)
			began = time.Now()
		case !proxy.down.Load() && i > 3 && len(taken) >= 6 && len(saved) >= 6:
			break loop
		case !proxy.down.Load() && i > 3 && time.Since(began) > outage:
			t.Fatalf("a minute after the outage there are %d snapshots and %d versions", len(taken), len(saved))
		}
		via := []*replicaProcess{a, b}[i%2]
		content := fmt.Sprintf("%d %s", i, strings.Repeat("x", 100_000))
		f.do("PUT", via, filePath(id, "f"), content, nil) // the files are not in the bucket
		if status, text := f.try("POST", via, snapshots, `{}`, nil); status >= 200 && status < 300 {
			taken[f.field("id", text)] = content
		} else {
			errors++
			if status != http.StatusServiceUnavailable || !strings.Contains(text, "E_UNAVAILABLE") || !strings.Contains(text, "bucket") {
				t.Errorf("a snapshot during the outage: %d %s; want 503 that names the bucket", status, text)
			}
		}
		if status, text := f.try("PUT", via, artifact, content, nil); status >= 200 && status < 300 {
			saved = append(saved, content)
		} else {
			errors++
			if status != http.StatusServiceUnavailable || !strings.Contains(text, "E_UNAVAILABLE") || !strings.Contains(text, "artifact") {
				t.Errorf("an artifact during the outage: %d %s; want 503 that names the artifact", status, text)
			}
		}
	}
	t.Logf("%d snapshots, %d versions, %d errors; the bucket refused %d requests", len(taken), len(saved), errors, proxy.refused.Load())
	if errors < 4 {
		t.Errorf("%d errors in a minute without the bucket", errors)
	}
	for snap, want := range taken {
		if got := f.do("GET", b, snapshots+"/"+snap+"/files?path=f", "", nil); got != want {
			t.Errorf("the file in snapshot %s has %.20q, want %.20q", snap, got, want)
		}
	}
	var list struct{ Artifacts []struct{ Version int } }
	if err := json.Unmarshal([]byte(f.do("GET", b, "/v1/workspaces/"+id+"/artifacts?name=report", "", nil)), &list); err != nil || len(list.Artifacts) != len(saved) {
		t.Errorf("%d versions of the artifact, %v; want %d", len(list.Artifacts), err, len(saved))
	}
	for i, v := range list.Artifacts {
		if got := f.do("GET", b, fmt.Sprintf("%s&version=%d", artifact, v.Version), "", nil); i < len(saved) && got != saved[i] {
			t.Errorf("version %d has %.20q, want %.20q", v.Version, got, saved[i])
		}
	}
	if got := f.do("POST", b, "/v1/snapshots/check", "", nil); !strings.Contains(got, `"problems":[]`) && !strings.Contains(got, `"problems":null`) {
		t.Errorf("check: %s", got)
	}

	// When the snapshots are deleted, garbage collection leaves nothing of those that failed either.
	for snap := range taken {
		f.do("DELETE", b, "/v1/snapshots/"+snap, "", nil)
	}
	objects, err := bucket.Open(t.Context(), real)
	if err != nil {
		t.Fatal(err)
	}
	defer objects.Close()
	store := snapshot.Open(bucket.New(objects, "store"), &snapshot.Options{Grace: time.Nanosecond})
	for range 2 {
		if _, err := store.GC(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1100 * time.Millisecond) // a step of the clock of the bucket
	}
	left, _, err := objects.ListPage(t.Context(), blob.FirstPageToken, 100, &blob.ListOptions{Prefix: "store/"})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range left {
		t.Errorf("left in the bucket: %s", o.Key)
	}
}
