package httplog_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/server/httplog"
)

func TestRequestIsLogged(t *testing.T) {
	var log bytes.Buffer
	var seen []httplog.Request
	h := httplog.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httplog.SetRoute(r.Context(), "GET /things/{id}")
		httplog.Add(r.Context(), slog.String("tenant", "red"))
		w.WriteHeader(http.StatusTeapot)
		io.WriteString(w, httplog.ID(r.Context()))
	}), httplog.Config{Log: slog.New(slog.NewJSONHandler(&log, nil)), Observe: func(r httplog.Request) { seen = append(seen, r) }})
	server := httptest.NewServer(h)
	defer server.Close()

	req, err := http.NewRequestWithContext(t.Context(), "BREW", server.URL+"/things/1?key=hidden", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(httplog.Header, "abc-1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != "abc-1" || resp.Header.Get(httplog.Header) != "abc-1" {
		t.Errorf("id in the handler %q, in the answer %q (%v), want abc-1", body, resp.Header.Get(httplog.Header), err)
	}
	server.Close() // waits for the handler
	var line map[string]any
	if err := json.Unmarshal(log.Bytes(), &line); err != nil {
		t.Fatalf("%v in %s", err, &log)
	}
	for key, want := range map[string]any{"request": "abc-1", "method": "BREW", "path": "/things/1", "route": "GET /things/{id}", "status": 418.0, "bytes": 5.0, "tenant": "red"} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
	if strings.Contains(log.String(), "hidden") {
		t.Errorf("the query is in the log: %s", &log)
	}
	if len(seen) != 1 || seen[0].Method != "other" || seen[0].Route != "GET /things/{id}" || seen[0].Status != 418 {
		t.Errorf("observed %+v", seen)
	}
}

func TestBadIDIsReplaced(t *testing.T) {
	h := httplog.New(http.NotFoundHandler(), httplog.Config{})
	for _, id := range []string{"", "a b", "x\"y", strings.Repeat("a", 65)} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set(httplog.Header, id)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get(httplog.Header); got == id || got == "" {
			t.Errorf("id %q of the client became %q", id, got)
		}
	}
}
