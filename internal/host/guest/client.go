package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/ttrpc"
	"google.golang.org/grpc/status"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/guestproto/guestpb"
	"github.com/croft-run/croft/workspace/driver"
)

// A Client is a connection to one guest.
type Client struct {
	rpc       *ttrpc.Client
	rights    *rightsConn // nil if the connection takes no descriptors
	svc       guestpb.GuestClient
	files     guestpb.FilesService
	relay     guestpb.RelayService
	name      string // random id, by which the guest knows which calls are of one client
	workspace string

	// WhyLost returns the cause of the guest's end if the host knows one, such as OOM;
	// "" otherwise. It is set before the first call, or nil.
	WhyLost func() driver.Cause

	// Salvage returns, after the guest has ended, the output of a lost command by the id
	// of its session, at most so many bytes of each stream. It is set before the first
	// call, or nil. See OutputFromLogs.
	Salvage func(id string, most int64) driver.Result

	gone        chan struct{}  // closed when the connection has ended
	markGone    func()         // closes gone, once; the first call that fails by the end of the connection calls it
	endExpected atomic.Bool    // commands lost from now on have the cause destroyed
	relays      sync.WaitGroup // goroutines of Relay and of dialed connections
	closeOnce   sync.Once
}

// helloTimeout bounds the wait for a guest that runs, also on a machine under load. A
// guest that does not answer is replaced, and all it runs is killed.
const helloTimeout = 30 * time.Second

// NewClient connects to a guest over conn, which it takes over. The error is Evicted if
// the guest is of another version: such a guest is to be replaced.
func NewClient(ctx context.Context, conn net.Conn, version, workspace string) (*Client, error) {
	c := &Client{name: driver.NewID(), workspace: workspace, gone: make(chan struct{})}
	c.markGone = sync.OnceFunc(func() { close(c.gone) })
	if c.rights = newRightsConn(conn); c.rights != nil {
		conn = c.rights
	}
	c.rpc = ttrpc.NewClient(conn, ttrpc.WithOnClose(c.markGone))
	c.svc, c.files, c.relay = guestpb.NewGuestClient(c.rpc), guestpb.NewFilesClient(c.rpc), guestpb.NewRelayClient(c.rpc)
	if err := c.sayHello(ctx, version); err != nil {
		c.Close() //nolint:errcheck // nothing is lost with it
		return nil, err
	}
	return c, nil
}

// sayHello registers this client at the guest. The call goes on as long as the connection,
// and holds the lease of the guest.
func (c *Client) sayHello(ctx context.Context, version string) error {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	hello := new(guestpb.HelloResponse)
	stop := context.AfterFunc(ctx, func() { c.rpc.Close() }) //nolint:errcheck // it ends what waits below
	call, err := c.svc.Hello(background(), &guestpb.HelloRequest{Version: version, Workspace: c.workspace, Client: c.name})
	if err == nil {
		hello, err = call.Recv()
	}
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		return c.callError("say hello", err)
	}
	if hello.Version != version { // an older guest answers instead of refusing
		return fmt.Errorf("guest of %s: version %q, and the host has %q: %w", c.workspace, guestproto.Truncate(hello.Version, 64), version, fault.Evicted)
	}
	return nil
}

// Gone is closed when the connection has ended.
func (c *Client) Gone() <-chan struct{} { return c.gone }

// Close closes the connection. A guest with a lease lives on.
func (c *Client) Close() error {
	var err error
	c.closeOnce.Do(func() {
		err = c.rpc.Close()
		c.relays.Wait()
	})
	return err
}

// ExpectEnd says that the guest is about to be ended on purpose: commands that are lost
// from now on have the cause destroyed, not lost.
func (c *Client) ExpectEnd() { c.endExpected.Store(true) }

// Shutdown ends the guest and all processes in it.
func (c *Client) Shutdown(ctx context.Context) error {
	c.ExpectEnd()
	_, err := c.svc.Shutdown(ctx, &guestpb.Empty{})
	if err != nil && !errors.Is(err, ttrpc.ErrClosed) {
		return c.callError("shut down", err)
	}
	return nil
}

// checkConnected returns Evicted if the connection has ended, before anything is sent.
func (c *Client) checkConnected() error {
	select {
	case <-c.gone:
		return fmt.Errorf("guest of %s: the connection has ended: %w", c.workspace, fault.Evicted)
	default:
		return nil
	}
}

