package sandbox

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/workspace/driver"
)

// token is a secret that no workspace may see.
const token = "s3cr3t+Text/that==never-enters"

// tokens has that one secret.
type tokens struct{}

func (tokens) Get(_ context.Context, _, name string) (secret.Value, error) {
	if name != "tok" {
		return secret.Value{}, fmt.Errorf("secret %s: %w", name, fault.NotFound)
	}
	return secret.NewValue("tok", token), nil
}

// An internet is a TLS server on loopback that answers for names under test, with
// a certificate of an authority that this host, for the test, trusts.
type internet struct {
	port     int
	pool     *x509.CertPool
	handlers map[string]http.HandlerFunc
}

func newInternet(t *testing.T, handlers map[string]http.HandlerFunc) *internet {
	t.Helper()
	in := &internet{pool: x509.NewCertPool(), handlers: handlers}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.Host)
		if h := handlers[host]; h != nil {
			h(w, r)
			io.Copy(io.Discard, r.Body)
			return
		}
		http.NotFound(w, r)
	}))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "internet of a test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for name := range handlers {
		tmpl.DNSNames = append(tmpl.DNSNames, name)
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	in.pool.AddCert(cert)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", roots)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	in.port = server.Listener.Addr().(*net.TCPAddr).Port
	return in
}

func (in *internet) provider(t *testing.T, creds map[string]egress.Credential) *Provider {
	t.Helper()
	resolve := names{"denied.test": "127.0.0.1"}
	for name := range in.handlers {
		resolve[name] = "127.0.0.1"
	}
	p, err := New(&Config{
		Root: filepath.Join(t.TempDir(), "ws"), Guest: os.Getenv(guestVar), Lease: lease,
		Resolver: resolve, RootCAs: in.pool, Secrets: tokens{}, Credentials: creds,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func (in *internet) allow(credential string, hosts ...string) []driver.NetRule {
	var rules []driver.NetRule
	for _, h := range hosts {
		rules = append(rules, driver.NetRule{Host: h, Ports: []int{in.port}, Private: true, Credential: credential})
	}
	return rules
}

// archive packs files as a zip, or as a compressed tar.
func archive(t *testing.T, zipped bool, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	var errs []error
	if zipped {
		zw := zip.NewWriter(&out)
		for name, text := range files {
			f, err := zw.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(f, text)
		}
		errs = append(errs, zw.Close())
	} else {
		gz := gzip.NewWriter(&out)
		tw := tar.NewWriter(gz)
		for name, text := range files {
			errs = append(errs, tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}))
			fmt.Fprint(tw, text)
		}
		errs = append(errs, tw.Close(), gz.Close())
	}
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// files serves fixed contents. Where a token is asked for, others get nothing.
func serveFiles(auth string, contents func(base string) map[string][]byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, ok := contents("https://" + r.Host)[r.URL.Path]
		switch {
		case auth != "" && r.Header.Get("Authorization") != auth:
			w.WriteHeader(http.StatusUnauthorized)
		case !ok:
			w.WriteHeader(http.StatusNotFound)
		default:
			w.Write(body)
		}
	}
}

func goModule(t *testing.T) http.HandlerFunc {
	mod := "module example.test/m\n"
	packed := archive(t, true, map[string]string{"example.test/m@v1.0.0/go.mod": mod, "example.test/m@v1.0.0/m.go": "package m\n"})
	return serveFiles("Bearer "+token, func(string) map[string][]byte {
		return map[string][]byte{
			"/example.test/m/@v/v1.0.0.info": []byte(`{"Version":"v1.0.0"}`),
			"/example.test/m/@v/v1.0.0.mod":  []byte(mod),
			"/example.test/m/@v/v1.0.0.zip":  packed,
		}
	})
}

func pythonIndex(t *testing.T) http.HandlerFunc {
	wheel := archive(t, true, map[string]string{
		"croftm.py": "x = 41 + 1\n", "croftm-1.0.dist-info/RECORD": "",
		"croftm-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: croftm\nVersion: 1.0\n",
		"croftm-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
	})
	return serveFiles("", func(string) map[string][]byte {
		return map[string][]byte{
			"/simple/croftm/":                []byte(`<!DOCTYPE html><html><body><a href="/f/croftm-1.0-py3-none-any.whl">croftm-1.0-py3-none-any.whl</a></body></html>`),
			"/f/croftm-1.0-py3-none-any.whl": wheel,
		}
	})
}

func nodeRegistry(t *testing.T) http.HandlerFunc {
	tgz := archive(t, false, map[string]string{"package/package.json": `{"name":"m","version":"1.0.0"}`, "package/index.js": "module.exports = 42\n"})
	sum := sha512.Sum512(tgz)
	return serveFiles("", func(base string) map[string][]byte {
		return map[string][]byte{
			"/m.tgz": tgz,
			"/m": fmt.Appendf(nil, `{"name":"m","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"m","version":"1.0.0","dist":{"tarball":"%s/m.tgz","integrity":"sha512-%s"}}}}`,
				base, base64.StdEncoding.EncodeToString(sum[:])),
		}
	})
}

func gitServer(t *testing.T) http.HandlerFunc {
	t.Helper()
	root := t.TempDir()
	work := filepath.Join(root, "r")
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", work}, {"-C", work, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "from the server"},
		{"clone", "-q", "--bare", work, work + ".git"},
	} {
		if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %s %v", args, out, err)
		}
	}
	path, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+token))
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != want {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}
}

