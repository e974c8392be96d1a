package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// clientHello returns the bytes of a real TLS hello.
func clientHello(t testing.TB, name string) []byte {
	t.Helper()
	tape := &outTape{}
	_ = tls.Client(tape, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
	return tape.out.Bytes()
}

type outTape struct {
	recordingConn
	out bytes.Buffer
}

func (o *outTape) Read([]byte) (int, error)    { return 0, io.EOF }
func (o *outTape) Write(p []byte) (int, error) { return o.out.Write(p) }

// withExtension adds an extension at the end of a hello of one record.
func withExtension(b []byte, kind uint16, data []byte) []byte {
	b = bytes.Clone(b[:5+int(binary.BigEndian.Uint16(b[3:5]))])
	at := 5 + 4 + 2 + 32
	at += 1 + int(b[at])                           // session
	at += 2 + int(binary.BigEndian.Uint16(b[at:])) // suites
	at += 1 + int(b[at])                           // compression
	n := binary.BigEndian.Uint16(b[at:])           // extensions
	add := binary.BigEndian.AppendUint16(nil, kind)
	add = append(binary.BigEndian.AppendUint16(add, uint16(len(data))), data...)
	binary.BigEndian.PutUint16(b[at:], n+uint16(len(add)))
	b = append(b, add...)
	binary.BigEndian.PutUint16(b[3:], uint16(len(b)-5))
	b[6], b[7], b[8] = 0, byte((len(b)-9)>>8), byte(len(b)-9)
	return b
}

// inRecords spreads a hello over records of n bytes.
func inRecords(b []byte, n int) []byte {
	var out []byte
	for body := b[5:]; len(body) > 0; {
		m := min(n, len(body))
		out = append(out, 0x16, 3, 1, byte(m>>8), byte(m))
		out = append(out, body[:m]...)
		body = body[m:]
	}
	return out
}

func TestReadHello(t *testing.T) {
	plain := clientHello(t, "a.test")
	for name, tt := range map[string]struct {
		in   []byte
		want string
		ech  bool
		err  string
	}{
		"plain":    {in: plain, want: "a.test"},
		"spread":   {in: inRecords(plain, 7), want: "a.test"},
		"no name":  {in: clientHello(t, "")},
		"old ESNI": {in: withExtension(plain, 0xffce, []byte{1, 2, 3}), want: "a.test", ech: true},
		"http":     {in: []byte("GET / HTTP/1.1\r\n\r\n"), err: "it is not TLS"},
		"cut":      {in: plain[:40], err: "the client ended it before it began"},
		"empty":    {err: "the client ended it before it began"},
		"garbage":  {in: append([]byte{0x16, 3, 1, 0, 40}, make([]byte, 40)...), err: "its TLS hello is malformed or did not come in time"},
		"two names": {in: withExtension(plain, 0, []byte{0, 9, 0, 0, 6, 'b', '.', 't', 'e', 's', 't'}),
			err: "its TLS hello is malformed or did not come in time"},
	} {
		h, err := readHello(t.Context(), bytes.NewReader(tt.in))
		if tt.err != "" {
			if err == nil || err.Error() != tt.err {
				t.Errorf("%s: %v, want %q", name, err, tt.err)
			}
			continue
		}
		if err != nil || h.name != tt.want || h.ech != tt.ech || !bytes.HasPrefix(tt.in, h.raw) {
			t.Errorf("%s: %q %v %v, want %q %v", name, h.name, h.ech, err, tt.want, tt.ech)
		}
	}
}

func TestClassify(t *testing.T) {
	for a, want := range map[string]class{
		"8.8.8.8": public, "93.184.216.34": public, "2606:4700:4700::1111": public, "172.32.0.1": public, "100.128.0.1": public,
		"10.0.0.1": private, "172.16.0.1": private, "172.31.255.255": private, "192.168.0.1": private,
		"127.0.0.1": loopback, "127.255.255.254": loopback, "::1": loopback, "::ffff:127.0.0.1": loopback, "::127.0.0.1": loopback,
		"169.254.169.254": metadata, "::ffff:169.254.169.254": metadata, "::ffff:a9fe:a9fe": metadata,
		"64:ff9b::169.254.169.254": metadata, "64:ff9b::a9fe:a9fe": metadata, "2002:a9fe:a9fe::1": metadata,
		"fd00:ec2::254": metadata, "::169.254.169.254": metadata, "2001:470::5efe:a9fe:a9fe": metadata, "100.100.100.200": metadata,
		"168.63.129.16": metadata, "64:ff9b::a83f:8110": metadata, "192.0.0.192": metadata, "fd00:42::42": metadata, "169.254.42.42": metadata,
		"64:ff9b::10.0.0.1": private, "2002:a00:1::": private, "2002:7f00:1::": loopback, "64:ff9b::8.8.8.8": public, "2002:808:808::": public,
		"64:ff9b:1::1": notPublic, "169.254.1.1": linkLocal, "fe80::1": linkLocal, "fe80::1%eth0": linkLocal, "fec0::1": private, "fc00::1": private, "fd12::1": private,
		"100.64.0.1": carrierShared, "100.127.255.255": carrierShared,
		"0.0.0.0": notPublic, "0.1.2.3": notPublic, "::": notPublic, "224.0.0.1": notPublic, "239.255.255.250": notPublic, "255.255.255.255": notPublic,
		"240.0.0.1": notPublic, "ff02::1": notPublic, "198.18.0.1": notPublic, "192.0.2.1": notPublic, "192.0.0.8": notPublic, "203.0.113.9": notPublic,
		"2001:db8::1": notPublic, "2001::1": notPublic, "100::1": notPublic, "4000::1": notPublic, "5f00::1": notPublic, "3fff::1": notPublic,
	} {
		if got := classify(netip.MustParseAddr(a)); got != want {
			t.Errorf("classify(%s) = %q, want %q", a, got, want)
		}
	}
}

func TestOwnAddressIsRefused(t *testing.T) {
	ours := func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.ParseIP(addrA), Mask: net.CIDRMask(24, 32)}}, nil
	}
	w := newWorld(t, allow("a.test", "b.test"), func(o *Options) { o.LocalAddrs = ours })
	w.host("a.test", addrA, hello200)
	w.host("b.test", addrB, hello200)
	for u, want := range map[string]int{"http://a.test/": 403, "http://b.test/": 200} {
		if got, body, _ := w.get(u, nil); got != want {
			t.Errorf("%s: %d %s", u, got, body)
		}
	}
}

