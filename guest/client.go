package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/ttrpc"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/guest/guestpb"
	"github.com/croft-run/croft/workspace/driver"
)

// A Client is the host's end: a connection to one guest.
type Client struct {
	rpc  *ttrpc.Client
	svc  guestpb.GuestService
	name string // made up, unique, tells the guest whose calls hang together
	tags atomic.Int64

	// WhyLost tells why the guest is gone, where the host knows more than that it
	// is; nil, or "", is not known. It is set before the first call.
	WhyLost func() driver.Cause

	// Left returns, once the guest is gone, what a command has written until then,
	// by the id of its session and at most so many bytes of each stream. It is set
	// before the first call; nil is not known. See LeftIn.
	Left func(id string, most int64) driver.Result

	lane      *lane // nil where another process started the guest
	workspace string
	version   string
	greeting  sync.Mutex             // held by who says hello
	hello     *guestpb.HelloResponse // +checklocks:greeting; nil until then
	holds     bool                   // +checklocks:greeting; the guest was told that it has an owner
	closed    bool                   // +checklocks:greeting
	sole      bool                   // no other client ever speaks to the guest
	gone      chan struct{}          // closed when the connection is
	lose      func()                 // closes gone, once: whoever sees the end of the connection first says so
	shut      atomic.Bool            // Shutdown was called: what is lost from then on was ended on purpose
	hold      sync.WaitGroup
	closeOnce sync.Once
}

// helloTimeout is ample for a guest that is up, which answers in microseconds, also
// on a machine under load: one that does not answer is replaced, with all it runs.
const helloTimeout = 30 * time.Second

// NewClient speaks to a guest over conn, which it takes over. It fails with
// Evicted if the guest is of another version: such a guest is to be replaced.
func NewClient(ctx context.Context, conn net.Conn, version, workspace string) (*Client, error) {
	c := newClient(conn, version, workspace)
	if err := c.greet(ctx); err != nil {
		c.Close() //nolint:errcheck // nothing is lost with it
		return nil, err
	}
	return c, nil
}

// newClient is NewClient for a guest that has nobody else to talk to, and that the
// caller has started: it says hello when it first has something to say. What goes
// over the lane is not said to the protocol.
func newClient(conn net.Conn, version, workspace string) *Client {
	c := &Client{name: driver.NewID(), workspace: workspace, version: version, gone: make(chan struct{})}
	c.lose = sync.OnceFunc(func() { close(c.gone) })
	c.rpc = ttrpc.NewClient(conn, ttrpc.WithOnClose(c.lose), ttrpc.WithUnaryClientInterceptor(c.greeted))
	c.svc = guestpb.NewGuestClient(c.rpc)
	return c
}

// greeted says hello before any other call.
func (c *Client) greeted(ctx context.Context, req *ttrpc.Request, resp *ttrpc.Response, info *ttrpc.UnaryClientInfo, invoke ttrpc.Invoker) error {
	if !strings.HasSuffix(info.FullMethod, "/Hello") && !strings.HasSuffix(info.FullMethod, "/Hold") {
		if err := c.greet(ctx); err != nil {
			return err
		}
	}
	return invoke(ctx, req, resp)
}

