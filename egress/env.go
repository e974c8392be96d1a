package egress

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/croft-run/croft/fault"
)

// Env returns the variables by which programs in a workspace find the proxy at
// a loopback port there. bundle is the path, in the workspace, of a file with
// the roots that they trust, made by Bundle; "" leaves theirs alone.
//
// ALL_PROXY is the proxy by HTTP although SOCKS5 is served at the same port: a
// program in Python that finds a SOCKS proxy there, and has no library for it,
// ends with an error even where it would have used another variable.
func Env(port int, bundle string) map[string]string {
	at := "127.0.0.1:" + strconv.Itoa(port)
	env := map[string]string{
		"HTTP_PROXY":         "http://" + at,
		"HTTPS_PROXY":        "http://" + at,
		"ALL_PROXY":          "http://" + at,
		"NO_PROXY":           "localhost,127.0.0.1,::1",
		"NODE_USE_ENV_PROXY": "1", // Node's fetch looks at the others only then
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"} {
		env[strings.ToLower(name)] = env[name]
	}
	if bundle != "" {
		// npm_config_cafile: a file that the host's npmrc names would win over Node's.
		for _, name := range []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "PIP_CERT",
			"GIT_SSL_CAINFO", "CURL_CA_BUNDLE", "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "DENO_CERT", "npm_config_cafile"} {
			env[name] = bundle
		}
	}
	return env
}

// Bundle returns the roots of the system together with the workspace's own
// authorities: most programs that are given a file of roots trust no others.
func (p *Proxy) Bundle(system []byte) []byte {
	return append(append(bytes.TrimRight(bytes.Clone(system), "\n"), '\n'), p.CAPEM()...)
}

// rootFiles is where systems keep their roots as one file.
var rootFiles = []string{
	"/etc/ssl/certs/ca-certificates.crt", // Debian, Ubuntu, Arch, Alpine
	"/etc/pki/tls/certs/ca-bundle.crt",   // Fedora, Red Hat
	"/etc/ssl/ca-bundle.pem",             // SUSE
	"/etc/ssl/cert.pem",                  // Alpine, macOS
}

// SystemRoots returns the roots of this host, for Bundle.
func SystemRoots() ([]byte, error) {
	files := rootFiles
	if name := os.Getenv("SSL_CERT_FILE"); name != "" { // as this process itself is told
		files = []string{name}
	}
	for _, name := range files {
		if data, err := os.ReadFile(name); err == nil {
			return data, nil
		}
	}
	return nil, fmt.Errorf("egress: read the roots of the system: %w: there is none of %s", fault.NotFound, strings.Join(files, ", "))
}
