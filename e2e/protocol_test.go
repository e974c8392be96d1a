package e2e

import (
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/testenv"
)

const testToken = "token-of-a-test"

func mcpEnv(t *testing.T, croft string) []string {
	t.Helper()
	home := t.TempDir()
	return []string{"HOME=" + home, "PATH=" + croft + ":" + os.Getenv("PATH"), "CROFT_DATA=" + filepath.Join(home, "croft"), "CROFT_TOKEN=" + testToken}
}

// TestInspector: the protocol's own inspector lists the tools, finds nothing
// wrong with their schemas, and calls one that changes a file, over stdio and
// over HTTP.
func TestInspector(t *testing.T) {
	bin := testenv.NeedsAgent(t, "mcp-inspector")
	croft := buildCroft(t)
	env, dir := mcpEnv(t, croft), t.TempDir()
	addr := startHTTP(t, croft, dir, env)
	for name, target := range map[string][]string{
		"stdio": {"croft", "mcp", "--dir", dir},
		"http":  {"http://" + addr + "/mcp", "--header", "Authorization: Bearer " + testToken},
	} {
		t.Run(name, func(t *testing.T) {
			inspect := func(out any, args ...string) {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), bin, append(append([]string{"--cli"}, target...), args...)...)
				cmd.Env = env
				var stderr strings.Builder
				cmd.Stderr = &stderr
				data, err := cmd.Output()
				if err != nil {
					t.Fatalf("%q: %v\n%s%s", args, err, data, stderr.String())
				}
				if err := json.Unmarshal(data, out); err != nil {
					t.Fatalf("%q: %v\n%s", args, err, data)
				}
			}
			var list struct {
				Tools []struct {
					Name                      string
					InputSchema, OutputSchema map[string]any
					Annotations               map[string]any
				}
			}
			inspect(&list, "--method", "tools/list", "--strict")
			if n := len(list.Tools); n < 15 || n > 25 {
				t.Errorf("%d tools are listed", len(list.Tools))
			}
			for _, tool := range list.Tools {
				if tool.InputSchema["type"] != "object" || tool.Annotations["readOnlyHint"] == nil && tool.Annotations["destructiveHint"] == nil {
					t.Errorf("%s has input %v and annotations %v", tool.Name, tool.InputSchema["type"], tool.Annotations)
				}
			}
			var result struct {
				Content           []struct{ Text string }
				StructuredContent map[string]any
			}
			inspect(&result, "--method", "tools/call", "--tool-name", "Write", "--tool-arg", "file_path="+name+".txt", "--tool-arg", "content=hello")
			if len(result.Content) != 1 || result.Content[0].Text != "wrote 5 bytes to "+name+".txt" || result.StructuredContent != nil {
				t.Errorf("Write answers %+v", result)
			}
			if got, err := os.ReadFile(filepath.Join(dir, name+".txt")); err != nil || string(got) != "hello" {
				t.Errorf("the file holds %q, %v", got, err)
			}
		})
	}
}

// TestConformance runs the protocol's conformance checks, those that the Go SDK
// is held to, against croft mcp. They bear no token, so that a proxy adds it.
func TestConformance(t *testing.T) {
	bin := testenv.NeedsAgent(t, "conformance")
	croft := buildCroft(t)
	env := mcpEnv(t, croft)
	addr := startHTTP(t, croft, t.TempDir(), env)
	proxy := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: addr})
		r.Out.Host = r.In.Host // which is among what is checked
		r.Out.Header.Set("Authorization", "Bearer "+testToken)
	}})
	defer proxy.Close()
	// Node's client can wait for ever for a connection that it has, and does not use.
	proxy.Config.SetKeepAlivesEnabled(false)
	cmd := exec.CommandContext(t.Context(), bin, "server", "--url", proxy.URL+"/mcp", "--suite", "all",
		"--expected-failures", "e2e/testdata/conformance.yml", "--output-dir", t.TempDir())
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	_, summary, _ := strings.Cut(string(out), "=== SUMMARY ===")
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Log(summary)
	for _, want := range []string{"server-initialize", "tools-list", "resources-list", "prompts-list", "logging-set-level", "dns-rebinding-protection"} {
		if !strings.Contains(summary, "✓ "+want) {
			t.Errorf("%s did not pass:\n%s", want, summary)
		}
	}
}
