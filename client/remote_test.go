package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/workspace/driver"
)

// The provider meets the suite and a real server in internal/daemon/app; here are the
// servers that are not as they should be.

func TestConfigIsChecked(t *testing.T) {
	for _, url := range []string{"", "localhost:7070", "ftp://x", "http://", "http://x/?q=1", "http://user:hunter2@x"} {
		_, err := New(Config{URL: url, Token: "t"})
		if fault.Of(err) != fault.InvalidArgument {
			t.Errorf("New with URL %q: %v, want InvalidArgument", url, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error echoes a password: %v", err)
		}
	}
	if _, err := New(Config{URL: "http://localhost:1"}); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("New without a token: %v", err)
	}
}

func client(t *testing.T, h http.HandlerFunc) *Provider {
	t.Helper()
	ts := httptest.NewServer(h)
	t.Cleanup(ts.Close)
	p, err := New(Config{URL: ts.URL, Token: "t", Client: "me"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Client.Close)
	return p
}

func TestUnreachable(t *testing.T) {
	address, err := testenv.Loopback()
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + address
	p, err := New(Config{URL: url, Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.List(t.Context(), Filter{})
	if fault.Of(err) != fault.Unavailable || !strings.Contains(err.Error(), url) {
		t.Errorf("List: %v, want Unavailable with the URL", err)
	}
	_, err = p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: "remote"})
	if fault.Of(err) != fault.Failed || !fault.IsTransient(err) {
		t.Errorf("Open: %v, want a transient Failed", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.List(ctx, Filter{}); fault.Of(err) != fault.Canceled {
		t.Errorf("List when cancelled: %v, want Canceled", err)
	}
}

func TestNotACroftServer(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"page": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<h1>no</h1>", http.StatusBadGateway) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		},
		"garbage": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client(t, h).List(t.Context(), Filter{})
			if fault.Of(err) != fault.Unavailable {
				t.Errorf("got %v, want Unavailable", err)
			}
		})
	}
}

// TestBodyErrorIsTheCallers proves that a write whose source fails says so, and
// that the source is left alone afterwards.
func TestBodyErrorIsTheCallers(t *testing.T) {
	p := client(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	f := p.filesModule(Workspace{ID: driver.NewID()})
	broken := errors.New("the source broke")
	body := io.MultiReader(strings.NewReader("some"), failing{broken})
	_, err := f.Write(t.Context(), "a", body, &driver.WriteOptions{})
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want the source's own error", err)
	}
	_, err = f.Write(t.Context(), "a", strings.NewReader("12345"), &driver.WriteOptions{MaxSize: 4})
	if fault.Of(err) != fault.ResourceExhausted {
		t.Errorf("got %v, want ResourceExhausted", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestReadThatBreaksHasACode(t *testing.T) {
	p := client(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(infoHeader, `{"path":"a","type":"file","size":100}`)
		io.WriteString(w, "part")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	body, info, err := p.filesModule(Workspace{ID: driver.NewID()}).Read(t.Context(), "a", &driver.ReadOptions{})
	if err != nil || info.Size != 100 {
		t.Fatal(info, err)
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if fault.Of(err) != fault.Unavailable {
		t.Errorf("read %q, %v; want Unavailable", data, err)
	}
}

// TestGoneIsEvicted proves that a workspace which the server lost is told from a
// file that is not there.
func TestGoneIsEvicted(t *testing.T) {
	p := client(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		cause := ""
		if r.URL.Query().Get("path") == "lost" {
			cause = `,"cause":"gone"`
		}
		io.WriteString(w, `{"error":{"code":"E_NOT_FOUND","kind":"not_found","message":"m: not found"`+cause+`}}`)
	})
	f := p.filesModule(Workspace{ID: driver.NewID()})
	if _, err := f.Stat(t.Context(), "file", &driver.StatOptions{}); fault.Of(err) != fault.NotFound {
		t.Errorf("got %v, want NotFound", err)
	}
	if _, err := f.Stat(t.Context(), "lost", &driver.StatOptions{}); fault.Of(err) != fault.Evicted {
		t.Errorf("got %v, want Evicted", err)
	}
	ref, err := driver.NewRef(kind, payload{ID: driver.NewID()}, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Resolve(t.Context(), ref)
	if fault.Of(err) != fault.Failed || fault.CauseOf(err) != fault.CauseGone || fault.IsTransient(err) {
		t.Errorf("Resolve: %v, want a permanent Failed with cause gone", err)
	}
}
