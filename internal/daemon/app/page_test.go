package app_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// A browser is a client with cookies, which sends what a page sends.
type browser struct {
	t    *testing.T
	url  string
	http *http.Client
}

// A secureJar has the cookie of one server; as browsers on loopback, it keeps Secure ones.
type secureJar struct{ cookies []*http.Cookie }

func newBrowser(t *testing.T, url string) *browser {
	t.Helper()
	return &browser{t: t, url: url, http: &http.Client{Transport: &withCookies{jar: new(secureJar)}}}
}

type withCookies struct{ jar *secureJar }

func (w *withCookies) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for _, c := range w.jar.cookies {
		r.AddCookie(c)
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		for _, c := range res.Cookies() {
			w.jar.cookies = nil
			if c.MaxAge > 0 {
				w.jar.cookies = []*http.Cookie{c}
			}
		}
	}
	return res, err
}

// do sends a request; headers are "Key: value". ORIGIN stands for the server's own.
func (b *browser) do(method, path, body string, headers ...string) (int, string, http.Header) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, line := range headers {
		k, v, _ := strings.Cut(line, ": ")
		if k == "Host" {
			req.Host = v
			continue
		}
		req.Header.Set(k, strings.ReplaceAll(v, "ORIGIN", b.url))
	}
	res, err := b.http.Do(req)
	if err != nil {
		b.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil && ctx.Err() == nil {
		b.t.Fatalf("%s %s: %v", method, path, err)
	}
	return res.StatusCode, string(data), res.Header
}

// page are the headers of a request of the page that may change something.
var page = []string{"Origin: ORIGIN", "Sec-Fetch-Site: same-origin", "Croft-Page: 1"}

func (b *browser) want(status int, method, path, body string, headers ...string) string {
	b.t.Helper()
	got, text, _ := b.do(method, path, body, headers...)
	if got != status {
		b.t.Errorf("%s %s %v: %d %.300s, want %d", method, path, headers, got, text, status)
	}
	return text
}

func (b *browser) signIn(key string) {
	b.t.Helper()
	b.want(http.StatusOK, "POST", "/page/session", `{"key":"`+key+`"}`, page...)
}