// TestToolsReachWhatIsAllowed proves that what people run finds its way through
// the proxy by its environment alone: nothing inside is configured.
func TestToolsReachWhatIsAllowed(t *testing.T) {
	in := newInternet(t, map[string]http.HandlerFunc{
		"plain.test": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "reached it") },
		"api.test": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Echo", r.Header.Get("Authorization"))
			fmt.Fprintf(w, "known=%v %s", r.Header.Get("Authorization") == "Bearer "+token, r.Header.Get("Authorization"))
		},
		"git.test": gitServer(t), "mod.test": goModule(t), "pypi.test": pythonIndex(t), "npm.test": nodeRegistry(t),
	})
	p := in.provider(t, map[string]egress.Credential{"git": {Secret: "tok", User: "me"}})
	rules := append(in.allow("", "plain.test", "pypi.test", "npm.test"), in.allow("tok", "api.test", "mod.test")...)
	ws := open(t, p, policy(driver.Policy{Network: driver.Network{Allow: append(rules, in.allow("git", "git.test")...)}}))
	port := fmt.Sprint(":", in.port)
	for _, tt := range []struct{ name, program, script, want string }{
		{"curl", "curl", "curl -sS https://plain.test" + port, "reached it"},
		{"curl with a credential", "curl", "curl -sSi https://api.test" + port, "known=true Bearer [REDACTED:tok]"},
		{"curl by SOCKS", "curl", "curl -sS -x socks5h://127.0.0.1:3128 https://plain.test" + port, "reached it"},
		{"curl elsewhere", "curl", "curl -sS https://denied.test" + port + " 2>&1; true", "403"},
		{"git", "git", "git clone -q https://git.test" + port + "/r.git && git -C r log --format=%s", "from the server"},
		{"go", "go", "GOPROXY=https://mod.test" + port + " GONOSUMDB='*' GOFLAGS=-modcacherw GOTOOLCHAIN=local go mod download -json example.test/m@v1.0.0", `"GoMod"`},
		{"pip", "/usr/bin/pip3", "/usr/bin/pip3 --disable-pip-version-check --isolated install -q --no-cache-dir --target out --index-url https://pypi.test" + port + "/simple/ croftm && PYTHONPATH=out /usr/bin/python3 -c 'import croftm; print(croftm.x)'", "42"},
		{"requests", "/usr/bin/pip3", "/usr/bin/python3 -c 'from pip._vendor import requests; print(requests.get(\"https://api.test" + port + "\").text)'", "known=true"},
		{"urllib", "/usr/bin/python3", "/usr/bin/python3 -c 'import urllib.request as u; print(u.urlopen(\"https://plain.test" + port + "\").read())'", "reached it"},
		{"npm", "npm", "npm install --no-audit --no-fund --no-update-notifier --registry=https://npm.test" + port + "/ m && node -e 'console.log(require(\"m\"))'", "42"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if path, err := exec.LookPath(tt.program); err != nil || !strings.HasPrefix(path, "/usr/") {
				t.Skipf("skipped: host: it lacks %s below /usr", tt.program)
			}
			res := script(t, ws, tt.script)
			all := string(res.Stdout) + string(res.Stderr)
			if res.ExitCode != 0 || !strings.Contains(all, tt.want) {
				t.Errorf("exit status %d, %q; want %q", res.ExitCode, all, tt.want)
			}
			if strings.Contains(all, token) {
				t.Error("the secret came out")
			}
		})
	}
}

// TestAuthorityChangesWhileItRuns proves that a credential that is added later
// works for what runs already.
func TestAuthorityChangesWhileItRuns(t *testing.T) {
	in := newInternet(t, map[string]http.HandlerFunc{"api.test": func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "known=%v", r.Header.Get("Authorization") == "Bearer "+token)
	}})
	p := in.provider(t, nil)
	ws := open(t, p, policy(driver.Policy{Network: driver.Network{Allow: in.allow("", "api.test")}}))
	url := fmt.Sprintf("https://api.test:%d", in.port)
	if got := output(t, ws, "curl -sS "+url); got != "known=false" {
		t.Fatalf("without a credential: %q", got)
	}
	before := guestOf(t, p, ws)
	if _, err := ws.Life.Update(t.Context(), driver.Policy{Network: driver.Network{Allow: in.allow("tok", "api.test")}}); err != nil {
		t.Fatal(err)
	}
	if got := output(t, ws, "curl -sS "+url); got != "known=true" {
		t.Errorf("with a credential: %q", got)
	}
	if after := guestOf(t, p, ws); after.PID != before.PID {
		t.Error("what ran was ended")
	}
	if got := output(t, ws, "touch /run/croft/x 2>/dev/null || echo refused"); got != "refused" {
		t.Errorf("the roots can be changed from inside: %q", got)
	}
}
