package rest_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/httpguard"
	"github.com/croft-run/croft/internal/server/httplog"
	"github.com/croft-run/croft/internal/server/rest"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

const token = "s3cret-token"

// A host is a server on a real listener, over a registry on a real store.
type host struct {
	t   *testing.T
	url string
	srv *rest.Server
}

func newHost(t *testing.T, extra ...driver.Provider) *host {
	t.Helper()
	store, err := registry.OpenStore(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "croft.db"))
	if err != nil {
		t.Fatal(err)
	}
	mux := workspace.NewMux(append([]driver.Provider{new(memory.Provider)}, extra...)...)
	recent := event.NewRing(1000)
	events := event.NewStream(recent)
	reg, err := registry.New(t.Context(), store, mux, &registry.Options{Retries: -1, Events: events})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := rest.New(rest.Config{Registry: reg, Mux: mux, Guard: httpguard.Guard{Token: token, Hosts: []string{"croft.example"}}, Version: "test", MaxBody: 4096, Events: events, Recent: recent})
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(srv)
	t.Cleanup(func() {
		srv.Drain()
		ts.Close()
		if err := srv.Wait(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if err := reg.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return &host{t: t, url: ts.URL, srv: srv}
}

// A reply is an answer, read to its end.
type reply struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

// do sends a request with the token; headers are "Key: value".
func (h *host) do(method, path, body string, headers ...string) reply {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	for _, line := range headers {
		k, v, ok := strings.Cut(line, ": ")
		if !ok {
			continue
		}
		if k == "Host" {
			req.Host = v
			continue
		}
		if k == "Authorization" {
			req.Header.Del(k) // the default above
			if v == "" {
				continue
			}
		}
		req.Header.Add(k, v)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(data), err}
}

// open opens a workspace and returns its id.
func (h *host) open(spec string) string {
	h.t.Helper()
	r := h.do("POST", "/v1/workspaces", spec)
	if r.status != http.StatusOK {
		h.t.Fatalf("open: %d %s", r.status, r.body)
	}
	var ws rest.Workspace
	h.decode(r, &ws)
	return ws.ID
}

func (h *host) decode(r reply, v any) {
	h.t.Helper()
	if err := json.Unmarshal([]byte(r.body), v); err != nil {
		h.t.Fatalf("decode %s: %v", r.body, err)
	}
}

// wantFault checks that an answer is an error with the code, and its status.
func wantFault(t *testing.T, r reply, code fault.Code, words ...string) {
	t.Helper()
	wantStatus(t, r, code.Status(), code, words...)
}

// wantStatus is wantFault where HTTP has a status of its own.
func wantStatus(t *testing.T, r reply, status int, code fault.Code, words ...string) {
	t.Helper()
	var p struct {
		Error fault.Wire `json:"error"`
	}
	dec := json.NewDecoder(strings.NewReader(r.body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil {
		t.Errorf("status %d, body %q is no error: %v", r.status, r.body, err)
		return
	}
	if p.Error.Code != code.Wire() || p.Error.Kind != code.Kind() || r.status != status {
		t.Errorf("got %d %s, want %d %s: %s", r.status, p.Error.Code, status, code.Wire(), p.Error.Message)
	}
	if ct := r.header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("Content-Type %q", ct)
	}
	for _, w := range words {
		if !strings.Contains(p.Error.Message, w) {
			t.Errorf("message %q lacks %q", p.Error.Message, w)
		}
	}
}

func TestErrorsHaveOneForm(t *testing.T) {
	h := newHost(t)
	id := h.open(`{"kind":"memory","name":"demo"}`)
	one := "/v1/workspaces/" + id
	tests := []struct {
		name, method, path, body string
		headers                  []string
		code                     fault.Code
		words                    []string
	}{
		{"no such route", "GET", "/v1/nope", "", nil, fault.NotFound, []string{"/v1/nope"}},
		{"root", "GET", "/", "", nil, fault.NotFound, nil},
		{"unknown parameter", "GET", one + "/stat?path=a&colour=red", "", nil, fault.InvalidArgument, []string{"colour", "allowed are changeToken, digest, nofollow, owner, path"}},
		{"missing parameter", "GET", one + "/files", "", nil, fault.InvalidArgument, []string{"path"}},
		{"no number", "GET", one + "/files?path=a&offset=x", "", nil, fault.InvalidArgument, []string{"offset"}},
		{"negative offset", "GET", one + "/files?path=a&offset=-1", "", nil, fault.InvalidArgument, []string{"offset"}},
		{"bad encoding", "GET", one + "/stat?path=%zz", "", nil, fault.InvalidArgument, []string{"%zz"}},
		{"bad mode", "PUT", one + "/files?path=a&mode=999", "x", nil, fault.InvalidArgument, []string{"999", "octal"}},
		{"bad mtime", "PUT", one + "/files?path=a&mtime=now", "x", nil, fault.InvalidArgument, []string{"mtime"}},
		{"bad If-None-Match", "PUT", one + "/files?path=a", "x", []string{"If-None-Match: x"}, fault.InvalidArgument, []string{"If-None-Match"}},
		{"bad If-Match", "PUT", one + "/files?path=a", "x", []string{"If-Match: x"}, fault.InvalidArgument, []string{"digest"}},
		{"empty If-Match", "PUT", one + "/files?path=a", "x", []string{`If-Match: ""`}, fault.InvalidArgument, []string{"If-Match", "empty", "digest"}},
		{"If-Match without a value", "PUT", one + "/files?path=a", "x", []string{"If-Match: "}, fault.InvalidArgument, []string{"If-Match", "empty"}},
		{"If-None-Match without a value", "PUT", one + "/files?path=a", "x", []string{"If-None-Match: "}, fault.InvalidArgument, []string{"If-None-Match"}},
		{"two If-Match", "PUT", one + "/files?path=a", "x", []string{"If-Match: x", "If-Match: y"}, fault.InvalidArgument, []string{"If-Match", "2 times"}},
		{"a part of a file", "PUT", one + "/files?path=a", "x", []string{"Content-Range: bytes 0-0/9"}, fault.InvalidArgument, []string{"Content-Range"}},
		{"a condition that is not checked", "DELETE", one + "/files?path=a", "", []string{"If-Match: x"}, fault.InvalidArgument, []string{"If-Match"}},
		{"a time that is not checked", "PUT", one + "/files?path=a", "x", []string{"If-Unmodified-Since: x"}, fault.InvalidArgument, []string{"If-Unmodified-Since"}},
		{"a parameter twice", "GET", one + "/stat?path=a&path=b", "", nil, fault.InvalidArgument, []string{"parameter path", "2 times"}},
		{"a parameter twice, of a write", "PUT", one + "/files?path=a&mode=600&mode=755", "x", nil, fault.InvalidArgument, []string{"parameter mode", "2 times"}},
		{"more than permission bits", "PUT", one + "/files?path=a&mode=4755", "x", nil, fault.InvalidArgument, []string{"mode", "4755", "777"}},
		{"unknown key", "POST", "/v1/workspaces", `{"kind":"memory","colour":1}`, nil, fault.InvalidArgument, []string{`"colour"`, "allowed are", "labels"}},
		{"nested unknown key", "POST", "/v1/workspaces", `{"kind":"memory","policy":{"red":1}}`, nil, fault.InvalidArgument, []string{`"policy.red"`}},
		{"repeated key", "POST", "/v1/workspaces", `{"kind":"memory","kind":"memory"}`, nil, fault.InvalidArgument, []string{"twice"}},
		{"other case", "POST", "/v1/workspaces", `{"Kind":"memory"}`, nil, fault.InvalidArgument, []string{`"Kind"`}},
		{"not JSON", "POST", "/v1/workspaces", `{`, nil, fault.InvalidArgument, nil},
		{"no body", "POST", "/v1/workspaces", ``, nil, fault.InvalidArgument, []string{"body"}},
		{"another type", "POST", "/v1/workspaces", `<a/>`, []string{"Content-Type: text/xml"}, fault.InvalidArgument, nil},
		{"file too large", "PUT", one + "/files?path=a&max=3", "four", nil, fault.ResourceExhausted, nil},
		{"unknown provider", "POST", "/v1/workspaces", `{"kind":"nope"}`, nil, fault.InvalidArgument, []string{"nope", "memory"}},
		{"bad id", "POST", "/v1/workspaces", `{"kind":"memory","id":"../x"}`, nil, fault.InvalidArgument, []string{"../x"}},
		{"bad config", "POST", "/v1/workspaces", `{"kind":"memory","config":{"nope":1}}`, nil, fault.InvalidArgument, []string{"nope"}},
		{"taken name", "POST", "/v1/workspaces", `{"kind":"memory","name":"demo"}`, nil, fault.AlreadyExists, []string{"demo"}},
		{"no such workspace", "GET", "/v1/workspaces/nope", "", nil, fault.NotFound, []string{"nope"}},
		{"bad label", "GET", "/v1/workspaces?label=x", "", nil, fault.InvalidArgument, []string{"K=V"}},
		{"bad state", "GET", "/v1/workspaces?state=x", "", nil, fault.InvalidArgument, []string{"ready"}},
		{"no file", "GET", one + "/files?path=nope", "", nil, fault.NotFound, nil},
		{"outside", "GET", one + "/files?path=../../etc/passwd", "", nil, fault.SandboxViolation, nil},
		{"absolute", "GET", one + "/files?path=/etc/passwd", "", nil, fault.SandboxViolation, nil},
		{"NUL", "GET", one + "/files?path=a%00b", "", nil, fault.InvalidArgument, []string{"NUL"}},
		{"bad pattern", "GET", one + "/grep?pattern=(", "", nil, fault.InvalidArgument, nil},
		{"bad duration", "GET", one + "/grep?pattern=x&maxtime=soon", "", nil, fault.InvalidArgument, []string{"maxtime"}},
		{"empty change", "PATCH", one, `{}`, nil, fault.InvalidArgument, []string{"labels", "policy"}},
		{"unknown key in an edit", "POST", one + "/edit?path=a", `{"edits":[{"old":"a","nwe":"b"}]}`, nil, fault.InvalidArgument, []string{"nwe"}},
		{"reset of what is good", "POST", one + "/reset", "", nil, fault.WrongState, nil},
		{"no token", "GET", one, "", []string{"Authorization: "}, fault.Unauthenticated, []string{"Bearer"}},
		{"wrong token", "GET", one, "", []string{"Authorization: Bearer nope"}, fault.Unauthenticated, nil},
		{"wrong scheme", "GET", one, "", []string{"Authorization: Basic " + token}, fault.Unauthenticated, nil},
		{"no token for the document", "GET", "/v1/openapi.json", "", []string{"Authorization: "}, fault.Unauthenticated, nil},
		{"no token, no route", "GET", "/nope", "", []string{"Authorization: "}, fault.Unauthenticated, nil},
		{"another host", "GET", one, "", []string{"Host: evil.example"}, fault.PermissionDenied, []string{"evil.example"}},
		{"another host, health", "GET", "/healthz", "", []string{"Host: evil.example:80"}, fault.PermissionDenied, nil},
		{"another origin", "GET", one, "", []string{"Origin: http://evil.example"}, fault.PermissionDenied, []string{"evil.example"}},
		{"no origin", "GET", one, "", []string{"Origin: null"}, fault.PermissionDenied, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := &host{t: t, url: h.url}
			wantFault(t, h.do(tt.method, tt.path, tt.body, tt.headers...), tt.code, tt.words...)
		})
	}
	large := h.do("POST", "/v1/workspaces", `{"kind":"`+strings.Repeat("x", 5000)+`"}`)
	wantStatus(t, large, http.StatusRequestEntityTooLarge, fault.ResourceExhausted, "too large")
	r := h.do("PUT", "/v1/workspaces", "")
	wantStatus(t, r, http.StatusMethodNotAllowed, fault.InvalidArgument, "GET", "POST")
	if got, want := r.header.Get("Allow"), "GET, HEAD, POST"; got != want {
		t.Errorf("Allow is %q, want %q", got, want)
	}
	var list rest.Workspaces
	h.decode(h.do("GET", "/v1/workspaces", ""), &list)
	if len(list.Workspaces) != 1 {
		t.Errorf("what was refused left %d workspaces, want the one", len(list.Workspaces))
	}
}

func TestAllowedCallers(t *testing.T) {
	h := newHost(t)
	addr := strings.TrimPrefix(h.url, "http://")
	for _, headers := range [][]string{
		{"Host: localhost"}, {"Host: LOCALHOST:7070"}, {"Host: 127.0.0.1"}, {"Host: [::1]:7070"}, {"Host: 192.0.2.7:7070"},
		{"Host: Croft.example:443"}, {"Origin: http://" + addr}, {"Authorization: bearer " + token},
	} {
		if r := h.do("GET", "/v1/version", "", headers...); r.status != http.StatusOK {
			t.Errorf("%v: %d %s", headers, r.status, r.body)
		}
	}
	if r := h.do("GET", "/healthz", "", "Authorization: "); r.status != http.StatusOK || !strings.Contains(r.body, `"ok":true`) {
		t.Errorf("/healthz without a token: %d %s", r.status, r.body)
	}
	if r := h.do("GET", "/v1/version", "", "Authorization: "); r.header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("WWW-Authenticate is %q", r.header.Get("WWW-Authenticate"))
	}
	if r := h.do("DELETE", "/v1/workspaces", ""); r.header.Get("Allow") == "" {
		t.Error("no Allow header with a method that is not allowed")
	}
	if _, err := rest.New(rest.Config{}); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("New without a token: %v", err)
	}
}