// greet says hello, once.
func (c *Client) greet(ctx context.Context) error {
	c.greeting.Lock()
	defer c.greeting.Unlock()
	if c.hello != nil {
		return nil
	}
	if c.closed {
		return ttrpc.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	if !c.holds {
		c.holds = true
		c.hold.Go(c.keepHold)
	}
	hello, err := c.svc.Hello(ctx, &guestpb.HelloRequest{Version: c.version, Workspace: c.workspace, Client: c.name})
	if err == nil {
		err = fromError(hello.Error)
	} else {
		err = c.broken("say hello", err)
	}
	if err == nil {
		c.hello = hello
	}
	return err
}

// keepHold tells the guest that it has an owner, until the connection ends.
func (c *Client) keepHold() {
	ctx, cancel := context.WithCancel(background())
	defer cancel()
	c.svc.Hold(ctx, &guestpb.HoldRequest{Client: c.name}) //nolint:errcheck // it ends with an error, always
}

// Gone is closed when the connection ends.
func (c *Client) Gone() <-chan struct{} { return c.gone }

// Close lets go of the guest, which lives on if it has a lease.
func (c *Client) Close() error {
	var err error
	c.closeOnce.Do(func() {
		err = c.rpc.Close()
		if c.lane != nil {
			c.lane.close()
		}
		c.greeting.Lock()
		c.closed = true
		c.greeting.Unlock()
		c.hold.Wait()
	})
	return err
}

// Ends tells the client that the guest is about to be ended on purpose: what
// ran in it then has the cause destroyed, not lost.
func (c *Client) Ends() { c.shut.Store(true) }

// Shutdown ends the guest and all that runs in it.
func (c *Client) Shutdown(ctx context.Context) error {
	c.Ends()
	_, err := c.svc.Shutdown(ctx, &guestpb.Empty{})
	if err != nil && !errors.Is(err, ttrpc.ErrClosed) {
		return c.broken("shut down", err)
	}
	return nil
}

// ready answers Evicted if the guest is known to be gone: nothing was sent.
func (c *Client) ready() error {
	select {
	case <-c.gone:
		return fmt.Errorf("guest of %s is gone: %w", c.workspace, fault.Evicted)
	default:
		return nil
	}
}

// broken classifies a call that did not come back. Whether it had an effect is
// not known, so it is not Evicted.
func (c *Client) broken(what string, err error) error {
	if closed(err) {
		c.lose()
	}
	if code := fault.Of(err); code == fault.Canceled || code == fault.DeadlineExceeded {
		return fmt.Errorf("guest of %s: %s: %w", c.workspace, what, err)
	}
	if large := (*ttrpc.OversizedMessageErr)(nil); errors.As(err, &large) {
		return fmt.Errorf("guest of %s: %s: %w: it takes %d bytes, and at most %d can be sent at once",
			c.workspace, what, fault.InvalidArgument, large.RejectedLength(), large.MaximumLength())
	}
	return fmt.Errorf("guest of %s: %s: %w: %w", c.workspace, what, fault.Unavailable, err)
}

// closed reports whether an error says that the connection has ended.
func closed(err error) bool { return errors.Is(err, ttrpc.ErrClosed) || errors.Is(err, io.EOF) }

// nonsense is the error for what no honest guest answers.
func (c *Client) nonsense(what string) error {
	return fmt.Errorf("guest of %s: %s: it answered nonsense: %w", c.workspace, what, fault.Unavailable)
}

// Shell returns the module that runs processes in the guest.
func (c *Client) Shell() *driver.Shell {
	return &driver.Shell{Starter: starter{c}, Run: c.run, Sessions: c.sessions, Attach: c.attach}
}

type starter struct{ c *Client }

func (s starter) Start(ctx context.Context, cmd driver.Command) (*driver.Session, error) {
	sess, err := s.c.start(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return sess.module(), nil
}

// run runs a command in the foreground. What one message does not hold of the
// output is read from the log.
func (c *Client) run(ctx context.Context, cmd driver.Command) (driver.Result, error) {
	most := cmd.MaxOutput
	cmd.MaxOutput = min(most, maxStream)
	res, err := c.runSmall(ctx, cmd, most)
	if err == nil && most > maxStream && res.Session != "" && res.StdoutDropped+res.StderrDropped > 0 {
		(&session{c: c, id: res.Session}).enlarge(context.WithoutCancel(ctx), &res, most)
	}
	return res, err
}

// runSmall runs a command in one exchange where it needs no more. most is what the
// caller wants of the output of one that is lost.
func (c *Client) runSmall(ctx context.Context, cmd driver.Command, most int64) (driver.Result, error) {
	if err := ctx.Err(); err != nil {
		return driver.Result{}, err
	}
	small, more, err := firstInput(cmd.Stdin)
	if err != nil {
		return driver.Result{}, fmt.Errorf("guest of %s: read standard input: %w", c.workspace, err)
	}
	if more {
		return c.runSession(ctx, cmd, small, more)
	}
	if err := c.ready(); err != nil {
		return driver.Result{}, err
	}
	tag := c.tag()
	call, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(patience(cmd.Grace), giveUp)
		// The Run itself then answers, with what there is of output, perhaps before
		// this does.
		c.cancel(ctx, tag, cmd.Grace)
	})
	defer stop()
	res, err, ran := c.send(call, &cmd, small, tag, most)
	if !ran {
		stop()
		return c.runSession(ctx, cmd, small, more)
	}
	if call.Err() != nil { // it was told to end the command, and does not answer
		return c.left(tag, most), nil
	}
	return res, err
}

// patience is how long a guest that was told to end a command may take, which is
// ample on a machine under load. One that takes longer is not waited for.
func patience(grace time.Duration) time.Duration { return max(grace, 0) + cancelTime }

var cancelTime = 30 * time.Second // tests have less