// callError returns the error of a call: the one that the guest answered with, or
// Unavailable for a call without an answer. Whether the latter had an effect is unknown,
// so its code is not Evicted, which allows repeating.
func (c *Client) callError(what string, err error) error {
	if told := guestproto.FromStatus(err); told != nil {
		return told
	}
	if isClosed(err) {
		c.markGone()
	}
	if code := fault.Of(err); code == fault.Canceled || code == fault.DeadlineExceeded {
		return fmt.Errorf("guest of %s: %s: %w", c.workspace, what, err)
	}
	if large := (*ttrpc.OversizedMessageErr)(nil); errors.As(err, &large) {
		return fmt.Errorf("guest of %s: %s: %w: the request has %d bytes, and at most %d can be sent at once",
			c.workspace, what, fault.InvalidArgument, large.RejectedLength(), large.MaximumLength())
	}
	if st, ok := status.FromError(err); ok { // the text is untrusted
		err = errors.New(guestproto.Truncate(st.Message(), 4096))
	}
	return fmt.Errorf("guest of %s: %s: %w: %w", c.workspace, what, fault.Unavailable, err)
}

// isClosed reports whether an error means that the connection has ended.
func isClosed(err error) bool { return errors.Is(err, ttrpc.ErrClosed) || errors.Is(err, io.EOF) }

// invalidAnswer is the error for an answer that breaks the protocol.
func (c *Client) invalidAnswer(what string) error {
	return fmt.Errorf("guest of %s: %s: the answer breaks the protocol: %w", c.workspace, what, fault.Unavailable)
}

// Shell returns the module that runs processes in the guest.
func (c *Client) Shell() *driver.Shell {
	return &driver.Shell{Starter: sessionStarter{c}, Run: c.runCommand, Sessions: c.listSessions, Attach: c.attachSession, Dial: c.dialPort}
}

type sessionStarter struct{ c *Client }

func (s sessionStarter) Start(ctx context.Context, cmd driver.Command) (*driver.Session, error) {
	sess, err := s.c.startSession(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return sess.driverSession(), nil
}

// runCommand runs a command in the foreground. Output beyond the size of one message is
// read from the log.
func (c *Client) runCommand(ctx context.Context, cmd driver.Command) (driver.Result, error) {
	most := cmd.MaxOutput
	cmd.MaxOutput = min(most, guestproto.MaxStream)
	res, err := c.runInOneCall(ctx, cmd, most)
	if err == nil && most > guestproto.MaxStream && res.Session != "" && res.StdoutDropped+res.StderrDropped > 0 {
		(&session{c: c, id: res.Session}).fillFromLogs(context.WithoutCancel(ctx), &res, most)
	}
	return res, err
}

// runInOneCall runs a command by one call, or by a session if one message does not hold its
// input or its output goes to callbacks. most bounds salvaged output.
func (c *Client) runInOneCall(ctx context.Context, cmd driver.Command, most int64) (driver.Result, error) {
	if err := ctx.Err(); err != nil {
		return driver.Result{}, err
	}
	small, more, err := readFirstInput(cmd.Stdin)
	if err != nil {
		return driver.Result{}, fmt.Errorf("guest of %s: read standard input: %w", c.workspace, err)
	}
	if more || cmd.OnStdout != nil || cmd.OnStderr != nil {
		return c.runSession(ctx, cmd, small, more, most)
	}
	if err := c.checkConnected(); err != nil {
		return driver.Result{}, err
	}
	pb := encodeCommand(ctx, &cmd)
	pb.Stdin = small
	if err := c.sendGroup(ctx, pb); err != nil {
		return driver.Result{}, err
	}
	call, end := graceContext(ctx)
	defer end()
	defer context.AfterFunc(ctx, func() { c.cancelCommand(call, pb.Id) })()
	res, err := c.svc.Run(call, pb)
	if call.Err() != nil { // the guest did not answer in time after it was asked to cancel
		return c.salvagedResult(pb.Id, most), nil
	}
	if err != nil {
		return c.resultOfFailedCall(err, pb.Id, most)
	}
	return c.checkResult(res)
}

// graceContext returns the context of a call about a command that ends with ctx. It lasts
// cancelTime longer than ctx, so that the guest can answer with the result so far. The
// caller calls end.
func graceContext(ctx context.Context) (call context.Context, end func()) {
	call, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-call.Done():
		case <-time.After(cancelTime):
			cancel()
		}
	})
	return call, func() {
		stop()
		cancel()
	}
}

