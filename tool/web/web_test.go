package web_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/tool/web"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func newEnv(t *testing.T, p driver.Provider) *tool.Env {
	t.Helper()
	ws, err := workspace.NewMux(p).Open(t.Context(), workspace.Spec{Kind: p.Kind(), ID: workspace.NewID(), Policy: workspace.Policy{Network: workspace.Network{Open: p.Kind() == "local"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Destroy(context.WithoutCancel(t.Context())) })
	set := new(tool.Set)
	if err := set.Add("w", ws); err != nil {
		t.Fatal(err)
	}
	env, err := tool.NewEnv(tool.Config{Workspaces: set, Sources: []tool.Source{web.Source}})
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func TestFetch(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/big":
			w.Write([]byte(strings.Repeat("x", 3<<20)))
		case "/file":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		case "/missing":
			w.WriteHeader(http.StatusNotFound)
		default:
			w.Header().Set("Content-Type", "text/plain; charset=x")
			w.Write([]byte("two\nlines"))
		}
	}))
	defer site.Close()
	p, err := local.New(&local.Config{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	env := newEnv(t, p)
	fetch := func(url string) (string, error) {
		args, _ := json.Marshal(map[string]string{"url": url})
		res, err := env.Run(t.Context(), tool.Request{Tool: "web_fetch", Args: args})
		return res.Text, err
	}
	if got, err := fetch(site.URL); err != nil || got != "Status: 200\nContent-Type: text/plain; charset=x\nTruncated: false\n\ntwo\nlines" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := fetch(site.URL + "/missing"); err != nil || !strings.HasPrefix(got, "Status: 404\n") {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := fetch(site.URL + "/big"); err != nil || !strings.Contains(got[:200], "Truncated: true") || len(got) > 2<<20 {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if got, err := fetch(site.URL + "/file"); fault.Of(err) != fault.Unavailable {
		t.Errorf("a redirect to a file: %q, %v", got, err)
	}
	for _, bad := range []string{"file:///etc/passwd", "gopher://x", "--output=x", "http://"} {
		if _, err := fetch(bad); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("fetch(%q) = %v", bad, err)
		}
	}
}

func TestNotWithoutANetwork(t *testing.T) {
	env := newEnv(t, new(memory.Provider))
	list, err := env.Available(t.Context(), "")
	if err != nil || slices.ContainsFunc(list, func(x *tool.Tool) bool { return x.Name == "web_fetch" }) {
		t.Errorf("Available = %v, %v", list, err)
	}
}