// TestEveryCodeHasItsStatus makes a provider fail in every way there is.
func TestEveryCodeHasItsStatus(t *testing.T) {
	odd := &oddProvider{}
	h := newHost(t, odd)
	id := h.open(`{"kind":"odd"}`)
	for _, code := range fault.All() {
		odd.stat = fmt.Errorf("odd: a secret word: %w", code)
		if code == fault.Evicted {
			continue // the registry attaches again, and this provider never recovers
		}
		r := h.do("GET", "/v1/workspaces/"+id+"/stat?path=a", "")
		wantFault(t, r, code)
		if leaks := strings.Contains(r.body, "secret"); leaks != (code != fault.Internal) {
			t.Errorf("%s: the message is %s", code, r.body)
		}
	}
}

func TestPanicIsAnAnswer(t *testing.T) {
	odd := &oddProvider{panics: true}
	h := newHost(t, odd)
	wantFault(t, h.do("GET", "/v1/providers", ""), fault.Internal)
	wantFault(t, h.do("POST", "/v1/workspaces", `{"kind":"odd","name":"x"}`), fault.Failed)
	odd.panics = false
	h.open(`{"kind":"odd","name":"x"}`) // what failed to open left no name behind
}

// TestCutShort proves that a part of a file never passes for the whole.
func TestCutShort(t *testing.T) {
	h := newHost(t, &oddProvider{})
	id := h.open(`{"kind":"odd"}`)
	if r := h.do("GET", "/v1/workspaces/"+id+"/files?path=a", ""); r.err == nil {
		t.Errorf("a read that failed in the middle ended well, with %d bytes", len(r.body))
	}
}

