package workspacetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

var dialChecks = []Check{
	{"Dial/bytes-go-both-ways", needDial, dialEcho},
	{"Dial/ten-mebibytes-go-both-ways-at-once", needDial, dialMuch},
	{"Dial/one-direction-ends-alone", needDial, dialHalfClose},
	{"Dial/written-bytes-arrive-after-close", needDial, dialCloseAfterWrite},
	{"Dial/a-port-out-of-range-is-refused", needDial, dialRange},
	{"Dial/a-port-that-nothing-listens-on-is-refused", needDial, dialRefused},
	{"Dial/ports-of-the-host-are-refused", needDial, dialHost},
	{"Dial/ports-of-other-workspaces-are-refused", needDial, dialOther},
	{"Dial/deadlines-end-reads-and-writes", needDial, dialDeadline},
	{"Dial/outlives-its-context", needDial, dialContext},
	{"Dial/fifty-at-once", needDial, dialConcurrent},
	{"Dial/ends-with-close", needDial, dialClose},
	{"Dial/ends-with-destroy", needDial, dialDestroy},
	{"Dial/ends-with-pause", allNeeds(needDial, needPause), dialPause},
}

func needDial(e *Env) (string, bool) {
	return "function shell.Dial is absent", e.sample.Shell != nil && e.sample.Shell.Dial != nil
}

func needPause(e *Env) (string, bool) {
	return "function Life.Pause is absent", e.sample.Life.Pause != nil && e.sample.Life.Resume != nil
}

// echoServer listens on a free port of the loopback and prints that port. It sends what it
// receives, and "end" after the end of the other direction; "wait" makes it read no more.
// It writes what it received from a connection that was closed to the file "received".
const echoServer = `
use Socket; $| = 1; $SIG{CHLD} = 'IGNORE'; $SIG{PIPE} = 'IGNORE';
socket(S, PF_INET, SOCK_STREAM, 0) && bind(S, sockaddr_in(0, INADDR_LOOPBACK)) && listen(S, 128) or die $!;
my ($port) = sockaddr_in(getsockname(S));
print "$port\n";
while (accept(C, S)) {
	if (fork) { close C; next }
	close S;
	my $all = '';
	while (sysread(C, my $data, 65536)) {
		if ($data eq 'wait') { sleep 1000 }
		if (length $all < 100) { $all .= $data }
		for (my $sent = 0; $sent < length $data; ) {
			my $n = syswrite(C, $data, length($data) - $sent, $sent);
			last unless defined $n;
			$sent += $n;
		}
	}
	syswrite(C, 'end');
	if ($all =~ /^store/) { open(F, '>', 'received.part'); print F $all; close F; rename('received.part', 'received') }
	exit 0;
}
`

// listen starts the echo server and returns its port.
func (p *testWorkspace) listen(t testing.TB) (port int, server *driver.Session) {
	t.Helper()
	if res := p.mustRun(t, driver.Command{Script: "command -v perl"}); res.ExitCode != 0 {
		t.Skip("skipped: host: the workspace has no perl")
	}
	s := p.start(t, driver.Command{Argv: []string{"perl", "-e", echoServer}})
	text := ""
	for deadline := time.Now().Add(waitLimit); !strings.HasSuffix(text, "\n"); {
		poll, err := s.Poll(t.Context(), 0)
		if err != nil || !poll.Running || time.Now().After(deadline) {
			t.Fatalf("the server does not listen: %v %q %q", err, poll.Stdout, poll.Stderr)
		}
		text += string(poll.Stdout)
		time.Sleep(5 * time.Millisecond)
	}
	port, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	return port, s
}

// A portConn is a connection of Dial. Its reads and writes end after waitLimit.
type portConn struct {
	net.Conn
}

func (c portConn) closeWrite(t testing.TB) {
	t.Helper()
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		t.Fatalf("the connection, a %T, has no CloseWrite", c.Conn)
	}
	wantNil(t, "CloseWrite", half.CloseWrite())
}

