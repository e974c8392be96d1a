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
	"github.com/croft-run/croft/host/guestproto"
	"github.com/croft-run/croft/host/guestproto/guestpb"
	"github.com/croft-run/croft/workspace/driver"
)

// A Client is the host's end: a connection to one guest.
type Client struct {
	rpc       *ttrpc.Client
	svc       guestpb.GuestClient
	files     guestpb.FilesService
	relay     guestpb.RelayService
	name      string // made up, unique: tells the guest which calls hang together
	workspace string

	// WhyLost tells why the guest is gone, where the host knows more than that it
	// is; nil, or "", is not known. It is set before the first call.
	WhyLost func() driver.Cause

	// Salvage returns, once the guest is gone, what a command has written until then,
	// by the id of its session and at most so many bytes of each stream. It is set
	// before the first call; nil is not known. See LeftIn.
	Salvage func(id string, most int64) driver.Result

	gone        chan struct{}  // closed when the connection is
	markGone    func()         // closes gone, once: the first call that sees the end of the connection says so
	endExpected atomic.Bool    // Shutdown was called: what is lost from then on was ended on purpose
	relays      sync.WaitGroup // goroutines of Relay
	closeOnce   sync.Once
}

// helloTimeout is ample for a guest that is up, which answers in microseconds, also
// on a machine under load: one that does not answer is replaced, with all it runs.
const helloTimeout = 30 * time.Second

// NewClient speaks to a guest over conn, which it takes over. It fails with
// Evicted if the guest is of another version: such a guest is to be replaced.
func NewClient(ctx context.Context, conn net.Conn, version, workspace string) (*Client, error) {
	c := &Client{name: driver.NewID(), workspace: workspace, gone: make(chan struct{})}
	c.markGone = sync.OnceFunc(func() { close(c.gone) })
	c.rpc = ttrpc.NewClient(conn, ttrpc.WithOnClose(c.markGone))
	c.svc, c.files, c.relay = guestpb.NewGuestClient(c.rpc), guestpb.NewFilesClient(c.rpc), guestpb.NewRelayClient(c.rpc)
	if err := c.sayHello(ctx, version); err != nil {
		c.Close() //nolint:errcheck // nothing is lost with it
		return nil, err
	}
	return c, nil
}

// sayHello says hello. The call goes on for as long as the connection: it makes this
// client an owner of the guest.
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
	if hello.Version != version { // an older guest says so in a way of its own
		return fmt.Errorf("guest of %s: it is of version %q, the host of %q: %w", c.workspace, guestproto.Truncate(hello.Version, 64), version, fault.Evicted)
	}
	return nil
}

// Gone is closed when the connection ends.
func (c *Client) Gone() <-chan struct{} { return c.gone }

// Close lets go of the guest, which lives on if it has a lease.
func (c *Client) Close() error {
	var err error
	c.closeOnce.Do(func() {
		err = c.rpc.Close()
		c.relays.Wait()
	})
	return err
}

// ExpectEnd tells the client that the guest is about to be ended on purpose: what
// ran in it then has the cause destroyed, not lost.
func (c *Client) ExpectEnd() { c.endExpected.Store(true) }

// Shutdown ends the guest and all that runs in it.
func (c *Client) Shutdown(ctx context.Context) error {
	c.ExpectEnd()
	_, err := c.svc.Shutdown(ctx, &guestpb.Empty{})
	if err != nil && !errors.Is(err, ttrpc.ErrClosed) {
		return c.callError("shut down", err)
	}
	return nil
}

// checkConnected answers Evicted if the guest is known to be gone: nothing was sent.
func (c *Client) checkConnected() error {
	select {
	case <-c.gone:
		return fmt.Errorf("guest of %s is gone: %w", c.workspace, fault.Evicted)
	default:
		return nil
	}
}

// callError classifies the error of a call: that which the guest answered with, or that
// of a call that did not come back. Whether the latter had an effect is not known, so
// it is not Evicted.
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
		return fmt.Errorf("guest of %s: %s: %w: it takes %d bytes, and at most %d can be sent at once",
			c.workspace, what, fault.InvalidArgument, large.RejectedLength(), large.MaximumLength())
	}
	if st, ok := status.FromError(err); ok { // the words are the guest's
		err = errors.New(guestproto.Truncate(st.Message(), 4096))
	}
	return fmt.Errorf("guest of %s: %s: %w: %w", c.workspace, what, fault.Unavailable, err)
}