// TestPageAssets: the page needs no key, and runs nothing but its own files.
func TestPageAssets(t *testing.T) {
	_, url := serveWith(t, app.Config{DataDir: t.TempDir()})
	b := newBrowser(t, url)
	status, text, h := b.do("GET", "/", "")
	if status != http.StatusOK || !strings.Contains(text, "<!doctype html>") || h.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("GET /: %d %.200s %v", status, text, h)
	}
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; manifest-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'; trusted-types 'none'"
	for name, want := range map[string]string{"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache"} {
		if got := h.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if status, _, _ := b.do("GET", "/", "", "If-None-Match: "+h.Get("ETag")); status != http.StatusNotModified && h.Get("Content-Encoding") == "" {
		t.Errorf("with its ETag the page is %d", status)
	}
	res, err := b.http.Transport.RoundTrip(mustRequest(t, url+"/", "Accept-Encoding: gzip"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	packed, err := gzip.NewReader(res.Body)
	if err != nil || res.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("the page is not compressed: %v %v", err, res.Header)
	}
	if data, err := io.ReadAll(packed); err != nil || string(data) != text {
		t.Errorf("compressed it is %.100q, %v", data, err)
	}
	// Paths that are no assets stay the API's.
	for path, want := range map[string]int{"/index.html": http.StatusUnauthorized, "/nowhere": http.StatusUnauthorized, "/v1/nowhere": http.StatusUnauthorized, "/assets/": http.StatusUnauthorized} {
		if text := b.want(want, "GET", path, ""); !strings.HasPrefix(text, `{"error":`) {
			t.Errorf("GET %s is no JSON: %.100s", path, text)
		}
	}
	b.want(http.StatusMethodNotAllowed, "POST", "/", "{}")
	b.want(http.StatusForbidden, "GET", "/", "", "Host: attacker.example")
}

func mustRequest(t *testing.T, url string, headers ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range headers {
		k, v, _ := strings.Cut(line, ": ")
		req.Header.Set(k, v)
	}
	return req
}

// TestSignIn: a key becomes a cookie that only the page can use.
func TestSignIn(t *testing.T) {
	m := newTeam(t, "")
	b := newBrowser(t, m.url)
	b.want(http.StatusUnauthorized, "GET", "/page/session", "")
	b.want(http.StatusUnauthorized, "POST", "/page/session", `{"key":"e2b_0000"}`, page...)
	if _, text := m.do(m.sys.Token, "GET", "/events?after=0&follow=false&kind=api.call", ""); strings.Contains(text, "/page/session") {
		t.Errorf("failed sign-ins without a key are in the audit events: %.500s", text)
	}
	b.want(http.StatusBadRequest, "POST", "/page/session", `{"key":"x","more":1}`, page...)
	b.want(http.StatusBadRequest, "POST", "/page/session", "", page...)
	b.want(http.StatusForbidden, "POST", "/page/session", `{"key":"`+m.red+`"}`, "Origin: http://attacker.example")
	b.want(http.StatusForbidden, "POST", "/page/session", `{"key":"`+m.red+`"}`, "Host: attacker.example")
	b.want(http.StatusForbidden, "POST", "/page/session", `{"key":"`+m.red+`"}`, "Sec-Fetch-Site: same-site")

	_, text, h := b.do("POST", "/page/session", `{"key":"`+m.red+`"}`, page...)
	cookie := h.Get("Set-Cookie")
	for _, want := range []string{"__Host-croft=", "; Path=/", "; HttpOnly", "; Secure", "; SameSite=Strict", "; Max-Age="} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie %q lacks %q", cookie, want)
		}
	}
	if strings.Contains(cookie, "Domain") || strings.Contains(cookie+text, m.red) {
		t.Errorf("the cookie is %q, and the answer %s", cookie, text)
	}
	var who struct {
		client.Me
		Secure bool
	}
	if _, _, h := b.do("GET", "/v1/workspaces", ""); h.Get("Cache-Control") != "no-store" {
		t.Errorf("a cache may keep an answer to the cookie: %v", h)
	}
	if err := json.Unmarshal([]byte(b.want(http.StatusOK, "GET", "/page/session", "")), &who); err != nil || who.Tenant != "red" || who.Scope != "admin" || who.Key != m.redKey || who.Operator || !who.Secure {
		t.Errorf("signed in as %+v, %v", who, err)
	}

	// Reads need the cookie, and no other page.
	b.want(http.StatusOK, "GET", "/v1/workspaces", "")
	b.want(http.StatusOK, "GET", "/v1/workspaces", "", "Sec-Fetch-Site: same-origin")
	b.want(http.StatusOK, "GET", "/v1/workspaces", "", "Sec-Fetch-Site: none")
	b.want(http.StatusOK, "GET", "/events?follow=false&after=0", "", "Sec-Fetch-Site: same-origin")
	b.want(http.StatusOK, "GET", "/templates", "", "Sec-Fetch-Site: same-origin")
	for _, site := range []string{"cross-site", "same-site"} {
		b.want(http.StatusForbidden, "GET", "/v1/workspaces", "", "Sec-Fetch-Site: "+site)
		b.want(http.StatusForbidden, "GET", "/page/session", "", "Sec-Fetch-Site: "+site)
		b.want(http.StatusForbidden, "GET", "/events?follow=false", "", "Sec-Fetch-Site: "+site)
	}
	b.want(http.StatusForbidden, "GET", "/v1/workspaces", "", "Origin: http://attacker.example")
	b.want(http.StatusForbidden, "GET", "/v1/workspaces", "", "Host: attacker.example")

	// Changes need the header, and the origin.
	const open = `{"kind":"memory","name":"a"}`
	b.want(http.StatusForbidden, "POST", "/v1/workspaces", open)
	b.want(http.StatusForbidden, "POST", "/v1/workspaces", open, "Croft-Page: 1")
	b.want(http.StatusForbidden, "POST", "/v1/workspaces", open, "Origin: ORIGIN")
	b.want(http.StatusForbidden, "POST", "/v1/workspaces", open, "Sec-Fetch-Site: same-origin")
	b.want(http.StatusForbidden, "POST", "/v1/workspaces", open, "Croft-Page: 1", "Sec-Fetch-Site: none")
	b.want(http.StatusForbidden, "POST", "/v1/workspaces", open, "Croft-Page: 1", "Origin: http://attacker.example")
	b.want(http.StatusForbidden, "POST", "/v1/workspaces", open, "Croft-Page: 1", "Origin: ORIGIN", "Sec-Fetch-Site: same-site")
	b.want(http.StatusForbidden, "POST", "/v1/workspaces", open, "Croft-Page: 1", "Origin: null")
	b.want(http.StatusOK, "POST", "/v1/workspaces", open, page...)
	b.want(http.StatusForbidden, "DELETE", "/v1/workspaces/a", "", "Origin: ORIGIN")
	b.want(http.StatusNoContent, "DELETE", "/v1/workspaces/a", "", page...)

	// The cookie is for the page's routes, and a key of one's own counts more.
	for _, path := range []string{"/mcp", "/metrics", "/sandboxes", "/v2/sandboxes"} {
		b.want(http.StatusUnauthorized, "GET", path, "")
	}
	if _, text, _ := b.do("GET", "/v1/me", "", "Authorization: Bearer "+m.blue); !strings.Contains(text, `"tenant":"blue"`) {
		t.Errorf("with another key: %s", text)
	}
	b.want(http.StatusUnauthorized, "GET", "/v1/me", "", "X-API-KEY: wrong")

	// Another server of the data directory, such as this one after a restart, takes the cookie;
	// a changed one is nothing.
	_, second := serveWith(t, app.Config{DataDir: m.sys.Dir})
	again := &browser{t: t, url: second, http: b.http}
	again.want(http.StatusOK, "GET", "/v1/me", "")
	_, strange := serveWith(t, app.Config{DataDir: t.TempDir()})
	(&browser{t: t, url: strange, http: b.http}).want(http.StatusUnauthorized, "GET", "/v1/me", "")

	// Signing out removes the cookie, and ends the session: a copy of the cookie is worth nothing,
	// and a stream that it opened ends. Another session of the same key goes on. A revoked key ends all.
	b.want(http.StatusForbidden, "DELETE", "/page/session", "")
	other, thief := newBrowser(t, m.url), newBrowser(t, m.url)
	other.signIn(m.red)
	thief.http.Transport.(*withCookies).jar.cookies = slices.Clone(other.http.Transport.(*withCookies).jar.cookies)
	thief.want(http.StatusOK, "GET", "/v1/me", "")
	streamEnded := make(chan struct{})
	res, err := thief.http.Transport.RoundTrip(mustRequest(t, m.url+"/events", "Sec-Fetch-Site: same-origin")) //nolint:bodyclose // closed below
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("events: %s", res.Status)
	}
	go func() {
		defer close(streamEnded)
		io.Copy(io.Discard, res.Body) // it ends
	}()
	other.want(http.StatusNoContent, "DELETE", "/page/session", "", page...)
	other.want(http.StatusUnauthorized, "GET", "/v1/me", "")
	thief.want(http.StatusUnauthorized, "GET", "/v1/me", "")
	thief.want(http.StatusUnauthorized, "GET", "/page/session", "")
	b.want(http.StatusOK, "GET", "/v1/me", "")
	select {
	case <-streamEnded:
	case <-time.After(30 * time.Second):
		t.Error("a stream outlives its session")
	}
	thief.want(http.StatusNoContent, "DELETE", "/page/session", "", page...) // it removes the cookie
	if _, err := m.client(m.sys.Token).RevokeKey(t.Context(), m.redKey); err != nil {
		t.Fatal(err)
	}
	b.want(http.StatusUnauthorized, "GET", "/v1/me", "")
	b.want(http.StatusUnauthorized, "GET", "/page/session", "")
}

