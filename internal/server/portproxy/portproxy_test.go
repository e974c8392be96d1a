package portproxy_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/croft-run/croft/internal/server/portproxy"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func TestMain(m *testing.M) { testshell.Main(m) }

// server is a program with HTTP and WebSocket, which prints its port.
const server = `
const http = require('http'), crypto = require('crypto');
const s = http.createServer((req, res) => {
  if (req.url.startsWith('/headers')) {
    res.setHeader('X-From-Inside', 'yes');
    return res.end(JSON.stringify({url: req.url, method: req.method, raw: req.rawHeaders}));
  }
  if (req.url === '/stream') {
    res.write('first\n');
    return req.on('data', d => res.end(d)); // the second line comes after the client has read the first
  }
  if (req.url === '/echo') { res.setHeader('Content-Encoding', 'identity'); return req.pipe(res); }
  if (req.url === '/break') { res.setHeader('Content-Length', '1000'); res.write('part'); return setTimeout(() => req.socket.destroy(), 50); }
  res.statusCode = 404; res.end('no such page');
});
s.on('upgrade', (req, sock) => {
  const key = crypto.createHash('sha1').update(req.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64');
  sock.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ' + key + '\r\n\r\n');
  sock.on('data', f => { // one short masked text frame
    const n = f[1] & 127, mask = f.subarray(2, 6), out = Buffer.alloc(n);
    for (let i = 0; i < n; i++) out[i] = f[6 + i] ^ mask[i % 4];
    if ((f[0] & 15) === 8) return sock.end(Buffer.concat([Buffer.from([0x88, n]), out]));
    const text = Buffer.concat([Buffer.from('echo '), out]);
    sock.write(Buffer.concat([Buffer.from([0x81, text.length]), text]));
  });
  sock.on('error', () => {});
});
s.listen(0, '127.0.0.1', () => console.log(s.address().port));
`

// proxied starts the program in a workspace, and a proxy of it.
func proxied(t *testing.T, change func(*portproxy.Target)) (proxy *httptest.Server, ws *workspace.Workspace, port int) {
	t.Helper()
	p, _ := testshell.NewProvider(t, "sandbox")
	spec := driver.Spec{ID: driver.NewID(), Kind: p.Kind()}
	d, err := p.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if ws, err = workspace.New(spec.ID, d, nil, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Destroy(context.WithoutCancel(t.Context())) })
	if res, err := ws.Run(t.Context(), driver.Command{Script: "command -v node"}); err != nil || res.ExitCode != 0 {
		t.Skip("skipped: host: node is not installed")
	}
	lines := make(chan string, 16)
	_, err = ws.Start(t.Context(), driver.Command{
		Argv: []string{"node", "-e", server}, Detached: true,
		OnStdout: func(data []byte) error { lines <- string(data); return nil },
		OnStderr: func(data []byte) error { t.Logf("node: %s", data); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case line := <-lines:
		if port, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
			t.Fatal(err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the program does not listen")
	}
	target := portproxy.Target{ID: "sandbox1", Port: port, Dial: ws.Dial}
	if change != nil {
		change(&target)
	}
	proxy = httptest.NewServer(portproxy.Handler(target))
	t.Cleanup(proxy.Close)
	return proxy, ws, port
}

func TestRequests(t *testing.T) {
	proxy, ws, port := proxied(t, func(t *portproxy.Target) {
		t.Host = "localhost:${PORT}"
		t.Credentials = []string{"X-API-KEY", "X-Access-Token"}
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, proxy.URL+"/headers/a%2Fb?q=1;2&x=%zz", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"X-API-KEY": "secret", "X-Access-Token": "secret", "E2b-Sandbox-Id": "secret", "E2b-Sandbox-Port": "secret",
		"E2B-Traffic-Access-Token": "secret", "Authorization": "Bearer of-the-program", "Cookie": "a=b; __Host-croft=secret; c=d; croft-insecure=secret",
		"X-Forwarded-For": "6.6.6.6", "X-Forwarded-Host": "forged", "Connection": "X-Hop", "X-Hop": "hop",
	} {
		req.Header.Set(name, value)
	}
	req.Host = "3000-sandbox1.example.com"
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var got struct {
		URL, Method string
		Raw         []string
	}
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.URL != "/headers/a%2Fb?q=1;2&x=%zz" || got.Method != "PATCH" || res.Header.Get("X-From-Inside") != "yes" {
		t.Errorf("the program got %s %s, and the client %v", got.Method, got.URL, res.Header)
	}
	headers := http.Header{}
	for i := 0; i+1 < len(got.Raw); i += 2 {
		headers.Add(got.Raw[i], got.Raw[i+1])
	}
	for name, want := range map[string]string{
		"Host": "localhost:" + strconv.Itoa(port), "Authorization": "Bearer of-the-program", "Cookie": "a=b; c=d",
		"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "3000-sandbox1.example.com", "X-Forwarded-Proto": "http",
		"X-Hop": "", "X-Api-Key": "", "X-Access-Token": "", "E2b-Sandbox-Id": "", "E2b-Sandbox-Port": "",
	} {
		if got := headers.Get(name); got != want {
			t.Errorf("the program got the header %s: %q, want %q", name, got, want)
		}
	}
	if strings.Contains(strings.Join(got.Raw, "\n"), "secret") {
		t.Errorf("the program got a credential: %q", got.Raw)
	}
	for deadline := time.Now().Add(time.Minute); ws.Busy(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a connection stays open after the request")
		}
	}
}

// TestStreams reads the first part of an answer before it sends the request's body.
func TestStreams(t *testing.T) {
	proxy, _, _ := proxied(t, nil)
	body, send := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, proxy.URL+"/stream", body)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	r := bufio.NewReader(res.Body)
	if line, err := r.ReadString('\n'); line != "first\n" {
		t.Fatalf("first line %q, %v", line, err)
	}
	io.WriteString(send, "second")
	send.Close()
	if rest, err := io.ReadAll(r); string(rest) != "second" || err != nil {
		t.Errorf("then %q, %v", rest, err)
	}
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	res, err = http.Post(proxy.URL+"/echo", "application/octet-stream", bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got, err := io.ReadAll(res.Body); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the echo of %d bytes has %d, %v", len(data), len(got), err)
	}
	res, err = http.Get(proxy.URL + "/break")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("an answer that breaks off is read as %q, without an error", got)
	}
}