func TestJudge(t *testing.T) {
	rs, err := compileRules(driver.Network{
		Allow: []driver.NetRule{
			{Host: "exact.test"}, {Host: "*.wild.test"}, {Host: "port.test", Ports: []int{8080}},
			{Host: "get.test", Methods: []string{"GET"}}, {Host: "tunnel.test", Methods: []string{"connect"}},
			{Host: "*.cred.test"}, {Host: "api.cred.test", Credential: "tok"}, {Host: "203.0.113.0/24"}, {Host: "2606::1"},
			{Host: "mixed.test"},
		},
		Deny: []driver.NetRule{{Host: "bad.wild.test"}, {Host: "*.bad.wild.test"}, {Host: "203.0.113.7"}, {Host: "mixed.test", Methods: []string{"DELETE"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		to, method string
		want       bool
		cred       string
	}{
		{"exact.test:443", "CONNECT", true, ""}, {"exact.test:80", "GET", true, ""}, {"exact.test:8080", "GET", false, ""},
		{"EXACT.test.:443", "CONNECT", true, ""}, {"sub.exact.test:443", "CONNECT", false, ""}, {"xexact.test:443", "CONNECT", false, ""},
		{"exact.test.evil.test:443", "CONNECT", false, ""},
		{"a.wild.test:443", "CONNECT", true, ""}, {"a.b.wild.test:443", "CONNECT", true, ""}, {"wild.test:443", "CONNECT", false, ""},
		{"awild.test:443", "CONNECT", false, ""}, {"bad.wild.test:443", "CONNECT", false, ""}, {"x.bad.wild.test:80", "GET", false, ""},
		{"port.test:8080", "GET", true, ""}, {"port.test:443", "CONNECT", false, ""},
		{"get.test:80", "GET", true, ""}, {"get.test:80", "POST", false, ""}, {"get.test:443", "CONNECT", false, ""},
		{"tunnel.test:443", "CONNECT", true, ""}, {"tunnel.test:80", "GET", false, ""},
		{"api.cred.test:443", "GET", true, "tok"}, {"www.cred.test:443", "GET", true, ""},
		{"203.0.113.6:80", "GET", true, ""}, {"203.0.113.7:80", "GET", false, ""}, {"[2606::1]:443", "CONNECT", true, ""}, {"[2606::2]:443", "CONNECT", false, ""},
		{"[::ffff:203.0.113.6]:80", "GET", true, ""},
		{"mixed.test:80", "GET", true, ""}, {"mixed.test:80", "DELETE", false, ""}, {"mixed.test:443", "CONNECT", false, ""},
	} {
		to, err := splitTarget(tt.to, 0)
		if err != nil {
			t.Fatal(err)
		}
		if v := rs.checkRequest(to, tt.method); v.allowed != tt.want || v.credential != tt.cred || !v.allowed && v.reason == "" {
			t.Errorf("judge(%s %s) = %+v, want %v %q", tt.method, tt.to, v, tt.want, tt.cred)
		}
	}
}

func TestBadRules(t *testing.T) {
	for _, n := range []driver.Network{
		allow(""), allow("a b"), allow("http://a.test"), allow("a.test:443"), allow("*.*.test"), allow("a.*.test"), allow("é.test"),
		allow("1.2.3"), allow("10.0.0.0/33"), allow("fe80::1%eth0"), allow("-", "0x7f.0x1"), allow(strings.Repeat("a", 64) + ".test"),
		{Allow: []driver.NetRule{{Host: "a.test", Ports: []int{0}}}},
		{Allow: []driver.NetRule{{Host: "a.test", Ports: []int{65536}}}},
		{Allow: []driver.NetRule{{Host: "a.test", Methods: []string{"G T"}}}},
		{Allow: []driver.NetRule{{Host: "*.a.test", Private: true}}},
		{Allow: []driver.NetRule{{Host: "*", Credential: "x"}}},
		{Deny: []driver.NetRule{{Host: "a.test", Credential: "x"}}},
	} {
		if _, err := compileRules(n); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("compile(%+v) = %v", n, err)
		}
	}
}

func TestSmuggling(t *testing.T) {
	w := newWorld(t, allow("a.test"), nil)
	w.host("a.test", addrA, hello200)
	const line = "POST http://a.test/ HTTP/1.1\r\n"
	for name, tt := range map[string]string{
		"length and encoding": line + "Host: a.test\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"two lengths":         line + "Host: a.test\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
		"same length twice":   line + "Host: a.test\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
		"list of lengths":     line + "Host: a.test\r\nContent-Length: 5, 5\r\n\r\nhello",
		"signed length":       line + "Host: a.test\r\nContent-Length: +5\r\n\r\nhello",
		"other encoding":      line + "Host: a.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"hidden encoding":     line + "Host: a.test\r\nTransfer-Encoding: xchunked\r\n\r\n",
		"tab encoding":        line + "Host: a.test\r\nTransfer-Encoding:\vchunked\r\n\r\n",
		"space before colon":  line + "Host: a.test\r\nContent-Length : 5\r\n\r\nhello",
		"folded":              line + "Host: a.test\r\nX: a\r\n b\r\n\r\n",
		"bare line feed":      line + "Host: a.test\r\nX: a\nTransfer-Encoding: chunked\r\n\r\n",
		"bare return":         line + "Host: a.test\r\nX: a\rY: b\r\n\r\n",
		"null":                line + "Host: a.test\r\nX: \x00\r\n\r\n",
		"two hosts":           line + "Host: a.test\r\nHost: b.test\r\n\r\n",
		"no host":             line + "\r\n",
		"other host":          line + "Host: b.test\r\n\r\n",
		"other port":          line + "Host: a.test:8080\r\n\r\n",
		"user":                "GET http://a.test@b.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n",
		"not absolute":        "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"https":               "GET https://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"spaces in line":      "GET http://a.test/ x HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"version":             "GET http://a.test/ HTTP/2.0\r\nHost: a.test\r\n\r\n",
		"encoding in 1.0":     "POST http://a.test/ HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"connect host":        "CONNECT a.test:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n",
		"connect path":        "CONNECT /x HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"trace":               "TRACE http://a.test/ HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n",
	} {
		got := w.talk(tt)
		if !strings.HasPrefix(got, "HTTP/1.1 400 ") && (name != "trace" || !strings.HasPrefix(got, "HTTP/1.1 403 ")) || strings.Count(got, "HTTP/1.1 4") != 1 {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if got := w.talk(line + "Host: a.test\r\nX: " + strings.Repeat("x", 40<<10) + "\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 429 ") {
		t.Errorf("a long head: %.100q", got)
	}
	if d := w.dialed(); d != nil {
		t.Errorf("dialed %v", d)
	}
}

func TestMessagesAreWrittenAnew(t *testing.T) {
	w := newWorld(t, allow("a.test"), nil)
	w.names["a.test"] = []string{addrA}
	got := make(chan string, 9)
	w.raw(addrA+":80", func(c net.Conn) {
		br := bufio.NewReader(c)
		for {
			b, err := peekHead(br)
			if err != nil {
				return
			}
			got <- string(b)
			_, _ = br.Discard(len(b))
			fmt.Fprint(c, "HTTP/1.1 200 Fine\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: x\r\nAlt-Svc: h3\r\nX-Keep: 1\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	answer := w.talk("GET http://a.test/1 HTTP/1.1\r\nHost: a.test\r\nConnection: X-Secret-Hop, close\r\nX-Secret-Hop: 1\r\n" +
		"Proxy-Authorization: Basic eA==\r\nProxy-Connection: keep-alive\r\nTE: trailers\r\nUpgrade: websocket\r\nX-End: 1\r\n\r\n")
	if want := "GET /1 HTTP/1.1\r\nHost: a.test\r\nX-End: 1\r\n\r\n"; <-got != want {
		t.Errorf("the server did not get %q", want)
	}
	if want := "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\nX-Keep: 1\r\n\r\nok"; answer != want {
		t.Errorf("the client got %q, want %q", answer, want)
	}
	// Two requests that come at once are two requests, each judged.
	answer = w.talk("GET http://a.test/1 HTTP/1.1\r\nHost: a.test\r\n\r\nGET http://b.test/2 HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n")
	if !strings.HasPrefix(answer, "HTTP/1.1 200 ") || !strings.Contains(answer, "okHTTP/1.1 403 ") {
		t.Errorf("the client got %q", answer)
	}
}

// A hello for a.test. Seeds must be the same in every process of the fuzzer.
const fixedHello = "16030100c1010000bd030322f140eb4473f3e9e52a1cb2b937bb47f01accbb3756f14e758af17c18c0481520eb100fdfb4310777402b9408c573de70" +
	"71a484c0016b2599f796bbe3c5c9d2ed0002c02b010000720000000b0009000006612e74657374000b00020100ff0100010000170000001200000005" +
	"00050100000000000a00040002001d000d0016001408040403080708050806040105010601050306030032001a001808040403080708050806040105" +
	"0106010503060302010203002b0003020303"

func FuzzHello(f *testing.F) {
	plain, err := hex.DecodeString(fixedHello)
	if err != nil {
		f.Fatal(err)
	}
	if h, err := readHello(context.Background(), bytes.NewReader(plain)); err != nil || h.name != "a.test" {
		f.Fatalf("%q %v", h.name, err)
	}
	f.Add(plain)
	f.Add(inRecords(plain, 9))
	f.Add(withExtension(plain, 0xfe0d, []byte{0}))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHello(context.Background(), bytes.NewReader(b))
		if !bytes.HasPrefix(b, h.raw) {
			t.Error("what was read is not what is passed on")
		}
		if err == nil && h.name != "" && !bytes.Contains(bytes.ToLower(b), []byte(h.name[:1])) {
			t.Errorf("the name %q is not in the hello", h.name)
		}
	})
}

func FuzzSOCKS(f *testing.F) {
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x03\x06a.test\x01\xbb"))
	f.Add([]byte("\x05\x02\x00\x02\x05\x01\x00\x04" + strings.Repeat("\x00", 15) + "\x01\x01\xbb"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		if ok, err := readSOCKSGreeting(r); !ok || err != nil {
			return
		}
		to, _, err := readSOCKSRequest(r)
		if err != nil {
			return
		}
		if again, err := splitTarget(to.String(), 0); err != nil || again != to {
			t.Errorf("%v reads back as %v, %v", to, again, err)
		}
	})
}

func FuzzHead(f *testing.F) {
	f.Add([]byte("GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		br := bufio.NewReaderSize(bytes.NewReader(b), 4096)
		raw, err := peekHead(br)
		if err != nil {
			return
		}
		h, err := parseHead(raw)
		if err != nil {
			return
		}
		if h.method == "" || h.uri == "" || strings.ContainsAny(h.host, "\r\n\x00") {
			t.Errorf("%q was read as %+v", raw, h)
		}
	})
}

func FuzzRules(f *testing.F) {
	f.Add("*.a.test", "b.a.test", 443)
	f.Add("10.0.0.0/8", "10.1.2.3", 80)
	f.Add("a.test", "A.TEST.", 80)
	f.Add("*", "10.1.2.3", 80)
	f.Fuzz(func(t *testing.T, rule, host string, port int) {
		rs, err := compileRules(allow(rule))
		if err != nil {
			if fault.Of(err) != fault.InvalidArgument {
				t.Errorf("compile(%q) = %v", rule, err)
			}
			return
		}
		to, err := parseTarget(host, port)
		if err != nil || !rs.checkRequest(to, methodTunnel).allowed {
			return
		}
		if to.port != 80 && to.port != 443 {
			t.Errorf("rule %q allows the port of %v", rule, to)
		}
		r, h := strings.TrimSuffix(strings.ToLower(rule), "."), to.host()
		base, wild := strings.CutPrefix(r, "*.")
		switch {
		case to.name == "": // an address: the rule must be one, a range, or "*", which reaches the public internet alone
			private := classify(to.addr) != public && rs.refuseAddr(to, to.addr, func(netip.Addr) bool { return false }) == ""
			if !rs.allow[0].prefix.Contains(to.addr) && (r != "*" || private) {
				t.Errorf("rule %q allows %v", rule, to)
			}
		case r == "*", !wild && r == h, wild && strings.HasSuffix(h, "."+base):
		default:
			t.Errorf("rule %q allows %v", rule, to)
		}
		if why := rs.refuseAddr(to, netip.MustParseAddr("169.254.169.254"), func(netip.Addr) bool { return false }); why == "" && to.name != "" {
			t.Errorf("rule %q lets %v be the metadata service", rule, to)
		}
	})
}

// TestAllPublicAddresses: the rule "*" allows public addresses, less those that are denied, and
// no address that has to be named.
func TestAllPublicAddresses(t *testing.T) {
	policy := allow("*")
	policy.Deny = []driver.NetRule{{Host: "9.9.9.9"}}
	rs, err := compileRules(policy)
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1111": true, "9.9.9.9": false,
		"10.1.2.3": false, "127.0.0.1": false, "169.254.169.254": false, "::1": false, "fd00::1": false, "::ffff:10.0.0.1": false,
	} {
		to, err := parseTarget(host, 443)
		if err != nil {
			t.Fatal(err)
		}
		if got := rs.checkRequest(to, methodTunnel).allowed && rs.refuseAddr(to, to.addr, func(netip.Addr) bool { return false }) == ""; got != want {
			t.Errorf("%s is allowed: %v, want %v", host, got, want)
		}
	}
}