// cancelEvery is the interval at which the client repeats Cancel for a command that the
// guest has not started yet.
const cancelEvery = 10 * time.Millisecond

// cancelCommand asks the guest to cancel a command, repeatedly until the guest knows the
// command or call, which waits for it, is over: ttrpc does not keep calls in order. If the
// calls fail, the guest cancels the command when the connection ends.
func (c *Client) cancelCommand(call context.Context, id string) {
	ctx, done := context.WithTimeout(context.WithoutCancel(call), cancelTime)
	defer done()
	for {
		resp, err := c.svc.Cancel(ctx, &guestpb.SessionRequest{Id: id})
		if err != nil || resp.Found {
			return
		}
		select {
		case <-call.Done():
			return
		case <-time.After(cancelEvery):
		}
	}
}

// cancelTime is how long a guest may take to cancel a command, ample on a machine under
// load. The client does not wait longer.
var cancelTime = 30 * time.Second // shorter in tests

// resultOfFailedCall is the result of a command whose call failed. If the guest has died,
// the command may have run, wholly or in part; it is never run again, and its output so far
// is salvaged from its log. Otherwise the call's error is returned.
func (c *Client) resultOfFailedCall(err error, id string, most int64) (driver.Result, error) {
	if !isClosed(err) {
		return driver.Result{}, c.callError("run", err)
	}
	c.markGone()
	return c.salvagedResult(id, most), nil
}

// salvagedResult is the result of a command that the guest can't report any more.
func (c *Client) salvagedResult(id string, most int64) driver.Result {
	res := driver.Result{}
	if c.Salvage != nil {
		res = c.Salvage(id, most)
	}
	res.ExitCode, res.Cause = -1, c.lossCause()
	return res
}

// lossCause is the cause of a lost command.
func (c *Client) lossCause() driver.Cause {
	if c.endExpected.Load() {
		return driver.CauseDestroyed
	}
	if c.WhyLost != nil {
		if cause := c.WhyLost(); cause != "" {
			return cause
		}
	}
	return driver.CauseLost
}

// checkResult refuses a result with more output than a guest may send.
func (c *Client) checkResult(pb *guestpb.Result) (driver.Result, error) {
	if len(pb.Stdout) > guestproto.MaxStream+4096 || len(pb.Stderr) > guestproto.MaxStream+4096 {
		return driver.Result{}, c.invalidAnswer("run")
	}
	return *guestproto.FromResult(pb), nil
}

// readFirstInput reads as much standard input as fits into one message, and reports whether
// there may be more. It reads only from memory: any other reader might block until the
// command has written something, a deadlock.
func readFirstInput(r io.Reader) (data []byte, more bool, err error) {
	if r == nil {
		return nil, false, nil
	}
	if _, inMemory := r.(interface{ Len() int }); !inMemory { // such as *bytes.Reader
		return nil, true, nil
	}
	buf := make([]byte, guestproto.MaxChunk)
	n, err := io.ReadFull(r, buf)
	switch err { // ReadFull answers just these
	case nil:
		return buf, true, nil
	case io.EOF, io.ErrUnexpectedEOF:
		return buf[:n], false, nil
	}
	return nil, false, err
}

// listSessions lists the sessions.
func (c *Client) listSessions(ctx context.Context) ([]driver.SessionInfo, error) {
	if err := c.checkConnected(); err != nil {
		return nil, err
	}
	resp, err := c.svc.Sessions(ctx, &guestpb.Empty{})
	if err != nil {
		return nil, c.callError("list sessions", err)
	}
	var list []driver.SessionInfo
	for _, pb := range resp.Sessions {
		list = append(list, guestproto.FromSessionInfo(pb))
	}
	return list, nil
}

// Hold makes bind mounts while the workload runs: self bind mounts that a rename on the host
// has detached, and binds of paths inside.
func (c *Client) Hold(ctx context.Context, mounts []guestproto.Mount) error {
	if err := c.checkConnected(); err != nil {
		return err
	}
	req := new(guestpb.HoldRequest)
	for _, m := range mounts {
		req.Mounts = append(req.Mounts, guestproto.ToMount(m))
	}
	if _, err := c.svc.Hold(ctx, req); err != nil {
		return c.callError("make mounts", err)
	}
	return nil
}

// attachSession returns a session by its id.
func (c *Client) attachSession(ctx context.Context, id string) (*driver.Session, error) {
	s := &session{c: c, id: id}
	if _, err := s.State(ctx); err != nil {
		return nil, err
	}
	return s.driverSession(), nil
}
