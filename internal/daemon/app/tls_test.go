package app_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/app"
)

// writeCertificate writes a self-signed certificate for 127.0.0.1 with a serial number.
func writeCertificate(t *testing.T, dir string, serial int64) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "croft test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
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

// A changed certificate is served without a restart; a broken one leaves the one of before.
func TestCertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	cert, key := writeCertificate(t, dir, 1)
	certificate, err := app.LoadCertificate(cert, key, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(certificate.Listener(l)) }()
	t.Cleanup(func() { server.Close(); <-served })

	connect := func() (serial int64, protocol string) {
		t.Helper()
		d := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}} //nolint:gosec // self-signed
		conn, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		state := conn.(*tls.Conn).ConnectionState()
		return state.PeerCertificates[0].SerialNumber.Int64(), state.NegotiatedProtocol
	}
	if serial, protocol := connect(); serial != 1 || protocol != "h2" {
		t.Errorf("serial %d, protocol %q; want 1, h2", serial, protocol)
	}
	writeCertificate(t, dir, 2)
	if err := certificate.Reload(); err != nil {
		t.Fatal(err)
	}
	if serial, _ := connect(); serial != 2 {
		t.Errorf("after a reload the serial is %d, want 2", serial)
	}
	writeCertificate(t, dir, 3)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if serial, _ := connect(); serial == 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the changed certificate was not read")
		}
	}
	if err := os.WriteFile(cert, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := certificate.Reload(); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("a broken certificate: %v, want InvalidArgument", err)
	}
	if serial, _ := connect(); serial != 3 {
		t.Errorf("after a failed reload the serial is %d, want 3", serial)
	}
}