func (p *testWorkspace) dial(t testing.TB, port int) portConn {
	t.Helper()
	conn, err := p.Dial(t.Context(), port)
	if err != nil {
		t.Fatalf("Dial(%d): %v", port, err)
	}
	t.Cleanup(func() { conn.Close() })
	wantNil(t, "SetDeadline", conn.SetDeadline(time.Now().Add(waitLimit)))
	return portConn{conn}
}

// exchange sends text and reads it back.
func (c portConn) exchange(t testing.TB, text string) {
	t.Helper()
	_, err := io.WriteString(c, text)
	wantNil(t, "Write", err)
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Errorf("the echo of %q is %q, %v", text, got, err)
	}
}

func dialEcho(t testing.TB, e *Env) {
	p := e.open(t)
	port, _ := p.listen(t)
	c := p.dial(t, port)
	for range 3 {
		c.exchange(t, "hello\n")
	}
	wantNil(t, "Close", c.Close())
	if _, err := c.Write([]byte("x")); err == nil {
		t.Error("Write after Close succeeds")
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("Read after Close: %v, want an error that is no end", err)
	}
}

func dialMuch(t testing.TB, e *Env) {
	p := e.open(t)
	port, _ := p.listen(t)
	c := p.dial(t, port)
	data := make([]byte, 10<<20)
	rand.NewChaCha8([32]byte{}).Read(data)
	var writes sync.WaitGroup
	writes.Go(func() {
		_, err := c.Write(data)
		wantNil(t, "Write", err)
		c.closeWrite(t)
	})
	defer writes.Wait()
	got, err := io.ReadAll(c)
	if wantNil(t, "Read", err) && !bytes.Equal(got, append(data, "end"...)) {
		t.Errorf("%d bytes come back of %d, or others", len(got), len(data))
	}
}

func dialHalfClose(t testing.TB, e *Env) {
	p := e.open(t)
	port, _ := p.listen(t)
	c := p.dial(t, port)
	_, err := io.WriteString(c, "question")
	wantNil(t, "Write", err)
	c.closeWrite(t)
	if _, err := c.Write([]byte("x")); err == nil {
		t.Error("Write after CloseWrite succeeds")
	}
	got, err := io.ReadAll(c)
	if wantNil(t, "Read", err) && string(got) != "questionend" {
		t.Errorf("after CloseWrite %q is read, want all that was sent and the end", got)
	}
}

func dialCloseAfterWrite(t testing.TB, e *Env) {
	p := e.open(t)
	if p.d.FS == nil {
		t.Skip("skipped: module fs is absent")
	}
	port, _ := p.listen(t)
	c := p.dial(t, port)
	_, err := io.WriteString(c, "store this")
	wantNil(t, "Write", err)
	wantNil(t, "Close", c.Close())
	for deadline := time.Now().Add(waitLimit); !p.hasFile(t, "received"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("what was written before Close does not arrive")
		}
	}
	p.wantContent(t, "received", "store this")
}

func dialRange(t testing.TB, e *Env) {
	p := e.open(t)
	for _, port := range []int{-1, 0, 65536, 1 << 40} {
		_, err := p.Dial(t.Context(), port)
		wantCode(t, "Dial("+strconv.Itoa(port)+")", err, fault.InvalidArgument)
		_, err = p.d.Shell.Dial(t.Context(), port)
		wantCode(t, "Shell.Dial("+strconv.Itoa(port)+")", err, fault.InvalidArgument)
	}
}

// wantRefused reports a port that can be reached.
func (p *testWorkspace) wantRefused(t testing.TB, what string, port int) {
	t.Helper()
	conn, err := p.Dial(t.Context(), port)
	if err == nil {
		conn.Close()
	}
	wantCode(t, what, err, fault.Unavailable)
	if cause := fault.CauseOf(err); err != nil && cause != fault.CauseRefused {
		t.Errorf("%s: the cause is %q, want %q: %v", what, cause, fault.CauseRefused, err)
	}
}

func dialRefused(t testing.TB, e *Env) {
	p := e.open(t)
	port, server := p.listen(t)
	p.dial(t, port).exchange(t, "there")
	wantNil(t, "Kill", server.Kill(t.Context(), 0))
	_, err := server.Wait(t.Context())
	wantNil(t, "Wait", err)
	p.wantRefused(t, "Dial after the server has ended", port)
}