// send runs a command over the lane, or by the protocol. It answers false where
// that takes more than one exchange, and nothing was sent.
func (c *Client) send(ctx context.Context, cmd *driver.Command, small []byte, tag string, most int64) (driver.Result, error, bool) { //nolint:revive // whether it ran is no part of the error
	if plain(cmd) {
		o := &order{client: c.name, tag: tag, cmd: *cmd, stdin: small}
		res, err, ran := c.lane.run(ctx, o)
		if ran && ctx.Err() == nil {
			res, err = c.came(res, err, tag, most)
		}
		if ran { // and perhaps nobody waits for it any more
			return res, err, true
		}
	}
	if cmd.OnStdout != nil || cmd.OnStderr != nil {
		return driver.Result{}, nil, false
	}
	res, err := c.exchange(ctx, cmd, small, tag, most)
	return res, err, true
}

// came turns what came over the lane into a result.
func (c *Client) came(res driver.Result, err error, tag string, most int64) (driver.Result, error) {
	switch {
	case errors.Is(err, errNonsense):
		return driver.Result{}, c.nonsense("run")
	case errors.Is(err, io.EOF):
		return c.lost(err, tag, most)
	}
	return res, err
}

// exchange runs a command by the protocol.
func (c *Client) exchange(ctx context.Context, cmd *driver.Command, small []byte, tag string, most int64) (driver.Result, error) {
	pb := toCommand(cmd)
	pb.Stdin, pb.Tag = small, tag
	resp, err := c.svc.Run(ctx, pb)
	if err != nil {
		return c.lost(err, tag, most)
	}
	if err := fromError(resp.Error); err != nil {
		return driver.Result{}, err
	}
	return c.checked(resp.Result)
}

// tag makes up a name for a command, by which it can be cancelled. It is a valid id.
func (c *Client) tag() string {
	const digits = 12 // of 36 each: they last
	n := strconv.FormatInt(c.tags.Add(1), 36)
	return c.name[:driver.IDLength-digits] + strings.Repeat("0", digits-len(n)) + n
}

// lost is the result of a command whose guest died: it may have run, wholly or
// in part, and is never run again. What it wrote until then is in its log.
func (c *Client) lost(err error, id string, most int64) (driver.Result, error) {
	if !closed(err) {
		return driver.Result{}, c.broken("run", err)
	}
	c.lose()
	return c.left(id, most), nil
}

// left is the result of a command that the guest tells nothing of any more.
func (c *Client) left(id string, most int64) driver.Result {
	res := driver.Result{}
	if c.Left != nil {
		res = c.Left(id, most)
	}
	res.ExitCode, res.Cause = -1, c.loss()
	return res
}

// loss is why a command is lost.
func (c *Client) loss() driver.Cause {
	if c.shut.Load() {
		return driver.CauseDestroyed
	}
	if c.WhyLost != nil {
		if cause := c.WhyLost(); cause != "" {
			return cause
		}
	}
	return driver.CauseLost
}

// checked refuses a result that no honest guest gives.
func (c *Client) checked(pb *guestpb.Result) (driver.Result, error) {
	if pb == nil || len(pb.Stdout) > maxStream+4096 || len(pb.Stderr) > maxStream+4096 {
		return driver.Result{}, c.nonsense("run")
	}
	return *fromResult(pb), nil
}

// firstInput reads what fits into one message, and says whether there is more.
// Only what is in memory is read: anything else could wait for somebody, who
// perhaps waits for the command.
func firstInput(r io.Reader) (data []byte, more bool, err error) {
	if r == nil {
		return nil, false, nil
	}
	if _, inMemory := r.(interface{ Len() int }); !inMemory { // such as *bytes.Reader
		return nil, true, nil
	}
	buf := make([]byte, maxChunk)
	n, err := io.ReadFull(r, buf)
	switch err { // ReadFull answers just these
	case nil:
		return buf, true, nil
	case io.EOF, io.ErrUnexpectedEOF:
		return buf[:n], false, nil
	}
	return nil, false, err
}

// sessions lists the sessions.
func (c *Client) sessions(ctx context.Context) ([]driver.SessionInfo, error) {
	if err := c.ready(); err != nil {
		return nil, err
	}
	if c.sole && c.tags.Load() == 0 {
		return nil, nil // nobody has started any
	}
	resp, err := c.svc.Sessions(ctx, &guestpb.Empty{})
	if err != nil {
		return nil, c.broken("list sessions", err)
	}
	var list []driver.SessionInfo
	for _, pb := range resp.Sessions {
		list = append(list, fromInfo(pb))
	}
	return list, fromError(resp.Error)
}

// attach returns a session by its id.
func (c *Client) attach(ctx context.Context, id string) (*driver.Session, error) {
	s := &session{c: c, id: id}
	if _, err := s.State(ctx); err != nil {
		return nil, err
	}
	return s.module(), nil
}
