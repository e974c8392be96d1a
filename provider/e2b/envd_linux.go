package e2b

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guest/remote"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/server/e2b/envd/envdpb"
	"github.com/croft-run/croft/internal/tail"
)

// envdPort is the port of envd in a sandbox.
const envdPort = 49983

// An envd is the daemon inside a sandbox.
type envd struct {
	id      string // of the sandbox
	base    string
	client  *http.Client
	process envdpb.ProcessClient
}

// newEnvd returns the envd of a sandbox. all is the URL of all sandboxes; "" means that each
// has a host of its own.
func newEnvd(box sandbox, all string, transport http.RoundTripper) (*envd, error) {
	e := &envd{id: box.ID, base: all}
	if all == "" {
		switch {
		case box.Domain == "":
			return nil, fmt.Errorf("sandbox %s: %w: the server names no domain; set the option \"sandboxes\"", box.ID, fault.InvalidArgument)
		case !validDomain.MatchString(box.Domain):
			return nil, fmt.Errorf("sandbox %s: the domain that the server names, %.80q: %w: it is no host name", box.ID, box.Domain, fault.Failed)
		}
		e.base = fmt.Sprintf("https://%d-%s.%s", envdPort, box.ID, box.Domain)
	}
	e.client = newClient(&sandboxTransport{box, transport})
	e.process = envdpb.NewProcessClient(e.client, e.base, connect.WithReadMaxBytes(maxAnswer))
	return e, nil
}

// A sandboxTransport adds the headers by which a request reaches a sandbox.
type sandboxTransport struct {
	box  sandbox
	next http.RoundTripper
}

// RoundTrip makes the request.
func (t *sandboxTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("E2b-Sandbox-Id", t.box.ID)
	r.Header.Set("E2b-Sandbox-Port", strconv.Itoa(envdPort))
	r.Header.Set("X-Access-Token", t.box.Token)
	if t.box.TrafficToken != "" {
		r.Header.Set("E2B-Traffic-Access-Token", t.box.TrafficToken)
	}
	return t.next.RoundTrip(r)
}

// callError is the error of a call of envd.
func (e *envd) callError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("sandbox %s: %w", e.id, ctx.Err())
	}
	text := shorten(err.Error()) // a program in the sandbox may have written it
	switch connect.CodeOf(err) {
	case connect.CodeUnavailable, connect.CodeUnknown, connect.CodeInternal, connect.CodeAborted, connect.CodeResourceExhausted, connect.CodeDeadlineExceeded, connect.CodeCanceled:
		return &remote.UnreachableError{Err: fmt.Errorf("sandbox %s: %w: %s", e.id, fault.Unavailable, text)}
	case connect.CodeNotFound:
		return fmt.Errorf("sandbox %s: %w: %s", e.id, fault.NotFound, text)
	case connect.CodeUnauthenticated, connect.CodePermissionDenied:
		return fmt.Errorf("sandbox %s: %w: %s", e.id, fault.PermissionDenied, text)
	}
	return fmt.Errorf("sandbox %s: %w: %s", e.id, fault.Failed, text)
}

// upload writes a file, and creates its directories.
func (e *envd) upload(ctx context.Context, path string, body io.Reader, size int64) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.base+"/files?"+url.Values{"path": {path}}.Encode(), body)
	if err != nil {
		return fmt.Errorf("%w: %w", fault.InvalidArgument, err)
	}
	r.ContentLength = size
	r.Header.Set("Content-Type", "application/octet-stream")
	resp, err := e.client.Do(r)
	if err != nil {
		return requestError(ctx, "sandbox "+e.id, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
		err = statusError("sandbox "+e.id, resp.StatusCode, data)
	}
	return err
}

// A program is a process of envd, whose standard input and output are a stream.
type program struct {
	e      *envd
	pid    uint32
	stream *connect.ServerStreamForClient[envdpb.StartResponse]
	cancel context.CancelFunc
	life   context.Context // until Close
	close  func()
	stderr tail.Buffer

	out   []byte                        // not read yet
	ended *envdpb.ProcessEvent_EndEvent // nil while it runs
	write sync.Mutex                    // keeps input in order
}

var _ io.ReadWriteCloser = (*program)(nil)

// start starts a program. The context bounds the start alone.
func (e *envd) start(ctx context.Context, argv ...string) (*program, error) {
	p := &program{e: e}
	p.life, p.cancel = context.WithCancel(context.WithoutCancel(ctx)) // a deadline would end the process
	stop := context.AfterFunc(ctx, p.cancel)
	defer stop()
	p.close = sync.OnceFunc(p.end)
	stream, err := e.process.Start(p.life, &envdpb.StartRequest{Process: &envdpb.ProcessConfig{Cmd: argv[0], Args: argv[1:]}})
	if err == nil {
		p.stream = stream
		err = p.receiveStart()
	}
	if err != nil {
		p.cancel()
		return nil, e.callError(ctx, err)
	}
	return p, nil
}