// TestInsecureCookie: by plain HTTP beyond loopback the cookie is another one, which does not count
// where the secure one can.
func TestInsecureCookie(t *testing.T) {
	sys, url := serveWith(t, app.Config{DataDir: t.TempDir(), Hosts: []string{"croft.example"}})
	b := newBrowser(t, url)
	const host = "Host: croft.example"
	_, text, h := b.do("POST", "/page/session", `{"key":"`+sys.Token+`"}`, host, "Origin: http://croft.example")
	cookie := h.Get("Set-Cookie")
	if !strings.HasPrefix(cookie, "croft-insecure=") || strings.Contains(cookie, "Secure") || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(text, `"secure":false`) {
		t.Errorf("the cookie is %q: %s", cookie, text)
	}
	b.want(http.StatusOK, "GET", "/v1/me", "", host)
	b.want(http.StatusUnauthorized, "GET", "/v1/me", "", host, "Sec-Fetch-Site: same-origin")
	// Behind a proxy with TLS the browser says so.
	_, text, h = b.do("POST", "/page/session", `{"key":"`+sys.Token+`"}`, host, "Origin: https://croft.example")
	if cookie := h.Get("Set-Cookie"); !strings.HasPrefix(cookie, "__Host-croft=") || !strings.Contains(text, `"secure":true`) {
		t.Errorf("the cookie is %q: %s", cookie, text)
	}
}

// TestReadOnlyPage: with a key to read, everything of the tenant is shown and nothing changes.
func TestReadOnlyPage(t *testing.T) {
	m := newTeam(t, "")
	m.fill()
	b := newBrowser(t, m.url)
	b.signIn(m.redRead)
	one := "/v1/workspaces/" + m.workspace
	for _, path := range []string{"/v1/workspaces?metrics=true", one, one + "/list", one + "/diff?text=true", one + "/patch", one + "/snapshots", one + "/sessions", one + "/metrics", one + "/shares", "/v1/tenants", "/v1/evals", "/v1/templates", "/v1/artifacts", "/v1/doctor"} {
		b.want(http.StatusOK, "GET", path, "", "Sec-Fetch-Site: same-origin")
	}
	for _, o := range m.routes() {
		if o.scope() != "read" && o.scope() != "" {
			path, body := m.request(o)
			b.want(http.StatusForbidden, o.method, path, body, page...)
		}
	}
	// What a workspace has does not become a page of this origin.
	_, text, h := b.do("GET", one+"/files?path=secret.txt", "", "Sec-Fetch-Site: none")
	if text != marker || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") ||
		h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("a file is %q with %v", text, h)
	}
}