// isClosed reports whether an error says that the connection has ended.
func isClosed(err error) bool { return errors.Is(err, ttrpc.ErrClosed) || errors.Is(err, io.EOF) }

// invalidAnswer is the error for what no honest guest answers.
func (c *Client) invalidAnswer(what string) error {
	return fmt.Errorf("guest of %s: %s: it answered nonsense: %w", c.workspace, what, fault.Unavailable)
}

// Shell returns the module that runs processes in the guest.
func (c *Client) Shell() *driver.Shell {
	return &driver.Shell{Starter: sessionStarter{c}, Run: c.runCommand, Sessions: c.listSessions, Attach: c.attachSession}
}

type sessionStarter struct{ c *Client }

func (s sessionStarter) Start(ctx context.Context, cmd driver.Command) (*driver.Session, error) {
	sess, err := s.c.startSession(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return sess.driverSession(), nil
}

// runCommand runs a command in the foreground. What one message does not hold of the
// output is read from the log.
func (c *Client) runCommand(ctx context.Context, cmd driver.Command) (driver.Result, error) {
	most := cmd.MaxOutput
	cmd.MaxOutput = min(most, guestproto.MaxStream)
	res, err := c.runInOneCall(ctx, cmd, most)
	if err == nil && most > guestproto.MaxStream && res.Session != "" && res.StdoutDropped+res.StderrDropped > 0 {
		(&session{c: c, id: res.Session}).fillFromLogs(context.WithoutCancel(ctx), &res, most)
	}
	return res, err
}

// runInOneCall runs a command in one call where it needs no more. most is what the
// caller wants of the output of one that is lost.
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
	pb := guestproto.ToCommand(&cmd)
	pb.Stdin = small
	call, end := graceContext(ctx)
	defer end()
	defer context.AfterFunc(ctx, func() { c.cancelCommand(call, pb.Id) })()
	res, err := c.svc.Run(call, pb)
	if call.Err() != nil { // it was told to end the command, and does not answer
		return c.salvagedResult(pb.Id, most), nil
	}
	if err != nil {
		return c.resultOfFailedCall(err, pb.Id, most)
	}
	return c.checkResult(res)
}

// graceContext returns the context of a call about a command that ends with ctx. It lasts
// for a while longer, in which the guest answers with what there is. The caller calls
// end.
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

// cancelEvery is how often the client repeats Cancel for a command that the guest
// has not started yet.
const cancelEvery = 10 * time.Millisecond

// cancelCommand tells the guest to end a command, again until it has come to it or call,
// which waits for the command, is over: ttrpc does not keep calls in order. A guest
// that can't be told ends the command when the connection ends.
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

// cancelTime is how long a guest that was told to end a command may take, which is
// ample on a machine under load. One that takes longer is not waited for.
var cancelTime = 30 * time.Second // tests have less

// resultOfFailedCall is the result of a command whose guest died: it may have run, wholly or
// in part, and is never run again. What it wrote until then is in its log.
func (c *Client) resultOfFailedCall(err error, id string, most int64) (driver.Result, error) {
	if !isClosed(err) {
		return driver.Result{}, c.callError("run", err)
	}
	c.markGone()
	return c.salvagedResult(id, most), nil
}

// salvagedResult is the result of a command that the guest tells nothing of any more.
func (c *Client) salvagedResult(id string, most int64) driver.Result {
	res := driver.Result{}
	if c.Salvage != nil {
		res = c.Salvage(id, most)
	}
	res.ExitCode, res.Cause = -1, c.lossCause()
	return res
}

// lossCause is why a command is lost.
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

// checkResult refuses a result that no honest guest gives.
func (c *Client) checkResult(pb *guestpb.Result) (driver.Result, error) {
	if len(pb.Stdout) > guestproto.MaxStream+4096 || len(pb.Stderr) > guestproto.MaxStream+4096 {
		return driver.Result{}, c.invalidAnswer("run")
	}
	return *guestproto.FromResult(pb), nil
}

// readFirstInput reads what fits into one message, and says whether there is more.
// Only what is in memory is read: anything else could wait for somebody, who
// perhaps waits for the command.
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

// attachSession returns a session by its id.
func (c *Client) attachSession(ctx context.Context, id string) (*driver.Session, error) {
	s := &session{c: c, id: id}
	if _, err := s.State(ctx); err != nil {
		return nil, err
	}
	return s.driverSession(), nil
}