func dialHost(t testing.TB, e *Env) {
	p := e.open(t)
	p.runScriptOK(t, "true")
	for _, at := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::1]:0"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			if at == "127.0.0.1:0" {
				t.Fatal(err)
			}
			continue // without IPv6
		}
		defer l.Close()
		p.wantRefused(t, "Dial of a port of the host at "+at, l.Addr().(*net.TCPAddr).Port)
	}
}

func dialOther(t testing.TB, e *Env) {
	port, _ := e.open(t).listen(t)
	p := e.open(t)
	p.runScriptOK(t, "true")
	p.wantRefused(t, "Dial of a port of another workspace", port)
}

func dialDeadline(t testing.TB, e *Env) {
	p := e.open(t)
	port, _ := p.listen(t)
	c := p.dial(t, port)
	wantNil(t, "SetReadDeadline", c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read after its deadline: %v, want %v", err, os.ErrDeadlineExceeded)
	}
	wantNil(t, "SetReadDeadline", c.SetReadDeadline(time.Now().Add(waitLimit)))
	c.exchange(t, "later")
	_, err := io.WriteString(c, "wait") // it is read alone: the server has answered before
	wantNil(t, "Write", err)
	wantNil(t, "SetWriteDeadline", c.SetWriteDeadline(time.Now().Add(500*time.Millisecond)))
	for data := make([]byte, 1<<20); err == nil; {
		_, err = c.Write(data)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Write to a server that does not read: %v, want %v", err, os.ErrDeadlineExceeded)
	}
}

func dialContext(t testing.TB, e *Env) {
	p := e.open(t)
	port, _ := p.listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := p.Dial(ctx, port)
	cancel()
	if !wantNil(t, "Dial", err) {
		return
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(waitLimit))
	portConn{conn}.exchange(t, "alive")
	_, err = p.Dial(ctx, port)
	wantCode(t, "Dial with a cancelled context", err, fault.Canceled)
}

func dialConcurrent(t testing.TB, e *Env) {
	p := e.open(t)
	port, _ := p.listen(t)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			conn, err := p.Dial(t.Context(), port)
			if !wantNil(t, "Dial", err) {
				return
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(waitLimit))
			c := portConn{conn}
			for range 10 {
				c.exchange(t, strings.Repeat(strconv.Itoa(i), 1000))
			}
		})
	}
	all.Wait()
}

// wantEnd reports a connection that lives on after what, which ends it.
func (c portConn) wantEnd(t testing.TB, what string, end func() error) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		ended <- err
	}()
	wantNil(t, what, end())
	select {
	case err := <-ended:
		if err == nil || errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read during %s: %v, want an error that is no end", what, err)
		}
	case <-time.After(waitLimit):
		t.Errorf("Read goes on after %s", what)
	}
}

func dialClose(t testing.TB, e *Env) {
	p := e.open(t)
	port, _ := p.listen(t)
	p.dial(t, port).wantEnd(t, "Close", func() error { return p.Close(t.Context()) })
	if e.SessionsEnd || e.Traits.SessionsEnd {
		return
	}
	p = e.resolve(t, p.spec, p.d.Ref)
	port, _ = p.listen(t)
	conn, err := p.d.Shell.Dial(t.Context(), port) // the driver's own, not that of package workspace
	if wantNil(t, "Shell.Dial", err) {
		portConn{conn}.wantEnd(t, "Life.Close", func() error { return p.d.Life.Close(t.Context()) })
	}
}

func dialDestroy(t testing.TB, e *Env) {
	p := e.open(t)
	port, _ := p.listen(t)
	p.dial(t, port).wantEnd(t, "Destroy", func() error { return p.Destroy(t.Context()) })
}

func dialPause(t testing.TB, e *Env) {
	p := e.open(t)
	port, _ := p.listen(t)
	c := p.dial(t, port)
	err := p.Pause(t.Context())
	if fault.Of(err) == fault.Unsupported {
		t.Skipf("skipped: host: %v", err)
	}
	wantNil(t, "Pause", err)
	c.wantEnd(t, "Pause", func() error { return nil })
	wantNil(t, "Resume", p.Resume(t.Context()))
	p.dial(t, port).exchange(t, "again")
}