// TestTerminalOfPage: a terminal over a WebSocket with the cookie, which another page can't open.
func TestTerminalOfPage(t *testing.T) {
	m := newTeam(t, "")
	m.fill()
	b := newBrowser(t, m.url)
	b.signIn(m.redRun)
	one := "/v1/workspaces/" + m.workspace
	var session struct{ ID string }
	text := b.want(http.StatusOK, "POST", one+"/sessions", `{"argv":["sh"],"tty":{"rows":24,"cols":80},"interactive":true,"detached":true}`, page...)
	if err := json.Unmarshal([]byte(text), &session); err != nil {
		t.Fatal(err)
	}
	attach := one + "/sessions/" + session.ID + "/attach"
	for _, headers := range []http.Header{
		{}, {"Origin": {"http://attacker.example"}}, {"Origin": {m.url}, "Sec-Fetch-Site": {"same-site"}},
	} {
		if c, res, err := websocket.Dial(t.Context(), m.url+attach, &websocket.DialOptions{HTTPClient: b.http, HTTPHeader: headers}); err == nil || res == nil || res.StatusCode != http.StatusForbidden { //nolint:bodyclose // the library has it
			t.Errorf("a terminal with %v: %v %v", headers, res, err)
			if c != nil {
				c.CloseNow()
			}
		}
	}
	read := func(c *websocket.Conn, until string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		got := ""
		for !strings.Contains(got, until) {
			_, data, err := c.Read(ctx)
			if err != nil {
				t.Fatalf("terminal: %v after %q", err, got)
			}
			got += string(data)
		}
	}
	opts := &websocket.DialOptions{HTTPClient: b.http, HTTPHeader: http.Header{"Origin": {m.url}, "Sec-Fetch-Site": {"same-origin"}}}
	c, _, err := websocket.Dial(t.Context(), m.url+attach, opts) //nolint:bodyclose // the library has it
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write(t.Context(), websocket.MessageBinary, []byte("x=kept; echo a$((1+1))b\n")); err != nil {
		t.Fatal(err)
	}
	read(c, "a2b")
	c.CloseNow()
	c, _, err = websocket.Dial(t.Context(), m.url+attach+"?tail=65536", opts) //nolint:bodyclose // the library has it
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	read(c, "a2b")
	if err := c.Write(t.Context(), websocket.MessageBinary, []byte("echo $x-$x\n")); err != nil {
		t.Fatal(err)
	}
	read(c, "kept-kept")
}

