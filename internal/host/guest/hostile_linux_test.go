package guest

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/ttrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/guestproto/guestpb"
	"github.com/croft-run/croft/workspace/driver"
)

// evil is a guest that answers what no honest one does. Methods that it lacks
// panic, which ttrpc would not survive, so a test that reaches one fails.
type evil struct {
	guestpb.GuestService
	big []byte
}

func (e evil) Hello(ctx context.Context, r *guestpb.HelloRequest, call guestpb.Guest_HelloServer) error {
	for range 3 { // one is expected
		if err := call.Send(&guestpb.HelloResponse{Version: r.Version}); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// silence answers nothing as long as anyone could wait for it.
func silence(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (e evil) Run(ctx context.Context, cmd *guestpb.Command) (*guestpb.Result, error) {
	switch string(cmd.Script) {
	case "hang":
		return nil, silence(ctx)
	case "overflow":
		return &guestpb.Result{Stdout: []byte("x"), StdoutDropped: math.MaxInt64, Session: "s"}, nil
	}
	return &guestpb.Result{Stdout: e.big, StdoutDropped: -5}, nil
}

func (e evil) Kill(ctx context.Context, _ *guestpb.KillRequest) (*guestpb.Empty, error) {
	return nil, silence(ctx)
}

func (e evil) Start(_ context.Context, cmd *guestpb.Command) (*guestpb.SessionInfo, error) {
	if len(cmd.Script) > 0 {
		return &guestpb.SessionInfo{Id: string(cmd.Script)}, nil
	}
	return &guestpb.SessionInfo{Id: strings.Repeat("../", 1000)}, nil
}

func (e evil) Next(ctx context.Context, r *guestpb.NextRequest) (*guestpb.NextResponse, error) {
	if r.Id == "owe" {
		return nil, silence(ctx)
	}
	return &guestpb.NextResponse{}, nil // neither data nor an end, again and again
}

func (e evil) Cancel(context.Context, *guestpb.SessionRequest) (*guestpb.CancelResponse, error) {
	return &guestpb.CancelResponse{}, nil
}

func (e evil) Wait(ctx context.Context, r *guestpb.SessionRequest) (*guestpb.Result, error) {
	switch r.Id {
	case "hang":
		return nil, silence(ctx)
	case "owe":
		return &guestpb.Result{}, nil
	}
	return &guestpb.Result{Stdout: e.big}, nil // more than it may have
}

func (e evil) Poll(context.Context, *guestpb.PollRequest) (*guestpb.PollResponse, error) {
	return &guestpb.PollResponse{Stdout: e.big, Dropped: -1, Running: true}, nil
}

func (e evil) Log(context.Context, *guestpb.LogRequest) (*guestpb.LogResponse, error) {
	return &guestpb.LogResponse{Data: e.big, Offset: 1 << 62, Next: -1, Size: -1}, nil
}

func (e evil) State(context.Context, *guestpb.SessionRequest) (*guestpb.SessionInfo, error) {
	st, err := status.New(codes.Unknown, string(e.big[:1<<20])).WithDetails(&guestpb.Empty{}, &guestpb.Error{Code: "no such code", Message: string(e.big[:1<<20])})
	return nil, errors.Join(err, st.Err())
}

func (e evil) CloseStdin(context.Context, *guestpb.SessionRequest) (*guestpb.Empty, error) {
	return nil, status.Error(codes.Unknown, string(e.big[:1<<20]))
}

func (e evilFiles) File(_ context.Context, r *guestpb.FileRequest) (*guestpb.FileResponse, error) {
	switch r.Op {
	case "readdir":
		return &guestpb.FileResponse{Answer: []byte(`[{"path":"../../etc/passwd","type":"file"}]`)}, nil
	case "list", "glob":
		return &guestpb.FileResponse{Answer: []byte(`{"entries":[{"path":"/etc/passwd","type":"file"}]}`)}, nil
	case "grep":
		return &guestpb.FileResponse{Answer: []byte(`{"matches":[{"path":"a/../../b"}]}`)}, nil
	}
	return &guestpb.FileResponse{Answer: []byte("{")}, nil
}

func (e evilFiles) Write(context.Context, *guestpb.FileWriteRequest) (*guestpb.FileResponse, error) {
	return &guestpb.FileResponse{Answer: []byte(`{}`)}, nil // neither a handle nor a result
}

func (e evilFiles) Read(_ context.Context, r *guestpb.FileReadRequest) (*guestpb.FileReadResponse, error) {
	if string(r.Name) == "big" {
		return &guestpb.FileReadResponse{Info: []byte(`{}`), Data: e.big}, nil
	}
	return &guestpb.FileReadResponse{Info: []byte(`{}`), Handle: "1"}, nil // neither data nor an end
}

func (e evilFiles) Watch(context.Context, *guestpb.WatchRequest) (*guestpb.WatchResponse, error) {
	return &guestpb.WatchResponse{Id: "1"}, nil
}

func (e evilFiles) WatchNext(context.Context, *guestpb.WatchRequest) (*guestpb.WatchResponse, error) {
	return &guestpb.WatchResponse{Changes: []byte(`{"changes":[{"path":"../x","op":"create"}]}`)}, nil
}

func (e evilFiles) WatchClose(context.Context, *guestpb.WatchRequest) (*guestpb.Empty, error) {
	return &guestpb.Empty{}, nil
}

// evilFiles are the files of such a guest.
type evilFiles struct{ big []byte }

// meetEvil returns a client of an evil guest.
func meetEvil(t *testing.T) *Client {
	t.Helper()
	big := bytes.Repeat([]byte("z"), 3<<20)
	return meet(t, func(s *ttrpc.Server) {
		guestpb.RegisterGuestService(s, evil{big: big})
		guestpb.RegisterFilesService(s, evilFiles{big})
	})
}

func meet(t *testing.T, register func(*ttrpc.Server)) *Client {
	t.Helper()
	c, err := NewClient(t.Context(), serve(t, register), "v", "w")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// serve returns a connection to a server until the test ends.
func serve(t *testing.T, register func(*ttrpc.Server)) net.Conn {
	t.Helper()
	server, err := ttrpc.NewServer()
	if err != nil {
		t.Fatal(err)
	}
	register(server)
	l, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(context.Background(), l)
	}()
	ours, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ours.Close()
		server.Close()
		<-served
	})
	return ours
}

// restless has a connection to be carried that never says anything, and never waits.
type restless struct {
	offered atomic.Bool
	closed  chan struct{}
}

func (r *restless) Next(ctx context.Context, _ *guestpb.RelayRequest) (*guestpb.RelayResponse, error) {
	if r.offered.CompareAndSwap(false, true) {
		return &guestpb.RelayResponse{Id: 1}, nil
	}
	return nil, silence(ctx)
}

func (r *restless) Dial(context.Context, *guestpb.RelayRequest) (*guestpb.RelayResponse, error) {
	return &guestpb.RelayResponse{Id: 1}, nil
}

func (r *restless) Read(context.Context, *guestpb.RelayRequest) (*guestpb.RelayResponse, error) {
	return &guestpb.RelayResponse{}, nil
}

func (r *restless) Write(context.Context, *guestpb.RelayRequest) (*guestpb.RelayResponse, error) {
	return &guestpb.RelayResponse{End: true}, nil
}

func (r *restless) Close(context.Context, *guestpb.RelayRequest) (*guestpb.RelayResponse, error) {
	close(r.closed)
	return &guestpb.RelayResponse{}, nil
}

// TestNothingIsCarried: a guest that sends neither data nor an end keeps the host busy
// once.
func TestNothingIsCarried(t *testing.T) {
	r := &restless{closed: make(chan struct{})}
	c := meet(t, func(s *ttrpc.Server) {
		guestpb.RegisterGuestService(s, evil{})
		guestpb.RegisterRelayService(s, r)
	})
	proxy, far := net.Pipe()
	defer far.Close()
	c.Relay(func(context.Context) (net.Conn, error) { return proxy, nil })
	select {
	case <-r.closed:
	case <-time.After(2 * time.Minute):
		t.Error("it is asked again and again")
	}
}

func TestNonsenseIsAnErrorAndNoMore(t *testing.T) {
	c := meetEvil(t)
	ctx := t.Context()
	want := func(what string, err error) {
		t.Helper()
		if err == nil || len(err.Error()) > 8192 {
			t.Errorf("%s is taken for good, or its error has %d bytes", what, len(errors.Join(err, fault.Internal).Error()))
		}
	}
	_, err := c.Shell().Run(ctx, driver.Command{Argv: []string{"true"}})
	want("a result that is too big", err)
	calls := 0
	s, err := c.Shell().Start(ctx, driver.Command{Argv: []string{"true"}, OnStdout: func([]byte) error { calls++; return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.ID()) > 128 {
		t.Errorf("the id of a session has %d bytes", len(s.ID()))
	}
	_, err = s.Wait(ctx)
	want("a result of a session that is too big", err)
	_, err = s.Poll(ctx, 10)
	want("more than was asked for", err)
	_, err = s.Log(ctx, driver.Stdout, 0, 10)
	want("a log that makes no sense", err)
	_, err = s.State(ctx)
	want("an unknown code", err)
	want("a status without details", s.CloseStdin(ctx))
	files := c.Changes(&driver.FS{})
	_, err = files.Edit(ctx, "x", nil, &driver.EditOptions{})
	want("an answer that is not JSON", err)
	_, err = files.Write(ctx, "x", strings.NewReader("x"), &driver.WriteOptions{})
	want("a write that never ends", err)
	far := c.Files()
	_, err = far.ReadDir(ctx, ".")
	want("a name that leaves the workspace", err)
	_, err = far.List(ctx, ".", &driver.ListOptions{})
	want("a path of the host", err)
	_, err = far.Glob(ctx, "*", &driver.GlobOptions{})
	want("a match of the host", err)
	_, err = far.Grep(ctx, "x", &driver.GrepOptions{})
	want("a match that leaves", err)
	_, _, err = far.Read(ctx, "big", &driver.ReadOptions{})
	want("a piece that is too large", err)
	body, _, err := far.Read(ctx, "x", &driver.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = body.Read(make([]byte, 1))
	want("a piece of nothing", err)
	w, err := far.Watch(ctx, ".", &driver.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Next(ctx)
	want("a change outside", err)
	if calls > 0 {
		t.Errorf("a callback was called %d times with nothing", calls)
	}
}

// TestGarbageEndsTheConnection lets a guest send bytes that are no messages.
func TestGarbageEndsTheConnection(t *testing.T) {
	for name, data := range map[string][]byte{
		"text":              []byte(strings.Repeat("HTTP/1.1 200 OK\r\n", 1000)),
		"a huge length":     {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 2, 0},
		"a torn message":    {0, 0, 0, 50, 0, 0, 0, 1, 2, 0, 1, 2, 3},
		"an unknown stream": {0, 0, 0, 0, 0, 0, 0, 99, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			go func() {
				buf := make([]byte, 4096)
				theirs.Read(buf)
				theirs.Write(data)
				theirs.Close()
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			if c, err := NewClient(ctx, ours, "v", "w"); err == nil {
				c.Close()
				t.Error("a client was made")
			} else if ctx.Err() != nil {
				t.Errorf("it waited for more: %v", err)
			}
		})
	}
}

// TestCountsThatOverflow: no number that a guest makes up ends the host.
func TestCountsThatOverflow(t *testing.T) {
	res, err := meetEvil(t).Shell().Run(t.Context(), driver.Command{Script: "overflow", MaxOutput: 4 * guestproto.MaxStream})
	if err != nil || string(res.Stdout) != "x" || res.StdoutDropped <= 0 {
		t.Errorf("got %d bytes and %d dropped, %v", len(res.Stdout), res.StdoutDropped, err)
	}
}

// TestSilentGuest: who gives up a command of a guest that answers nothing gets
// away, with what is true of it.
func TestSilentGuest(t *testing.T) {
	before := cancelTime
	cancelTime = 20 * time.Millisecond
	defer func() { cancelTime = before }()
	c := meetEvil(t)
	take := func([]byte) error { return nil }
	for name, cmd := range map[string]driver.Command{
		"run":     {Script: "hang"},
		"session": {Script: "hang", OnStdout: take},
		"output":  {Script: "owe", OnStderr: take}, // it has ended, and owes what it wrote
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			res, err := c.Shell().Run(ctx, cmd)
			if err == nil && (res.Cause != driver.CauseLost || res.ExitCode != -1) {
				t.Errorf("got %+v", res)
			}
		})
	}
	if err := c.checkConnected(); err != nil {
		t.Errorf("others lose the guest by it: %v", err)
	}
}

// late comes to a command only when it was told to end it for the third time.
type late struct {
	evil
	told  atomic.Int64
	ended chan struct{}
}

func (l *late) Run(ctx context.Context, _ *guestpb.Command) (*guestpb.Result, error) {
	select {
	case <-l.ended:
		return &guestpb.Result{Cause: string(driver.CauseCanceled)}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *late) Cancel(context.Context, *guestpb.SessionRequest) (*guestpb.CancelResponse, error) {
	const third = 3
	found := l.told.Add(1) == third
	if found {
		close(l.ended)
	}
	return &guestpb.CancelResponse{Found: found}, nil
}

// TestCancelBeforeTheGuestHasTheCommand: calls are not kept in order, so a guest may
// hear that a command is to end before it hears of the command.
func TestCancelBeforeTheGuestHasTheCommand(t *testing.T) {
	l := &late{ended: make(chan struct{})}
	c := meet(t, func(s *ttrpc.Server) { guestpb.RegisterGuestService(s, l) })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	res, err := c.Shell().Run(ctx, driver.Command{Argv: []string{"sleep", "1000"}})
	if err != nil || res.Cause != driver.CauseCanceled || l.told.Load() != 3 {
		t.Errorf("got %+v, %v after it was told %d times, want the cause %s after 3", res, err, l.told.Load(), driver.CauseCanceled)
	}
}

// TestGuestWithoutAHelloStream: the Hello of an older guest is an ordinary call, which
// answers with its version. Such a guest is to be replaced.
func TestGuestWithoutAHelloStream(t *testing.T) {
	ours := serve(t, func(s *ttrpc.Server) {
		s.Register("croft.guest.v1.Guest", map[string]ttrpc.Method{"Hello": func(context.Context, func(any) error) (any, error) {
			return &guestpb.HelloResponse{Version: "old"}, nil
		}})
	})
	if _, err := NewClient(t.Context(), ours, "v", "w"); fault.Of(err) != fault.Evicted {
		t.Errorf("got %v, want %v", err, fault.Evicted)
	}
}