func TestWebSocket(t *testing.T) {
	proxy, ws, _ := proxied(t, nil)
	c, _, err := websocket.Dial(t.Context(), proxy.URL+"/ws", nil) //nolint:bodyclose // websocket.Dial closes the body
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	for _, text := range []string{"one", "two"} {
		if err := c.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, got, err := c.Read(t.Context()); err != nil || string(got) != "echo "+text {
			t.Errorf("Read = %q, %v", got, err)
		}
	}
	if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(time.Minute); ws.Busy(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a connection stays open after the WebSocket")
		}
	}
}

func TestNothingListens(t *testing.T) {
	proxy, _, _ := proxied(t, func(t *portproxy.Target) { t.Port = 4 })
	res, err := http.Get(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var got map[string]any
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"sandboxId": "sandbox1", "message": "The sandbox is running but port is not open", "port": 4.0, "code": 502.0}
	for name := range want {
		if got[name] != want[name] || len(got) != len(want) || res.StatusCode != http.StatusBadGateway {
			t.Errorf("the answer is %d %v, want 502 %v", res.StatusCode, got, want)
			break
		}
	}
}

// TestClosedPortKeepsTheConnection: requests with a body to a port on which nothing listens
// leave the client's connection usable.
func TestClosedPortKeepsTheConnection(t *testing.T) {
	proxy := httptest.NewServer(portproxy.Handler(portproxy.Target{ID: "box", Port: 1, Dial: func(context.Context, int) (net.Conn, error) {
		return nil, syscall.ECONNREFUSED
	}}))
	t.Cleanup(proxy.Close)
	for i := range 20 {
		reused := false
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }})
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, proxy.URL, strings.NewReader(strings.Repeat("x", 10_000)))
		if err != nil {
			t.Fatal(err)
		}
		res, err := proxy.Client().Do(req)
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Error(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusBadGateway || reused != (i > 0) {
			t.Fatalf("request %d: status %d, connection reused: %v", i, res.StatusCode, reused)
		}
	}
}