// TestShareLink: a share link shows one workspace, read-only, until it is revoked or expires.
func TestShareLink(t *testing.T) {
	m := newTeam(t, "")
	m.fill()
	one := "/v1/workspaces/" + m.workspace
	var second struct{ ID string }
	m.must("POST", "/v1/workspaces", `{"kind":"sandbox","name":"second"}`, &second)
	m.must("PUT", "/v1/workspaces/second/files?path=other.txt", "not shared", nil)
	var otherSnapshot struct{ ID string }
	m.must("POST", "/v1/workspaces/second/snapshots", `{}`, &otherSnapshot)
	var share client.NewShare
	m.must("POST", one+"/shares", `{"expires":"1h"}`, &share)
	if share.Workspace != m.workspace || share.Path != "/#/share/"+share.Text || time.Until(share.ExpiresAt) > time.Hour {
		t.Errorf("made %+v", share)
	}
	for _, bad := range []string{"31d", "-1h", "x"} {
		if status, text := m.do(m.red, "POST", one+"/shares", `{"expires":"`+bad+`"}`); status != http.StatusBadRequest {
			t.Errorf("expires %s: %d %s", bad, status, text)
		}
	}
	b := newBrowser(t, m.url)
	b.want(http.StatusForbidden, "POST", "/page/session", `{"key":"`+m.red+`","share":true}`, page...) // nobody is signed in by an address
	b.want(http.StatusUnauthorized, "GET", "/page/session", "")
	b.want(http.StatusOK, "POST", "/page/session", `{"key":"`+share.Text+`","share":true}`, page...)
	if text := b.want(http.StatusOK, "GET", "/v1/me", ""); !strings.Contains(text, `"workspace":"`+m.workspace+`"`) || !strings.Contains(text, `"scope":"read"`) {
		t.Errorf("signed in as %s", text)
	}
	for _, path := range []string{one, "/v1/workspaces/shop", one + "/list", one + "/files?path=secret.txt", one + "/diff?text=true", one + "/patch", one + "/snapshots", one + "/sessions", one + "/artifacts", one + "/metrics",
		one + "/sessions/" + m.session + "/log", one + "/snapshots/" + m.snapshot + "/readdir", "/v1/version"} {
		b.want(http.StatusOK, "GET", path, "", "Sec-Fetch-Site: same-origin")
	}
	if text := b.want(http.StatusOK, "GET", "/v1/workspaces", ""); !strings.Contains(text, m.workspace) || strings.Contains(text, second.ID) {
		t.Errorf("the list is %s", text)
	}
	text := b.want(http.StatusOK, "GET", "/events?after=0&follow=false", "")
	if !strings.Contains(text, m.workspace) || strings.Contains(text, second.ID) || strings.Contains(text, "api.call") || strings.Contains(text, m.redKey) {
		t.Errorf("the events are %.500s", text)
	}
	b.want(http.StatusNotFound, "GET", "/events?follow=false&workspace="+second.ID, "")
	b.want(http.StatusForbidden, "GET", "/events?follow=false&kind=api.call", "")
	for _, path := range []string{"/v1/workspaces/" + second.ID, "/v1/workspaces/second", "/v1/workspaces/second/files?path=other.txt", "/v1/workspaces/second/metrics",
		one + "/diff?from=workspace:second", one + "/diff?from=template:" + m.template, one + "/diff?from=" + otherSnapshot.ID, one + "/snapshots/" + otherSnapshot.ID + "/readdir", one + "/snapshots/" + otherSnapshot.ID + "/files?path=other.txt"} {
		if status, text, _ := b.do("GET", path, ""); status != http.StatusNotFound || strings.Contains(text, "not shared") {
			t.Errorf("GET %s with a share link: %d %s", path, status, text)
		}
	}
	for _, path := range []string{one + "/diff?from=dir:/etc", one + "/snapshots?crossSession=true", one + "/describe", one + "/shares", one + "/staging", "/v1/templates", "/v1/snapshots", "/v1/artifacts", "/v1/keys", "/v1/doctor", "/v1/tenants",
		"/v1/evals", "/v1/providers", "/v1/openapi.json", one + "/sessions/" + m.session + "/attach", one + "/ports/80", one + "/exec"} {
		b.want(http.StatusForbidden, "GET", path, "")
	}
	b.want(http.StatusForbidden, "POST", one+"/acquire", "", page...)
	for _, o := range m.routes() {
		path, body := m.request(o)
		if o.scope() != "read" && o.scope() != "" {
			b.want(http.StatusForbidden, o.method, path, body, page...)
		}
	}
	// It is a key, but no key of the tenant.
	for _, path := range []string{"/mcp", "/sandboxes", "/templates"} {
		if status, text := m.do(share.Text, "GET", path, ""); status != http.StatusForbidden {
			t.Errorf("GET %s with the key of a share link: %d %s", path, status, text)
		}
	}
	if status, text := m.do(m.redRead, "GET", one+"/shares", ""); status != http.StatusOK || !strings.Contains(text, share.ID) || strings.Contains(text, share.Text) {
		t.Errorf("the links are %d %s", status, text)
	}
	if status, _ := m.do(m.red, "DELETE", "/v1/workspaces/second/shares/"+share.ID, ""); status != http.StatusNotFound {
		t.Errorf("the link of another workspace is revoked: %d", status)
	}
	if status, _ := m.do(m.red, "DELETE", one+"/shares/"+m.redKey, ""); status != http.StatusNotFound {
		t.Errorf("a key is revoked as a link: %d", status)
	}
	// Variables often are keys for programs.
	const variable = "value-of-a-variable"
	m.must("PATCH", one, `{"policy":{"env":{"SHOP_KEY":"`+variable+`"}}}`, nil)
	if _, text := m.do(m.redRead, "GET", one, ""); !strings.Contains(text, variable) {
		t.Errorf("a key of the tenant sees %s", text)
	}
	for _, route := range []string{"GET " + one, "GET /v1/workspaces"} {
		method, path, _ := strings.Cut(route, " ")
		if text := b.want(http.StatusOK, method, path, "", page...); strings.Contains(text, variable) {
			t.Errorf("%s with a share link shows variables: %s", route, text)
		}
	}
	if text := b.want(http.StatusOK, "GET", "/events?after=0&follow=false", ""); strings.Contains(text, variable) {
		t.Errorf("the events show variables: %.500s", text)
	}
	m.must("DELETE", one+"/shares/"+share.ID, "", nil)
	b.want(http.StatusUnauthorized, "GET", one, "")

	// One that expires is refused, with its cookie and as a key, and signs nobody in.
	m.must("POST", one+"/shares", `{"expires":"2s"}`, &share)
	b.want(http.StatusOK, "POST", "/page/session", `{"key":"`+share.Text+`","share":true}`, page...)
	b.want(http.StatusOK, "GET", one, "")
	time.Sleep(time.Until(share.ExpiresAt) + 100*time.Millisecond)
	b.want(http.StatusUnauthorized, "GET", one, "")
	if status, _ := m.do(share.Text, "GET", one, ""); status != http.StatusUnauthorized {
		t.Errorf("the key of a link that has expired: %d", status)
	}
	newBrowser(t, m.url).want(http.StatusUnauthorized, "POST", "/page/session", `{"key":"`+share.Text+`","share":true}`, page...)
}

