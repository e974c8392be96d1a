package daemon_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/workspace/driver"
)

// writeAuthority writes a certificate, for an address, that is its own authority, and its key.
func writeAuthority(t *testing.T, dir, ip string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP(ip)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: encoded}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// TestReplicasWithTLS forward over TLS, and only to a replica whose certificate is valid.
func TestReplicasWithTLS(t *testing.T) {
	f := prepareFleet(t, testenv.NeedsPostgres(t))
	address, err := testenv.Loopback() // the replicas have the same IP address
	if err != nil {
		t.Fatal(err)
	}
	ip, _, _ := net.SplitHostPort(address)
	cert, key := writeAuthority(t, f.dir, ip)
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	transport := f.http.Transport.(*http.Transport)
	transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	f.scheme, f.env = "https", []string{"CROFT_TLS_CERT=" + cert, "CROFT_TLS_KEY=" + key, "SSL_CERT_FILE=" + cert}
	a, b := f.start("a"), f.start("b")
	id := f.open(a, testshell.Kind, "w")
	f.do("PUT", b, filePath(id, "f"), "over TLS", nil)
	if got := f.do("GET", b, filePath(id, "f"), "", nil); got != "over TLS" {
		t.Errorf("read %q", got)
	}
	c, err := client.NewClient(client.Config{URL: b.url, Token: replicaToken, Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ws, _, err := c.Attach(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := ws.Shell.Run(t.Context(), driver.Command{Argv: []string{"cat", "f"}}); err != nil || string(res.Stdout) != "over TLS" { // a WebSocket
		t.Errorf("run: %q, %v", res.Stdout, err)
	}

	// A replica forwards no request to a server whose certificate it does not trust.
	other := t.TempDir()
	cert, key = writeAuthority(t, other, ip)
	wrong, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots.AppendCertsFromPEM(wrong) // the client's
	f.env = []string{"CROFT_TLS_CERT=" + cert, "CROFT_TLS_KEY=" + key, "SSL_CERT_FILE=" + cert}
	far := f.open(f.start("c"), testshell.Kind, "far")
	status, answer := f.try("GET", a, filePath(far, "f"), "", nil)
	if status != http.StatusServiceUnavailable || !strings.Contains(answer, "node c does not answer") {
		t.Errorf("a replica with another certificate: %d %s; want 503", status, answer)
	}
	waitFor(t, "the reason in the log of node a", func() bool { return strings.Contains(a.log.String(), "certificate signed by unknown authority") })
}
