package egress

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"slices"
	"testing"

	"github.com/croft-run/croft/internal/testenv"
)

// TestAttackSecondHello sends a ClientHello for the host, and then one for another: a
// server that asked for it with a HelloRetryRequest takes the name from the second.
func TestAttackSecondHello(t *testing.T) {
	testenv.ReportAttack(t, "TLS server name of another host after a HelloRetryRequest", "egress proxy", testenv.Prevented, "")
	good, evil := clientHello(t, "a.test"), clientHello(t, "evil.test")
	ccs := []byte{recordChangeCipherSpec, 3, 3, 0, 1, 1}
	early := []byte{23, 3, 3, 0, 3, 'x', 'y', 'z'}
	half := inRecords(evil, 100)
	first := recordHeader + 100
	for name, sent := range map[string][]byte{
		"at once":         slices.Concat(good, evil),
		"after CCS":       slices.Concat(good, ccs, evil),
		"after data":      slices.Concat(good, early, evil),
		"in pieces":       slices.Concat(good, ccs, inRecords(evil, 1)),
		"around CCS":      slices.Concat(good, half[:first], ccs, half[first:]),
		"third":           slices.Concat(good, ccs, good, evil),
		"empty record":    slices.Concat(good, ccs, []byte{recordHandshake, 3, 3, 0, 0}, evil),
		"behind a finish": slices.Concat(good, []byte{recordHandshake, 3, 3, 0, 5, 20, 0, 0, 1, 0}, evil),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, allow("a.test"), nil)
			w.names["a.test"] = []string{addrA}
			got := make(chan []byte, 1)
			w.raw(addrA+":443", func(c net.Conn) { b, _ := io.ReadAll(c); got <- b })
			c, _, status := w.open("a.test:443")
			if status != 200 {
				t.Fatal(status)
			}
			c.Write(sent) // the proxy may have closed it
			io.ReadAll(c) // likewise
			all := <-got  // until the proxy closed the connection
			if bytes.Contains(all, []byte("evil.test")) || len(all) >= len(sent) || !bytes.HasPrefix(sent, all) {
				t.Errorf("the server received %d of %d bytes", len(all), len(sent))
			}
			if f := w.events(1)[0]; f["verdict"] != "deny" {
				t.Errorf("event %v", f)
			}
		})
	}
}

// TestHandshakesPass makes handshakes of each version, with a HelloRetryRequest and
// without, and sends data.
func TestHandshakesPass(t *testing.T) {
	for name, tt := range map[string]struct {
		version uint16
		curve   tls.CurveID // the only one of the server
	}{
		"1.2":                    {tls.VersionTLS12, tls.X25519},
		"1.3":                    {tls.VersionTLS13, tls.X25519},
		"1.3, HelloRetryRequest": {tls.VersionTLS13, tls.CurveP521},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, allow("a.test"), nil)
			w.names["a.test"] = []string{addrA}
			ca, err := newAuthority("internet", []string{"a.test"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			w.roots.AddCert(ca.cert)
			leaf, err := ca.signLeaf(target{name: "a.test"})
			if err != nil {
				t.Fatal(err)
			}
			w.raw(addrA+":443", func(c net.Conn) {
				s := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{*leaf}, CurvePreferences: []tls.CurveID{tt.curve}})
				io.Copy(s, s)  // the client compares
				s.CloseWrite() // likewise
			})
			c, br, _ := w.open("a.test:443")
			conn := tls.Client(&replayConn{c, br}, &tls.Config{
				RootCAs: w.roots, ServerName: "a.test", MinVersion: tt.version, MaxVersion: tt.version, CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP521},
			})
			data := bytes.Repeat([]byte("0123456789"), 100_000)
			go func() {
				conn.Write(data)  // what comes back is compared
				conn.CloseWrite() // likewise
			}()
			got, err := io.ReadAll(conn)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes of %d came back: %v", len(got), len(data), err)
			}
			if again := conn.ConnectionState().HelloRetryRequest; again != (tt.curve == tls.CurveP521) {
				t.Errorf("HelloRetryRequest: %v", again)
			}
		})
	}
}