// TestUploadCutShort proves that a body that ends early changes nothing.
func TestUploadCutShort(t *testing.T) {
	h := newHost(t)
	id := h.open(`{"kind":"memory"}`)
	path := "/v1/workspaces/" + id + "/files?path=a"
	h.do("PUT", path, "before")
	for range 20 {
		body, w := io.Pipe()
		go func() {
			w.Write(bytes.Repeat([]byte("x"), 100_000))
			w.CloseWithError(io.ErrNoProgress)
		}()
		req, err := http.NewRequestWithContext(t.Context(), "PUT", h.url+path, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		if res, err := http.DefaultClient.Do(req); err == nil {
			res.Body.Close()
			t.Fatalf("an upload that was cut short was answered with %s", res.Status)
		}
		if r := h.do("GET", path, ""); r.body != "before" {
			t.Fatalf("after an upload that was cut short the file has %d bytes", len(r.body))
		}
	}
}

// TestMistakesOfClients: what a client got wrong is not counted as a failure of the server.
func TestMistakesOfClients(t *testing.T) {
	h := newHost(t)
	h.open(`{"kind":"memory","name":"demo"}`)
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, head := range []*tar.Header{{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755}, {Name: "big", Typeflag: tar.TypeReg, Size: 1 << 40, Mode: 0o644}} {
		if err := w.WriteHeader(head); err != nil {
			t.Fatal(err)
		}
	}
	archive.WriteString("much less")
	wantStatus(t, h.do("POST", "/v1/workspaces/demo/import?path=in", archive.String()), http.StatusBadRequest, fault.InvalidArgument, "archive")
	wantStatus(t, h.do("POST", "/v1/workspaces", `{"kind":"`+strings.Repeat("x", 5000)+`"}`), http.StatusRequestEntityTooLarge, fault.ResourceExhausted)
}

func TestFiles(t *testing.T) {
	h := newHost(t)
	id := h.open(`{"kind":"memory","name":"demo"}`)
	file := "/v1/workspaces/demo/files?path="

	r := h.do("PUT", file+"d/a.txt&parents=true&mode=600", "0123456789")
	var res driver.WriteResult
	h.decode(r, &res)
	if !res.Created || res.Digest != driver.DigestBytes([]byte("0123456789")) || res.Info.Mode != 0o600 || res.Info.Path != "d/a.txt" {
		t.Errorf("write answered %s", r.body)
	}
	if got, want := r.header.Get("ETag"), `"`+res.Digest+`"`; got != want {
		t.Errorf("the ETag of a write is %s, want %s", got, want)
	}
	wantStatus(t, h.do("PUT", file+"d/a.txt", "x", "If-None-Match: *"), http.StatusPreconditionFailed, fault.AlreadyExists)
	wantFault(t, h.do("PUT", file+"d/a.txt", "x", `If-Match: "`+driver.DigestBytes(nil)+`"`), fault.Conflict)
	if r := h.do("PUT", file+"d/a.txt", "0123456789", `If-Match: "`+res.Digest+`"`); r.status != http.StatusOK {
		t.Errorf("write with the right digest: %s", r.body)
	}

	for _, tt := range []struct {
		query, header string
		status        int
		body, rang    string
		partial       string
	}{
		{"", "", 200, "0123456789", "", ""},
		{"&offset=3", "", 200, "3456789", "", "bytes 3-9/10"},
		{"&offset=3&limit=2", "", 200, "34", "", "bytes 3-4/10"},
		{"&offset=3&limit=99", "", 200, "3456789", "", "bytes 3-9/10"},
		{"&limit=9", "", 200, "012345678", "", "bytes 0-8/10"},
		{"&limit=9&digest=true", "", 200, "012345678", "", "bytes 0-8/10"},
		{"&limit=10", "", 200, "0123456789", "", ""},
		{"&offset=99", "", 200, "", "", "bytes */10"},
		{"", "Range: bytes=2-4", 206, "234", "bytes 2-4/10", "bytes 2-4/10"},
		{"", "Range: bytes=7-", 206, "789", "bytes 7-9/10", "bytes 7-9/10"},
		{"", "Range: bytes=-3", 206, "789", "bytes 7-9/10", "bytes 7-9/10"},
		{"", "Range: bytes=-99", 206, "0123456789", "bytes 0-9/10", ""},
		{"", "Range: bytes=8-99", 206, "89", "bytes 8-9/10", "bytes 8-9/10"},
		{"", "Range: bytes=0-1,3-4", 200, "0123456789", "", ""},
		{"", "Range: lines=1-2", 200, "0123456789", "", ""},
	} {
		if head := h.do("HEAD", file+"d/a.txt"+tt.query, "", tt.header); head.header.Get(rest.PartialHeader) != tt.partial || tt.status == 200 && head.header.Get("Content-Length") != strconv.Itoa(len(tt.body)) {
			t.Errorf("HEAD%s %s: %v; want length %d, and %s %q", tt.query, tt.header, head.header, len(tt.body), rest.PartialHeader, tt.partial)
		}
		r := h.do("GET", file+"d/a.txt"+tt.query, "", tt.header)
		if got := r.header.Get(rest.PartialHeader); got != tt.partial {
			t.Errorf("read%s %s: %s is %q, want %q", tt.query, tt.header, rest.PartialHeader, got, tt.partial)
		}
		if r.status != tt.status || r.body != tt.body || r.header.Get("Content-Range") != tt.rang {
			t.Errorf("read%s %s: got %d %q %q, want %d %q %q", tt.query, tt.header, r.status, r.body, r.header.Get("Content-Range"), tt.status, tt.body, tt.rang)
		}
		var info driver.Info
		if err := json.Unmarshal([]byte(r.header.Get(rest.InfoHeader)), &info); err != nil || info.Size != 10 {
			t.Errorf("%s is %q", rest.InfoHeader, r.header.Get(rest.InfoHeader))
		}
	}
	for _, bad := range []string{"bytes=4-2", "bytes=-", "bytes=x-", "bytes=1"} {
		wantFault(t, h.do("GET", file+"d/a.txt", "", "Range: "+bad), fault.InvalidArgument, "10 bytes")
	}
	for _, outside := range []string{"bytes=10-", "bytes=10-12", "bytes=-0"} {
		r := h.do("GET", file+"d/a.txt", "", "Range: "+outside)
		wantStatus(t, r, http.StatusRequestedRangeNotSatisfiable, fault.InvalidArgument, "10 bytes")
		if got, want := r.header.Get("Content-Range"), "bytes */10"; got != want {
			t.Errorf("Content-Range is %q, want %q", got, want)
		}
	}
	if r := h.do("HEAD", file+"d/a.txt", ""); r.status != 200 || r.body != "" || r.header.Get("Content-Length") != "10" || r.header.Get("ETag") != "" {
		t.Errorf("HEAD: %d %q %v", r.status, r.body, r.header)
	}
	for _, method := range []string{"HEAD", "GET"} {
		r := h.do(method, file+"d/a.txt&digest=true", "", "Range: bytes=1-2")
		if got, want := r.header.Get("ETag"), `"`+res.Digest+`"`; got != want {
			t.Errorf("%s: the ETag is %s, want %s", method, got, want)
		}
	}
	for query, want := range map[string]bool{"": false, "&stat=true": true} {
		r := h.do("GET", "/v1/workspaces/demo/glob?pattern=d/*"+query, "")
		if got := strings.Contains(r.body, `"size"`) && strings.Contains(r.body, `"mode"`); got != want {
			t.Errorf("glob%s has size and mode: %v, want %v: %s", query, got, want, r.body)
		}
	}

	// A name that is not UTF-8, nor fit for a header.
	odd := "caf%E9%0A%7F%F0%9F%8C%B1"
	if r := h.do("PUT", file+odd, "odd"); r.status != http.StatusOK {
		t.Fatalf("write of an odd name: %s", r.body)
	}
	r = h.do("GET", file+odd, "")
	var info driver.Info
	if err := json.Unmarshal([]byte(r.header.Get(rest.InfoHeader)), &info); err != nil || info.Path != "caf\xe9\n\x7f\U0001f331" || r.body != "odd" {
		t.Errorf("read of an odd name: %q, %q, %v", r.body, r.header.Get(rest.InfoHeader), err)
	}
	var listing driver.Listing
	h.decode(h.do("GET", "/v1/workspaces/"+id+"/list?depth=-1", ""), &listing)
	if !slices.ContainsFunc(listing.Entries, func(i driver.Info) bool { return i.Path == info.Path }) {
		t.Errorf("the listing lost the odd name: %+v", listing)
	}

	if r := h.do("DELETE", file+odd, ""); r.status != http.StatusNoContent {
		t.Errorf("remove: %d %s", r.status, r.body)
	}
	wantFault(t, h.do("DELETE", file+odd, ""), fault.NotFound)
	if r := h.do("DELETE", file+"d&recursive=true", ""); r.status != http.StatusNoContent {
		t.Errorf("remove: %d %s", r.status, r.body)
	}
}

func TestControl(t *testing.T) {
	h := newHost(t)
	id := h.open(`{"kind":"memory","name":"demo","labels":{"a":"1"},"session":{"user":"eve"}}`)
	other := driver.NewID()
	if got := h.open(`{"kind":"memory","id":"` + other + `"}`); got != other {
		t.Errorf("opened %s, want %s", got, other)
	}
	var again rest.Workspace
	h.decode(h.do("POST", "/v1/workspaces", `{"kind":"memory","id":"`+other+`","policy":{"readOnly":true}}`), &again)
	if again.ID != other || !again.Policy.ReadOnly || again.Revision != 2 {
		t.Errorf("opened again with another policy: %+v", again)
	}

	// Names belong to owners.
	wantFault(t, h.do("GET", "/v1/workspaces/demo", ""), fault.NotFound)
	if r := h.do("GET", "/v1/workspaces/demo?owner=eve", ""); r.status != http.StatusOK {
		t.Errorf("show by owner: %s", r.body)
	}
	count := func(query string, want int) {
		t.Helper()
		var list rest.Workspaces
		h.decode(h.do("GET", "/v1/workspaces"+query, ""), &list)
		if len(list.Workspaces) != want {
			t.Errorf("%q lists %d workspaces, want %d", query, len(list.Workspaces), want)
		}
	}
	count("", 2)
	count("?owner=eve", 1)
	count("?label=a%3D1", 1)
	count("?label=a%3D1&label=b%3D2", 0)
	count("?state=ready", 2)
	count("?state=failed", 0)
	count("?kind=memory", 2)

	var ws rest.Workspace
	h.decode(h.do("PATCH", "/v1/workspaces/"+id, `{"labels":{"b":"2"},"policy":{"readOnly":true}}`), &ws)
	if ws.Labels["b"] != "2" || ws.Labels["a"] != "" || !ws.Policy.ReadOnly || ws.Revision != 2 {
		t.Errorf("changed to %+v", ws)
	}
	wantFault(t, h.do("PUT", "/v1/workspaces/"+id+"/files?path=a", "x"), fault.PermissionDenied)

	// No answer has a ref.
	for _, path := range []string{"", "/describe"} {
		if r := h.do("GET", "/v1/workspaces/"+id+path, ""); strings.Contains(r.body, "providerId") || strings.Contains(r.body, `"ref"`) {
			t.Errorf("%s leaks a ref: %s", path, r.body)
		}
	}
	if r := h.do("POST", "/v1/workspaces/"+id+"/acquire", ""); !strings.Contains(r.body, `"traits"`) || strings.Contains(r.body, `"ref"`) {
		t.Errorf("acquire: %s", r.body)
	}
	if r := h.do("DELETE", "/v1/workspaces/"+id, ""); r.status != http.StatusNoContent {
		t.Errorf("destroy: %d %s", r.status, r.body)
	}
	wantFault(t, h.do("DELETE", "/v1/workspaces/"+id, ""), fault.NotFound)
	wantFault(t, h.do("GET", "/v1/workspaces/"+id+"/stat", ""), fault.NotFound)
	count("", 1)

	var providers rest.Providers
	h.decode(h.do("GET", "/v1/providers", ""), &providers)
	if len(providers.Providers) != 1 || providers.Providers[0].Traits == nil {
		t.Errorf("providers: %+v", providers)
	}
}

// TestDrainEndsWatches proves that a watch does not keep a server from stopping.
func TestDrainEndsWatches(t *testing.T) {
	h := newHost(t)
	id := h.open(`{"kind":"memory"}`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", h.url+"/v1/workspaces/"+id+"/watch", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	h.do("PUT", "/v1/workspaces/"+id+"/files?path=a", "x")
	seen := make([]byte, 0, 4096)
	for !bytes.Contains(seen, []byte("event: changes")) {
		buf := make([]byte, 512)
		n, err := res.Body.Read(buf)
		if err != nil {
			t.Fatalf("the stream ended with %v after %q", err, seen)
		}
		seen = append(seen, buf[:n]...)
	}
	h.srv.Drain()
	rest, err := io.ReadAll(res.Body)
	if err != nil || !bytes.Contains(rest, []byte("event: end")) {
		t.Errorf("after Drain: %q, %v", rest, err)
	}
}

// A lostKeys is a store of keys whose database is away.
type lostKeys struct{ auth.KeyStore }

func (lostKeys) FindKey(context.Context, string) (auth.Key, error) {
	return auth.Key{}, fault.Private(fmt.Errorf("find a key: %w: dial 10.0.0.1", fault.Unavailable), "find a key: unavailable")
}

// TestCausesAreLogged: a client is told that the database is away, and the log has where it is, with the
// id of the request.
func TestCausesAreLogged(t *testing.T) {
	store, err := registry.OpenStore(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "croft.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	mux := workspace.NewMux(new(memory.Provider))
	reg, err := registry.New(t.Context(), store, mux, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer reg.Shutdown(context.WithoutCancel(t.Context()))
	var logged bytes.Buffer
	srv, err := rest.New(rest.Config{Registry: reg, Mux: mux, Log: slog.New(slog.NewTextHandler(&logged, nil)), Guard: httpguard.Guard{Token: token, Keys: auth.NewKeys(lostKeys{})}})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "http://localhost/v1/me", nil)
	r.Header.Set("X-API-KEY", "e2b_"+strings.Repeat("0", 40))
	r.Header.Set("X-Request-Id", "the-request")
	w := httptest.NewRecorder()
	httplog.New(srv, httplog.Config{}).ServeHTTP(w, r)
	if got := w.Body.String(); w.Code != http.StatusServiceUnavailable || strings.Contains(got, "10.0.0.1") || !strings.Contains(got, "find a key: unavailable") {
		t.Errorf("answer: %d %s", w.Code, got)
	}
	if got := logged.String(); !strings.Contains(got, "10.0.0.1") || !strings.Contains(got, "request=the-request") {
		t.Errorf("log: %q", got)
	}
}