// TestDiffWithHostDirectory: only the operator compares with a directory of the host.
func TestDiffWithHostDirectory(t *testing.T) {
	m := newTeam(t, "")
	m.fill()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "host.txt"), []byte("of the host"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := "/v1/workspaces/" + m.workspace + "/diff?text=true&from=dir:" + dir
	for _, key := range []string{m.red, m.redRead} {
		if status, text := m.do(key, "GET", path, ""); status != http.StatusForbidden || strings.Contains(text, "host.txt") {
			t.Errorf("a tenant compares with a directory of the host: %d %s", status, text)
		}
	}
	if status, text := m.do(m.sys.Token, "GET", path, ""); status != http.StatusOK || !strings.Contains(text, "of the host") {
		t.Errorf("the operator compares: %d %s", status, text)
	}
}

// TestReview: changes are shown, taken as a patch, taken back by hunk, and applied to a directory
// of the host that is configured.
func TestReview(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "project")
	lines := strings.Split(strings.TrimSpace(strings.Repeat("line\n", 40)), "\n")
	for i := range lines {
		lines[i] += " " + string(rune('a'+i%26)) + strings.Repeat("x", i)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(dir, name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := strings.Join(lines, "\n") + "\n"
	write(dir, "text.txt", old)
	write(dir, "gone.txt", "goes\n")
	sys, url := serveWith(t, app.Config{DataDir: t.TempDir(), Settings: settings(t, "version: 1\nhostRoots: ["+root+"]\n")})
	c := newClient(t, sys, url)
	ctx := t.Context()
	if p, err := sys.Mux.Provider("sandbox"); err != nil {
		t.Fatal(err)
	} else if _, err := p.Probe(ctx); err != nil {
		t.Skipf("skipped: host: it lacks isolation: %v", err)
	}
	ws, err := c.Create(ctx, driver.Spec{Kind: "sandbox", Name: "work", From: driver.Source{Template: dir}})
	if err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t, url)
	b.signIn(sys.Token)
	one := "/v1/workspaces/work"
	changed := append([]string{}, lines...)
	changed[1], changed[20], changed[38] = "first", "second", "third"
	b.want(http.StatusOK, "PUT", one+"/files?path=text.txt", strings.Join(changed, "\n")+"\n", page...)
	b.want(http.StatusOK, "PUT", one+"/files?path=new.txt", "new\n", page...)
	b.want(http.StatusNoContent, "DELETE", one+"/files?path=gone.txt", "", page...)

	patch := b.want(http.StatusOK, "GET", one+"/patch?hunk=text.txt:2", "")
	if !strings.Contains(patch, "+second") || strings.Contains(patch, "+first") || strings.Contains(patch, "new.txt") || !strings.HasPrefix(patch, "diff --git") {
		t.Errorf("the patch is %s", patch)
	}
	b.want(http.StatusBadRequest, "GET", one+"/patch?hunk=text.txt:9", "")
	b.want(http.StatusBadRequest, "GET", one+"/patch?hunk=text.txt", "")
	if all := b.want(http.StatusOK, "GET", one+"/patch", ""); !strings.Contains(all, "+third") || !strings.Contains(all, "new.txt") || !strings.Contains(all, "deleted file") {
		t.Errorf("the whole patch is %s", all)
	}

	// Reject the second hunk, and the removal.
	var reverted client.Reverted
	text := b.want(http.StatusOK, "POST", one+"/revert", `{"paths":["gone.txt"],"hunks":{"text.txt":[2]}}`, page...)
	if err := json.Unmarshal([]byte(text), &reverted); err != nil || reverted.Undo == "" || len(reverted.Paths) != 2 {
		t.Errorf("reverted %s, %v", text, err)
	}
	changed[20] = lines[20]
	if text := b.want(http.StatusOK, "GET", one+"/files?path=text.txt", ""); text != strings.Join(changed, "\n")+"\n" {
		t.Errorf("after the revert it is %s", text)
	}
	b.want(http.StatusOK, "GET", one+"/files?path=gone.txt", "")
	b.want(http.StatusOK, "GET", one+"/files?path=new.txt", "")
	b.want(http.StatusNotFound, "POST", one+"/revert", `{"paths":["gone.txt"]}`, page...)
	b.want(http.StatusNotFound, "POST", one+"/revert", `{"hunks":{"text.txt":[7]}}`, page...)
	b.want(http.StatusBadRequest, "POST", one+"/revert", `{}`, page...)

	// Apply the first hunk to the directory; then all.
	apply := func(body string, done bool) string {
		t.Helper()
		text := b.want(http.StatusOK, "POST", one+"/apply-to-host", body, page...)
		if strings.Contains(text, `"done":true`) != done {
			t.Errorf("apply %s: %s", body, text)
		}
		return text
	}
	apply(`{"dir":"`+dir+`","hunks":{"text.txt":[1]},"dryRun":true}`, false)
	read := func(name string) string {
		data, _ := os.ReadFile(filepath.Join(dir, name))
		return string(data)
	}
	if read("text.txt") != old {
		t.Error("a dry run has changed the directory")
	}
	apply(`{"dir":"`+dir+`","hunks":{"text.txt":[1]}}`, true)
	if text := read("text.txt"); !strings.Contains(text, "first") || strings.Contains(text, "third") || read("new.txt") != "" {
		t.Errorf("after one hunk the directory has %s", text)
	}
	apply(`{"dir":"`+dir+`"}`, true)
	if text := read("text.txt"); text != strings.Join(changed, "\n")+"\n" || read("new.txt") != "new\n" || read("gone.txt") != "goes\n" {
		t.Errorf("after all the directory has %s", text)
	}
	// What was not shown is neither applied nor reverted.
	shown := func(paths ...string) string {
		t.Helper()
		var d snapshot.Comparison
		if err := json.Unmarshal([]byte(b.want(http.StatusOK, "GET", one+"/diff", "")), &d); err != nil {
			t.Fatal(err)
		}
		digests := map[string]string{}
		for _, c := range d.Changes {
			if c.New != nil && (len(paths) == 0 || slices.Contains(paths, c.Path)) {
				digests[c.Path] = c.New.Digest
			}
		}
		out, err := json.Marshal(digests)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	all, single := shown(), shown("new.txt")
	apply(`{"dir":"`+dir+`","shown":`+all+`}`, true)
	b.want(http.StatusOK, "PUT", one+"/files?path=later.txt", "later\n", page...)
	b.want(http.StatusPreconditionFailed, "POST", one+"/apply-to-host", `{"dir":"`+dir+`","shown":`+all+`}`, page...)
	apply(`{"dir":"`+dir+`","paths":["new.txt"],"shown":`+single+`}`, true)
	b.want(http.StatusOK, "PUT", one+"/files?path=new.txt", "other\n", page...)
	b.want(http.StatusPreconditionFailed, "POST", one+"/apply-to-host", `{"dir":"`+dir+`","paths":["new.txt"],"shown":`+single+`}`, page...)
	b.want(http.StatusPreconditionFailed, "POST", one+"/revert", `{"paths":["new.txt"],"shown":`+single+`}`, page...)
	if read("new.txt") != "new\n" || read("later.txt") != "" {
		t.Errorf("the directory has %q and %q", read("new.txt"), read("later.txt"))
	}
	b.want(http.StatusNoContent, "DELETE", one+"/files?path=new.txt", "", page...)
	b.want(http.StatusPreconditionFailed, "POST", one+"/revert", `{"paths":["later.txt","new.txt"],"shown":`+all+`}`, page...)

	// A conflict writes nothing.
	write(dir, "new.txt", "of the user\n")
	b.want(http.StatusOK, "PUT", one+"/files?path=new.txt", "newer\n", page...)
	if text := apply(`{"dir":"`+dir+`"}`, false); !strings.Contains(text, "conflicts") || read("new.txt") != "of the user\n" {
		t.Errorf("a conflict: %s, %s", text, read("new.txt"))
	}
	link := filepath.Join(root, "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{t.TempDir(), link, "/", sys.Dir, root + "/../"} {
		b.want(http.StatusForbidden, "POST", one+"/apply-to-host", `{"dir":"`+bad+`"}`, page...)
	}
	b.want(http.StatusBadRequest, "POST", one+"/apply-to-host", `{"dir":"project"}`, page...)
	b.want(http.StatusNotFound, "POST", one+"/apply-to-host", `{"dir":"`+root+`/missing"}`, page...)
	if text := b.want(http.StatusOK, "GET", "/v1/host-roots", ""); text != `{"roots":["`+root+`"]}`+"\n" {
		t.Errorf("the roots are %s", text)
	}
	// Without hostRoots in the configuration nothing is applied to the host.
	bare, bareURL := serveWith(t, app.Config{DataDir: t.TempDir()})
	if _, err := newClient(t, bare, bareURL).Create(ctx, driver.Spec{Kind: "memory", Name: "work"}); err != nil {
		t.Fatal(err)
	}
	if _, err := newClient(t, bare, bareURL).ApplyToHost(ctx, "work", client.HostApplyOptions{Dir: dir}); err == nil || !strings.Contains(err.Error(), "hostRoots") {
		t.Errorf("without hostRoots: %v", err)
	}
	_ = ws
}

// TestMetricsOfWorkspace: what a workspace uses is measured, without a use of it.
func TestMetricsOfWorkspace(t *testing.T) {
	m := newTeam(t, "")
	m.fill()
	c := m.client(m.red)
	ctx := t.Context()
	if _, err := c.Change(ctx, "shop", client.Change{Labels: &map[string]string{"a": "b"}}); err != nil {
		t.Fatal(err)
	}
	m.must("POST", "/v1/workspaces/shop/sessions", `{"script":"while :; do :; done"}`, nil)
	m.must("PUT", "/v1/workspaces/shop/files?path=big", strings.Repeat("x", 1<<20), nil)
	before, err := c.Show(ctx, "shop")
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		x, err := c.Metrics(ctx, "shop")
		if err != nil {
			t.Fatal(err)
		}
		if x.CPU != nil && *x.CPU > 0.01 && x.Memory != nil && *x.Memory > 0 && x.PIDs != nil && *x.PIDs >= 2 && x.Disk != nil && *x.Disk >= 1<<20 {
			break
		}
		if time.Now().After(deadline) {
			data, _ := json.Marshal(x)
			t.Fatalf("a loop and a file of 1 MiB use %s", data)
		}
		time.Sleep(600 * time.Millisecond) // a rate needs two measurements
	}
	after, err := c.Show(ctx, "shop")
	if err != nil || !after.LastUsed.Equal(before.LastUsed) && after.LastUsed.Sub(before.LastUsed) > time.Second {
		t.Errorf("measuring is a use: %s, %s, %v", before.LastUsed, after.LastUsed, err)
	}
	var list struct {
		Workspaces []client.Workspace
	}
	m.must("GET", "/v1/workspaces?metrics=true", "", &list)
	if len(list.Workspaces) != 1 || list.Workspaces[0].Metrics == nil || list.Workspaces[0].Tenant != "red" {
		t.Errorf("listed %+v", list)
	}
}