// receiveStart reads the first event.
func (p *program) receiveStart() error {
	for p.stream.Receive() {
		if start := p.stream.Msg().GetEvent().GetStart(); start != nil {
			p.pid = start.GetPid()
			return nil
		}
	}
	return p.lost()
}

// lost is the error of a stream that has ended before the program.
func (p *program) lost() error {
	if err := p.stream.Err(); err != nil {
		return err
	}
	return connect.NewError(connect.CodeUnavailable, io.ErrUnexpectedEOF)
}

// Read reads standard output.
func (p *program) Read(b []byte) (int, error) {
	for len(p.out) == 0 {
		if p.ended != nil || !p.stream.Receive() {
			return 0, io.EOF
		}
		event := p.stream.Msg().GetEvent()
		if data := event.GetData(); data != nil {
			p.out = data.GetStdout()
			p.stderr.Write(data.GetStderr()) //nolint:errcheck // it never fails
		}
		p.ended = event.GetEnd()
	}
	n := copy(b, p.out)
	p.out = p.out[n:]
	return n, nil
}

// inputTimeout bounds one write to a program.
const inputTimeout = time.Minute

// maxInput is how many bytes are sent at once.
const maxInput = 1 << 20

// Write writes to standard input.
func (p *program) Write(b []byte) (int, error) {
	p.write.Lock()
	defer p.write.Unlock()
	ctx, cancel := context.WithTimeout(p.life, inputTimeout)
	defer cancel()
	for sent := 0; sent < len(b); {
		part := b[sent:min(len(b), sent+maxInput)]
		_, err := p.e.process.SendInput(ctx, &envdpb.SendInputRequest{
			Process: p.selector(), Input: &envdpb.ProcessInput{Input: &envdpb.ProcessInput_Stdin{Stdin: part}},
		})
		if err != nil && p.life.Err() != nil {
			return sent, fmt.Errorf("sandbox %s: the stream is closed: %w", p.e.id, io.EOF)
		}
		if err != nil {
			return sent, p.e.callError(ctx, err)
		}
		sent += len(part)
	}
	return len(b), nil
}

func (p *program) selector() *envdpb.ProcessSelector {
	return &envdpb.ProcessSelector{Selector: &envdpb.ProcessSelector_Pid{Pid: p.pid}}
}

// Close kills the program.
func (p *program) Close() error {
	p.close()
	return nil
}

// release closes the stream; the program lives on.
func (p *program) release() { p.cancel() }

func (p *program) end() {
	p.cancel()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.life), 10*time.Second)
	defer cancel()
	//nolint:errcheck // it has ended, or ends by itself
	p.e.process.SendSignal(ctx, &envdpb.SendSignalRequest{Process: p.selector(), Signal: envdpb.Signal_SIGNAL_SIGKILL})
}

// run runs a shell script and returns its output and exit status.
func (e *envd) run(ctx context.Context, script string) (out string, stderr string, status int, err error) {
	p, err := e.start(ctx, "/bin/sh", "-c", script)
	if err != nil {
		return "", "", 0, err
	}
	defer p.cancel()
	stop := context.AfterFunc(ctx, p.cancel)
	defer stop()
	data, err := io.ReadAll(io.LimitReader(p, 64<<10))
	if ctx.Err() != nil {
		return "", "", 0, fmt.Errorf("sandbox %s: %w", e.id, ctx.Err())
	}
	if err == nil && p.ended == nil {
		return "", "", 0, e.callError(ctx, p.lost())
	}
	return string(data), p.stderr.String(), int(p.ended.GetExitCode()), err
}

// A tunnel is the stream of "croft-guest tunnel": what is written goes in messages. Empty
// ones show that this process lives.
type tunnel struct {
	*program
	done chan struct{}
}

// openTunnel connects to the guest in dir.
func (e *envd) openTunnel(ctx context.Context, guest, dir string) (*tunnel, error) {
	p, err := e.start(ctx, guest, guestproto.TunnelVerb, dir)
	if err != nil {
		return nil, err
	}
	t := &tunnel{p, make(chan struct{})}
	go t.keepAlive() // ends with Close
	return t, nil
}

func (t *tunnel) keepAlive() {
	defer close(t.done)
	tick := time.NewTicker(guestproto.TunnelKeepAlive)
	defer tick.Stop()
	for {
		select {
		case <-t.life.Done():
			return
		case <-tick.C:
			if guestproto.WriteMessage(t.program, nil) != nil {
				t.cancel() // reads end
				return
			}
		}
	}
}

// Write sends one message.
func (t *tunnel) Write(b []byte) (int, error) {
	if err := guestproto.WriteMessage(t.program, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Close ends the tunnel.
func (t *tunnel) Close() error {
	t.program.Close() //nolint:errcheck // it always answers nil
	<-t.done
	return nil
}
