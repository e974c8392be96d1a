package envd_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/server/e2b/envd"
	"github.com/croft-run/croft/internal/testenv"
)

// sdk serves a sandbox with the least of a control plane, and runs a program of testdata
// with E2B's SDK against it.
func sdk(t *testing.T, program string) {
	modules, node := testenv.NeedsE2B(t), testenv.NeedsProgram(t, "node")
	h := newHost(t)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/sandboxes") && r.Method == http.MethodPost:
			w.WriteHeader(http.StatusCreated)
			json.NewEncoder(w).Encode(map[string]string{
				"sandboxID": h.box.ID, "templateID": "base", "clientID": "x", "envdVersion": envd.Version, "envdAccessToken": token,
			})
		case r.Header.Get("E2b-Sandbox-Port") == strconv.Itoa(envd.CodePort):
			h.srv.ServeCode(w, r, h.box)
		default: // signed URLs have no header
			h.srv.ServeEnvd(w, r, h.box)
		}
	}))
	defer srv.Close()
	dir := t.TempDir()
	source, err := os.ReadFile(filepath.Join("testdata", program))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, program), source, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, program)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "E2B_API_KEY=e2b_0000", "E2B_API_URL="+srv.URL, "E2B_SANDBOX_URL="+srv.URL)
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "ok ") {
			t.Log(strings.TrimSpace(line))
		}
	}
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

func TestSDK(t *testing.T) { sdk(t, "sdk.mjs") }

// TestBashSDK needs no Jupyter.
func TestBashSDK(t *testing.T) { sdk(t, "bash.mjs") }

func TestCodeSDK(t *testing.T) {
	testenv.NeedsJupyter(t)
	sdk(t, "code.mjs")
}
