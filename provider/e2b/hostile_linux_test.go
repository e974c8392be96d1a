package e2b_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/e2b"
	"github.com/croft-run/croft/workspace/driver"
)

// recorder makes no request, and keeps what was asked for.
type recorder struct {
	next  http.RoundTripper
	asked atomic.Pointer[string] // host of the last request that is not for the server
	own   string
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host == r.own {
		return r.next.RoundTrip(req)
	}
	url := req.URL.String()
	r.asked.Store(&url)
	return nil, fmt.Errorf("no such host")
}

// TestNamesOfTheServerAreChecked: a server chooses neither paths of its API nor other hosts by the
// ids and domains that it answers.
func TestNamesOfTheServerAreChecked(t *testing.T) {
	for _, tt := range []struct{ id, domain, want string }{
		{"box", "boxes.example", "https://49983-box.boxes.example/"},
		{"box", "127.0.0.1:8443", "https://49983-box.127.0.0.1:8443/"},
		{"../../admin", "boxes.example", ""},
		{"a/../b", "boxes.example", ""},
		{"..", "boxes.example", ""},
		{"", "boxes.example", ""},
		{strings.Repeat("x", 1<<20), "boxes.example", ""},
		{"x@10.0.0.1/", "boxes.example", ""},
		{"x?", "boxes.example", ""},
		{"x y", "boxes.example", ""},
		{"x\r\nEvil: 1", "boxes.example", ""},
		{"box", "x@10.0.0.1", ""},
		{"box", "x/@10.0.0.1", ""},
		{"box", "example.com/path?", ""},
		{"box", "a b", ""},
		{"box", "", ""},
	} {
		id, dir := driver.NewID(), t.TempDir()
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodDelete {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			box := map[string]any{"sandboxID": tt.id, "domain": tt.domain, "envdAccessToken": "t", "state": "running", "metadata": map[string]string{"croft-workspace": id, "croft-root": e2b.RootName(filepath.Join(dir, "ws"))}}
			if r.Method == http.MethodGet {
				json.NewEncoder(w).Encode([]any{box})
				return
			}
			if tt.want == "" && tt.id != "box" {
				t.Errorf("id %.40q: the server is asked for %s", tt.id, r.URL.EscapedPath())
			}
			box["sandboxID"] = "another" // what was asked for counts
			json.NewEncoder(w).Encode(box)
		}))
		rec := &recorder{next: http.DefaultTransport, own: strings.TrimPrefix(s.URL, "http://")}
		p := newProvider(t, dir, func(c *e2b.Config) { c.Options, c.Transport = e2b.Options{Server: s.URL}, rec })
		_, err := p.Open(t.Context(), driver.Spec{ID: id, Kind: e2b.Kind})
		got := ""
		if asked := rec.asked.Load(); asked != nil {
			got = *asked
		}
		if err == nil || tt.want == "" && got != "" || !strings.HasPrefix(got, tt.want) {
			t.Errorf("id %.40q, domain %q: asked %q, %v; want %q", tt.id, tt.domain, got, err, tt.want)
		}
		if err != nil && (len(err.Error()) > 2000 || strings.Contains(err.Error(), "\n")) {
			t.Errorf("id %.40q: the error has %d bytes: %.100q", tt.id, len(err.Error()), err.Error())
		}
		s.Close()
	}
}

// TestAnAnswerWithTheKey: servers repeat what they were sent. Errors do not.
func TestAnAnswerWithTheKey(t *testing.T) {
	for _, pad := range []int{0, 480} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			json.NewEncoder(w).Encode(map[string]string{"message": strings.Repeat("x", pad) + "the key " + r.Header.Get("X-API-Key") + " is not valid"})
		}))
		p := newProvider(t, t.TempDir(), func(c *e2b.Config) { c.Options = e2b.Options{Server: s.URL, Sandboxes: s.URL} })
		_, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: e2b.Kind})
		if key := os.Getenv(keyVar); err == nil || strings.Contains(err.Error(), key[:12]) {
			t.Errorf("got %v; want an error without the key", err)
		}
		s.Close()
	}
}

// TestHugeAnswers of the server, and of a sandbox.
func TestHugeAnswers(t *testing.T) {
	id := driver.NewID()
	huge := strings.Repeat("z", 1<<20)
	for name, envd := range map[string]http.HandlerFunc{
		"an endless list": nil,
		"an error of envd": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/connect+proto")
			connectError(w, huge)
		},
		"plain text": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			io.WriteString(w, huge)
		},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodGet && envd == nil:
				io.WriteString(w, "[")
				for range 64 {
					if _, err := io.WriteString(w, `{"sandboxID":"`+huge+`"},`); err != nil {
						return
					}
				}
			case r.Method == http.MethodGet:
				io.WriteString(w, `[{"sandboxID":"box","metadata":{"croft-workspace":"`+id+`"}}]`)
			case r.Method == http.MethodDelete:
				w.WriteHeader(http.StatusNoContent)
			case strings.HasSuffix(r.URL.Path, "/connect"):
				io.WriteString(w, `{"sandboxID":"box","envdAccessToken":"t","state":"running"}`)
			default:
				envd(w, r)
			}
		}))
		p := newProvider(t, t.TempDir(), func(c *e2b.Config) { c.Options = e2b.Options{Server: s.URL, Sandboxes: s.URL} })
		_, err := p.Open(t.Context(), driver.Spec{ID: id, Kind: e2b.Kind})
		if err == nil || len(err.Error()) > 3000 {
			t.Errorf("%s: an error of %d bytes", name, len(fmt.Sprint(err)))
		}
		s.Close()
	}
}

// connectError writes the end of a stream with an error, as Connect has it.
func connectError(w io.Writer, text string) {
	end, _ := json.Marshal(map[string]any{"error": map[string]string{"code": "unavailable", "message": text}})
	n := len(end)
	w.Write(append([]byte{2, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, end...))
}

// TestAServerThatHangs: a sweep holds the lock of the whole registry, so it must end.
func TestAServerThatHangs(t *testing.T) {
	dir, id := t.TempDir(), driver.NewID()
	end := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
	defer s.Close()
	defer close(end)
	p := newProvider(t, dir, func(c *e2b.Config) {
		c.Options, c.Timeout = e2b.Options{Server: s.URL, Sandboxes: s.URL}, 100*time.Millisecond
	})
	done := make(chan error, 2)
	go func() {
		_, err := p.Open(t.Context(), driver.Spec{ID: id, Kind: e2b.Kind})
		done <- err
		done <- p.Sweep(t.Context(), nil)
	}()
	for range 2 {
		select {
		case err := <-done:
			if code := fault.Of(err); code != fault.Unavailable && !fault.IsTransient(err) {
				t.Errorf("got %v; want %v", err, fault.Unavailable)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("no answer within 20 s")
		}
	}
}
