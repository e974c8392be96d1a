package eval_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/provider/sandbox"
)

// registry is a registry of npm packages that has one, on a loopback address that programs
// ask through their proxy.
func registry(t *testing.T) (addr string) {
	t.Helper()
	var pkg bytes.Buffer
	zip := gzip.NewWriter(&pkg)
	files := tar.NewWriter(zip)
	for name, text := range map[string]string{"package/package.json": `{"name":"pad","version":"1.0.0"}`, "package/index.js": "module.exports = 1;\n"} {
		if err := files.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = l.Addr().String()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/pad":
			fmt.Fprintf(w, `{"name":"pad","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"pad","version":"1.0.0","dist":{"tarball":"http://%s/pad.tgz"}}}}`, addr)
		case "/pad.tgz":
			w.Write(pkg.Bytes())
		default:
			http.NotFound(w, r)
		}
	}))
	srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	t.Cleanup(srv.Close)
	return addr
}

// TestBootstrapInstallsPackages: a bootstrap command that installs from a registry says
// which host to allow, and works where the configuration allows it.
func TestBootstrapInstallsPackages(t *testing.T) {
	testenv.NeedsProgram(t, "npm")
	addr := registry(t)
	host, _, _ := strings.Cut(addr, ":")
	for name, test := range map[string]struct{ croft, want string }{
		"refused": {"", "The network refused " + host + ": allow it with --allow-net " + host + ", or croft.allowNet: [" + host + "] in the configuration."},
		"allowed": {"croft: {allowNet: [\"" + addr + "\"]}\n", ""},
		"once":    {"croft: {allowNet: [\"" + addr + "\"], bootstrap: once}\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := project(t, map[string]string{
				"template/package.json": `{"name":"app","version":"1.0.0","dependencies":{"pad":"1.0.0"}}`,
				"e/agent.sh":            stub,
				"e/croft.eval.yaml":     "runners: {main: {agent: {type: claude-code, model: m, command: ./agent.sh}}}\n" + test.croft,
				"e/suite.mjs": isolated(`templateDir: "../template", bootstrap: { command: "npm", args: ["install", "--no-audit", "--no-fund", "--fetch-retries=0"],
	env: { npm_config_registry: "http://`+addr+`/" } }`) + `export default [{ id: "a", prompt: "true", assert(r) { assert.files.exists(r, "node_modules/pad/index.js"); assert.diff.empty(r); } }];`,
			})
			requests := new(eval.Requests)
			p, err := sandbox.New(&sandbox.Config{Root: filepath.Join(t.TempDir(), "ws"), Guest: bin(t, "croft-guest"), Events: requests})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close() // each workspace has ended
			r := runSuite(t, filepath.Join(dir, "e"), "suite.mjs", &eval.Options{Envs: &eval.Sandbox{Provider: p}, Requests: requests})
			e := of(t, r, "a")
			switch {
			case test.want == "" && !e.Passed:
				t.Errorf("it fails: %+v\n%s", e.Error, e.FailureLogPath)
			case test.want != "" && (e.Passed || e.FailureOrigin != eval.OriginBootstrap || !strings.HasSuffix(e.Error.Message, "\n"+test.want)):
				t.Errorf("it says %+v, want %s", e.Error, test.want)
			}
		})
	}
}