// TestChangeNetwork: one call adds a host to what a workspace may reach.
func TestChangeNetwork(t *testing.T) {
	m := newTeam(t, "")
	m.fill()
	c := m.client(m.red)
	ws, err := c.ChangeNetwork(t.Context(), "shop", client.NetworkChange{Allow: []driver.NetRule{{Host: "example.com", Ports: []int{443}}, {Host: "example.org"}}})
	if err != nil || len(ws.Policy.Network.Allow) != 2 {
		t.Fatalf("allowed %+v, %v", ws.Policy.Network, err)
	}
	ws, err = c.ChangeNetwork(t.Context(), "shop", client.NetworkChange{Allow: []driver.NetRule{{Host: "example.com"}}, Remove: []string{"example.org"}})
	if err != nil || len(ws.Policy.Network.Allow) != 1 || len(ws.Policy.Network.Allow[0].Ports) != 0 {
		t.Errorf("then %+v, %v", ws.Policy.Network, err)
	}
	for body, want := range map[string]int{
		`{}`: http.StatusBadRequest, `{"remove":["example.net"]}`: http.StatusNotFound,
		`{"allow":[{"host":"127.0.0.1"}]}`: http.StatusForbidden, `{"allow":[{"host":"localhost","private":true}]}`: http.StatusForbidden,
	} {
		if status, text := m.do(m.red, "POST", "/v1/workspaces/shop/network", body); status != want {
			t.Errorf("%s: %d %s, want %d", body, status, text, want)
		}
	}
}

// TestTenantsOfServer: a tenant sees its own quotas, and the operator those of all.
func TestTenantsOfServer(t *testing.T) {
	m := newTeam(t, "tenants: {red: {maxWorkspaces: 3}, green: {cpus: 2}}\n")
	if status, text := m.do(m.red, "POST", "/v1/workspaces", `{"kind":"memory"}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	mine, err := m.client(m.redRead).Tenants(t.Context())
	if err != nil || len(mine) != 1 || mine[0].Tenant != "red" || mine[0].Workspaces.Max != 3 || *mine[0].Workspaces.Used != 1 {
		t.Errorf("red sees %+v, %v", mine, err)
	}
	all, err := m.client(m.sys.Token).Tenants(t.Context())
	names := ""
	for _, x := range all {
		names += x.Tenant + ","
	}
	if err != nil || names != ",blue,green,red," {
		t.Errorf("the operator sees %q, %v", names, err)
	}
}
