package egress

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/croft-run/croft/workspace/driver"
)

// tool runs a program that knows of the proxy by its environment alone.
func (w *world) tool(name string, args ...string) (string, error) {
	w.t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		w.t.Skipf("skipped: host: it has no %s", name)
	}
	_, port, err := net.SplitHostPort(w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		w.t.Fatal(err)
	}
	dir := w.t.TempDir()
	bundle := filepath.Join(dir, "bundle.pem")
	if err := os.WriteFile(bundle, w.p.Bundle(w.rootsPEM.Bytes()), 0o600); err != nil {
		w.t.Fatal(err)
	}
	// As "go telemetry off" does: else it leaves a process behind that writes here.
	off := filepath.Join(dir, ".config", "go", "telemetry")
	if err := errors.Join(os.MkdirAll(off, 0o700), os.WriteFile(filepath.Join(off, "mode"), []byte("off"), 0o600)); err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.CommandContext(w.t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0"}
	for k, v := range Env(n, bundle) {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	out, err := cmd.CombinedOutput()
	w.noLeak(name, string(out))
	return string(out), err
}

func TestCurl(t *testing.T) {
	w := newWorld(t, credentialed("api.test"), nil)
	w.host("plain.test", addrB, hello200)
	w.host("denied.test", "93.184.216.36", hello200)
	w.host("api.test", addrA, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("X-Echo", r.Header.Get("Authorization"))
		fmt.Fprintf(rw, "auth=%v %s", r.Header.Get("Authorization") == "Bearer "+token, r.Header.Get("Authorization"))
	})
	_, port, _ := net.SplitHostPort(w.addr)
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, []byte(strings.Repeat("x", 3<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args string
		ok   bool
		want string
	}{
		{"http://plain.test/a", true, "GET plain.test /a "},
		{"https://plain.test/b", true, "GET plain.test /b "},
		{"-x socks5h://127.0.0.1:" + port + " https://plain.test/c", true, "GET plain.test /c "},
		{"-x socks5h://127.0.0.1:" + port + " http://plain.test/d", true, "GET plain.test /d "},
		{"--socks5-hostname 127.0.0.1:" + port + " https://denied.test/", false, "(2)"},
		{"https://denied.test/", false, "403"},
		{"http://denied.test/", true, "E_PERMISSION_DENIED"},
		{"http://169.254.169.254/latest/meta-data/", true, "E_PERMISSION_DENIED"},
		{"-i https://api.test/", true, "auth=true Bearer [REDACTED:tok]"},
		{"--compressed https://api.test/ https://api.test/", true, "auth=true"},
		{"-x socks5h://127.0.0.1:" + port + " https://api.test/", true, "auth=true"},
		{"--data-binary @" + big + " -o /dev/null -w %{http_code}-%{size_upload} http://plain.test/", true, "200-3145728"},
		{"--data-binary @" + big + " -o /dev/null -w %{http_code}-%{size_upload} https://api.test/", true, "200-3145728"},
		{"-I https://api.test/", true, "200 OK"},
		{"--http2 https://api.test/", true, "auth=true"},
	} {
		out, err := w.tool("curl", append([]string{"-sS", "--max-time", "120"}, strings.Fields(tt.args)...)...)
		if (err == nil) != tt.ok || !strings.Contains(out, tt.want) {
			t.Errorf("curl %s: %q %v, want %q", tt.args, out, err, tt.want)
		}
	}
}

func TestGit(t *testing.T) {
	n := allow("open.test")
	n.Allow = append(n.Allow, driver.NetRule{Host: "code.test", Credential: "git"})
	w := newWorld(t, n, func(o *Options) { o.Credentials = map[string]Credential{"git": {Secret: "tok", User: "me"}} })
	root := t.TempDir()
	for _, args := range [][]string{
		{"init", "-q", "--bare", filepath.Join(root, "r.git")},
		{"init", "-q", "-b", "main", filepath.Join(root, "src")},
		{"-C", filepath.Join(root, "src"), "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "--allow-empty", "-m", "first"},
		{"-C", filepath.Join(root, "src"), "push", "-q", filepath.Join(root, "r.git"), "main"},
	} {
		if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %s %v", args, out, err)
		}
	}
	execPath, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(execPath)), "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}
	w.host("open.test", addrB, backend.ServeHTTP)
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+token))
	w.host("code.test", addrA, func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != want {
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(rw, r)
	})
	for _, u := range []string{"https://open.test/r.git", "http://open.test/r.git", "https://code.test/r.git", "https://me:croft-secret:tok@code.test/r.git"} {
		if out, err := w.tool("git", "clone", "-q", "-b", "main", u, "out"); err != nil {
			t.Errorf("git clone %s: %s %v", u, out, err)
		}
	}
	if out, err := w.tool("git", "clone", "-q", "https://denied.test/r.git", "out"); err == nil || !strings.Contains(out, "403") {
		t.Errorf("git clone of a denied host: %q %v", out, err)
	}
}

func TestEnv(t *testing.T) {
	env := Env(3128, "")
	for k, want := range map[string]string{"HTTP_PROXY": "http://127.0.0.1:3128", "https_proxy": "http://127.0.0.1:3128",
		"ALL_PROXY": "http://127.0.0.1:3128", "no_proxy": "localhost,127.0.0.1,::1", "SSL_CERT_FILE": ""} {
		if env[k] != want {
			t.Errorf("%s=%q, want %q", k, env[k], want)
		}
	}
	if got := Env(1, "/b.pem"); got["NODE_EXTRA_CA_CERTS"] != "/b.pem" || got["GIT_SSL_CAINFO"] != "/b.pem" {
		t.Errorf("%v", got)
	}
}
