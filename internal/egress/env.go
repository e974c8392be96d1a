package egress

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/croft-run/croft/fault"
)

// Env returns the environment variables by which programs in a workspace find the proxy at a
// loopback port. bundle is the path, in the workspace, of a file with the root certificates
// that they trust, made by Bundle; "" leaves their defaults.
//
// ALL_PROXY names the HTTP proxy although the port serves SOCKS5, too: Python programs
// without a SOCKS library fail on a SOCKS address, even if they use another variable.
func Env(port int, bundle string) map[string]string {
	at := "127.0.0.1:" + strconv.Itoa(port)
	env := map[string]string{
		"HTTP_PROXY":         "http://" + at,
		"HTTPS_PROXY":        "http://" + at,
		"ALL_PROXY":          "http://" + at,
		"NO_PROXY":           "localhost,127.0.0.1,::1",
		"NODE_USE_ENV_PROXY": "1", // makes Node's fetch read the other variables
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"} {
		env[strings.ToLower(name)] = env[name]
	}
	if bundle != "" {
		// npm_config_cafile: otherwise a file in the host's npmrc would override Node's.
		for _, name := range []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "PIP_CERT",
			"GIT_SSL_CAINFO", "CURL_CA_BUNDLE", "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "DENO_CERT", "npm_config_cafile"} {
			env[name] = bundle
		}
	}
	return env
}

// Bundle returns the root certificates of the system and of the workspace's own authorities:
// most programs trust only the roots in the given file.
func (p *Proxy) Bundle(system []byte) []byte {
	return append(append(bytes.TrimRight(bytes.Clone(system), "\n"), '\n'), p.CAPEM()...)
}

// rootFiles are the usual paths of the system's root certificates as one file.
var rootFiles = []string{
	"/etc/ssl/certs/ca-certificates.crt", // Debian, Ubuntu, Arch, Alpine
	"/etc/pki/tls/certs/ca-bundle.crt",   // Fedora, Red Hat
	"/etc/ssl/ca-bundle.pem",             // SUSE
	"/etc/ssl/cert.pem",                  // Alpine, macOS
}

// SystemRoots returns the root certificates of this host, for Bundle.
func SystemRoots() ([]byte, error) {
	files := rootFiles
	if name := os.Getenv("SSL_CERT_FILE"); name != "" { // this process itself uses it
		files = []string{name}
	}
	for _, name := range files {
		if data, err := os.ReadFile(name); err == nil {
			return data, nil
		}
	}
	return nil, fmt.Errorf("egress: read the root certificates of the system: %w: none of these files exists: %s; set SSL_CERT_FILE", fault.NotFound, strings.Join(files, ", "))
}
