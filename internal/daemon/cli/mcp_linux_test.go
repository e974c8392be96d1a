package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestWebFetchObeysThePolicy: a page is fetched from inside the sandbox, so that the
// host that is allowed is reached, no other is, and without a network none.
func TestWebFetchObeysThePolicy(t *testing.T) {
	host, roots := secureServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "https://127.0.0.3:1/", http.StatusFound)
			return
		}
		fmt.Fprintf(w, "a page for %s", r.Header.Get("User-Agent"))
	})
	t.Setenv("SSL_CERT_FILE", roots)
	a := overStdio(t, nil, "--dir", t.TempDir(), "--allow-net", host)
	if got := a.ok("web_fetch", m{"url": "https://" + host + "/"}); !strings.HasPrefix(got, "Status: 200\nContent-Type: text/plain\nTruncated: false\n\na page for curl/") {
		t.Errorf("the allowed host: %q", got)
	}
	if got, failed := a.call("web_fetch", m{"url": "http://localhost:22/"}); !failed { // the workspace's own
		t.Errorf("the host's loopback interface is reached: %q", got)
	}
	for _, url := range []string{"https://" + host + "/away", "https://127.0.0.3:1/", "http://169.254.169.254/latest/meta-data/"} {
		if got, failed := a.call("web_fetch", m{"url": url}); !failed || !strings.Contains(got, "network policy of the workspace refuses") {
			t.Errorf("%s gives %q, want that the policy refuses it", url, got)
		}
	}
	// The allowed address of the loopback interface is forwarded, and no other.
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	for url, want := range map[string]bool{"https://" + host: true, other.URL: false} {
		got := a.ok("Bash", m{"command": "curl -sS --noproxy '*' --max-time 5 " + url + "/; echo status $?"})
		if reached := strings.Contains(got, "status 0"); reached != want {
			t.Errorf("without the proxy %s is reached: %v, want %v: %q", url, reached, want, got)
		}
	}
	none := overStdio(t, nil, "--dir", t.TempDir())
	list, err := none.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(list.Tools, func(x *mcp.Tool) bool { return x.Name == "web_fetch" }) {
		if got, failed := none.call("web_fetch", m{"url": "https://" + host + "/"}); !failed {
			t.Errorf("without a network the host is reached: %q", got)
		}
	}
}

// TestMuchOutputTakesLittleMemory: 300 MB of output, and the memory of the server
// while it comes in.
func TestMuchOutputTakesLittleMemory(t *testing.T) {
	cmd := lasting(croft(t, filepath.Join(t.TempDir(), "data"), "mcp", "--dir", t.TempDir()))
	s, err := newClient(nil).Connect(t.Context(), overPipes(cmd), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	a := &agent{s, t}
	a.ok("Bash", m{"command": "true"})
	start := rssAnon(t, cmd.Process.Pid)
	stop := make(chan struct{})
	most := start
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				most = max(most, rssAnon(t, cmd.Process.Pid))
			}
		}
	})
	got := a.ok("Bash", m{"command": "head -c 300000000 /dev/zero | tr '\\0' x; echo; echo the end"})
	close(stop)
	wg.Wait()
	if !strings.Contains(got, "the end") || !strings.Contains(got, "bytes elided") || len(got) > 1<<20 {
		t.Errorf("the answer has %d bytes: %.200q", len(got), got)
	}
	if grew := most - start; grew > 48<<20 {
		t.Errorf("the server took %d MiB more than the %d MiB it had", grew>>20, start>>20)
	}
}

var anonLine = regexp.MustCompile(`RssAnon:\s+(\d+) kB`)

// rssAnon is the memory of a process that is its own.
func rssAnon(t *testing.T, pid int) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Error(err)
		return 0
	}
	m := anonLine.FindSubmatch(data)
	if m == nil {
		t.Errorf("no RssAnon: %s", data)
		return 0
	}
	kib, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Error(err)
	}
	return kib << 10
}
