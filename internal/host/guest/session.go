package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/guestproto/guestpb"
	"github.com/croft-run/croft/workspace/driver"
)

// A session is the host's handle of a session in a guest.
type session struct {
	c    *Client
	id   string
	most int64 // bytes of each stream in a salvaged result

	pumps    sync.WaitGroup // goroutines that pass output to callbacks
	mu       sync.Mutex
	callback []string    // errors of callbacks
	stop     func() bool // detaches the session from the context of Start
}

var _ driver.Process = (*session)(nil)

func (s *session) driverSession() *driver.Session {
	return &driver.Session{Process: s, Log: s.readLog, Signal: s.sendSignal, Resize: s.resizeTerminal}
}

// startSession starts a session and the goroutines that transfer its input and output.
func (c *Client) startSession(ctx context.Context, cmd driver.Command) (*session, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("guest of %s: start: %w", c.workspace, err)
	}
	small, more, err := readFirstInput(cmd.Stdin)
	if err != nil {
		return nil, fmt.Errorf("guest of %s: read standard input: %w", c.workspace, err)
	}
	return c.startSessionWith(ctx, cmd, small, more)
}

func (c *Client) startSessionWith(ctx context.Context, cmd driver.Command, small []byte, more bool) (*session, error) {
	if err := c.checkConnected(); err != nil {
		return nil, err
	}
	pb := encodeCommand(ctx, &cmd)
	pb.Stdin, pb.StdinMore, pb.Client = small, more, c.name
	pb.MaxOutput = min(pb.MaxOutput, guestproto.MaxStream)
	if err := c.sendGroup(ctx, pb); err != nil {
		return nil, err
	}
	call, end := graceContext(ctx)
	defer end()
	info, err := c.svc.Start(call, pb)
	if err != nil {
		return nil, c.callError("start", err)
	}
	s := &session{c: c, id: guestproto.FromSessionInfo(info).ID, most: cmd.MaxOutput}
	if s.id == "" {
		return nil, c.invalidAnswer("start")
	}
	if !cmd.Detached {
		s.stop = context.AfterFunc(ctx, func() {
			c.svc.Cancel(context.WithoutCancel(ctx), &guestpb.SessionRequest{Id: s.id}) //nolint:errcheck // the guest ends it when the connection ends
		})
	}
	if more {
		// A blocked Read can't be interrupted: when the command ends, this goroutine
		// stays until Read returns, and then ends.
		go s.pumpInput(cmd.Stdin)
	}
	if cmd.OnStdout != nil {
		s.pumps.Go(func() { s.pumpOutput(driver.Stdout, cmd.OnStdout) })
	}
	if cmd.OnStderr != nil {
		s.pumps.Go(func() { s.pumpOutput(driver.Stderr, cmd.OnStderr) })
	}
	return s, nil
}

// background is the context of calls that end with the session or with the connection,
// never with a caller.
func background() context.Context { return context.Background() } //nolint:forbidigo // see above

func (s *session) pumpInput(r io.Reader) {
	buf := make([]byte, guestproto.MaxChunk)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if s.Write(background(), buf[:n]) != nil {
				return // the program or the guest has ended
			}
		}
		if err != nil {
			s.CloseStdin(background()) //nolint:errcheck // likewise
			return
		}
	}
}

func (s *session) pumpOutput(stream driver.Stream, take func([]byte) error) {
	for {
		resp, err := s.c.svc.Next(background(), &guestpb.NextRequest{Id: s.id, Stream: string(stream), Limit: guestproto.MaxChunk})
		if err != nil || resp.Eof || len(resp.Data) == 0 || len(resp.Data) > guestproto.MaxChunk {
			return
		}
		if err := recoverCallback(take, resp.Data); err != nil {
			s.mu.Lock()
			if len(s.callback) < 16 {
				s.callback = append(s.callback, err.Error())
			}
			s.mu.Unlock()
		}
	}
}

// recoverCallback calls a callback, and turns a panic into an error.
func recoverCallback(f func([]byte) error, data []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("callback panicked: %v", p)
		}
	}()
	return f(data)
}

// runSession runs a command that needs more than one call.
func (c *Client) runSession(ctx context.Context, cmd driver.Command, small []byte, more bool, most int64) (driver.Result, error) {
	cmd.Detached = false // it ends with ctx
	s, err := c.startSessionWith(ctx, cmd, small, more)
	if err != nil {
		return driver.Result{}, err
	}
	call, end := graceContext(ctx)
	defer end()
	res, err := s.Wait(call)
	if call.Err() != nil { // the guest did not answer in time after it was asked to cancel
		return c.salvagedResult(s.id, most), nil
	}
	return res, err
}

// fillFromLogs replaces truncated output of a result by more of it, from the logs.
func (s *session) fillFromLogs(ctx context.Context, res *driver.Result, want int64) {
	more := func(stream driver.Stream, have *[]byte, dropped *int64) {
		if *dropped == 0 {
			return
		}
		total := int64(len(*have)) + *dropped
		head := min(want/2, total)
		data, err := s.logRange(ctx, stream, 0, head)
		if err != nil {
			return // the truncated output stays
		}
		tail := min(want-head, total-head)
		rest, err := s.logRange(ctx, stream, total-tail, tail)
		if err != nil {
			return
		}
		*have = append(data, rest...)
		*dropped = total - int64(len(*have))
	}
	more(driver.Stdout, &res.Stdout, &res.StdoutDropped)
	more(driver.Stderr, &res.Stderr, &res.StderrDropped)
}

func (s *session) logRange(ctx context.Context, stream driver.Stream, from, n int64) ([]byte, error) {
	var out []byte
	for int64(len(out)) < n {
		c, err := s.readLog(ctx, stream, from+int64(len(out)), n-int64(len(out)))
		if err != nil {
			return nil, err
		}
		if len(c.Data) == 0 {
			return out, nil
		}
		out = append(out, c.Data...)
	}
	return out[:n], nil
}

// ID identifies the session.
func (s *session) ID() string { return s.id }

// call makes a call without an answer.
func (s *session) call(what string, call func() (*guestpb.Empty, error)) error {
	if err := s.c.checkConnected(); err != nil {
		return err
	}
	if _, err := call(); err != nil {
		return s.c.callError(what+" "+s.id, err)
	}
	return nil
}

// Poll returns new output.
func (s *session) Poll(ctx context.Context, limit int64) (driver.Poll, error) {
	if err := s.c.checkConnected(); err != nil {
		return driver.Poll{}, err
	}
	resp, err := s.c.svc.Poll(ctx, &guestpb.PollRequest{Id: s.id, Limit: limit})
	if err != nil {
		return driver.Poll{}, s.c.callError("poll "+s.id, err)
	}
	if int64(len(resp.Stdout)+len(resp.Stderr)) > max(limit, guestproto.MaxStream) {
		return driver.Poll{}, s.c.invalidAnswer("poll " + s.id)
	}
	return driver.Poll{Stdout: resp.Stdout, Stderr: resp.Stderr, Dropped: guestproto.ClampCount(resp.Dropped), Running: resp.Running}, nil
}

// Write writes to standard input.
func (s *session) Write(ctx context.Context, data []byte) error {
	for len(data) > 0 {
		n := min(len(data), guestproto.MaxChunk)
		err := s.call("write to", func() (*guestpb.Empty, error) {
			return s.c.svc.Write(ctx, &guestpb.WriteRequest{Id: s.id, Data: data[:n]})
		})
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// CloseStdin ends standard input.
func (s *session) CloseStdin(ctx context.Context) error {
	return s.call("close standard input of", func() (*guestpb.Empty, error) {
		return s.c.svc.CloseStdin(ctx, &guestpb.SessionRequest{Id: s.id})
	})
}

// Kill kills the process tree.
func (s *session) Kill(ctx context.Context, grace time.Duration) error {
	return s.call("kill", func() (*guestpb.Empty, error) {
		return s.c.svc.Kill(ctx, &guestpb.KillRequest{Id: s.id, GraceNano: int64(grace)})
	})
}

// Wait waits for the end of the session, and for its callbacks to have all output.
func (s *session) Wait(ctx context.Context) (driver.Result, error) {
	if s.c.checkConnected() != nil { // the guest died before this call
		res := s.c.salvagedResult(s.id, s.most)
		res.Session = s.id
		return res, nil
	}
	resp, err := s.c.svc.Wait(ctx, &guestpb.SessionRequest{Id: s.id})
	if err != nil && ctx.Err() != nil {
		return driver.Result{}, ctx.Err()
	}
	if err != nil {
		res, err := s.c.resultOfFailedCall(err, s.id, s.most)
		res.Session = s.id
		return res, err
	}
	res, err := s.c.checkResult(resp)
	if err != nil {
		return res, err
	}
	s.detachContext()
	if err := s.waitForPumps(ctx); err != nil {
		return driver.Result{}, err
	}
	s.mu.Lock()
	res.CallbackErrors = append(res.CallbackErrors, s.callback...)
	s.mu.Unlock()
	return res, nil
}

// State returns the state of the session.
func (s *session) State(ctx context.Context) (driver.SessionInfo, error) {
	if err := s.c.checkConnected(); err != nil {
		return driver.SessionInfo{}, err
	}
	info, err := s.c.svc.State(ctx, &guestpb.SessionRequest{Id: s.id})
	if err != nil {
		return driver.SessionInfo{}, s.c.callError("state of "+s.id, err)
	}
	return guestproto.FromSessionInfo(info), nil
}

// Close removes the session.
func (s *session) Close(ctx context.Context) error {
	err := s.call("close", func() (*guestpb.Empty, error) {
		return s.c.svc.Close(ctx, &guestpb.SessionRequest{Id: s.id})
	})
	s.detachContext()
	if fault.Of(err) == fault.NotFound {
		err = nil // it is removed already
	}
	return errors.Join(err, s.waitForPumps(ctx))
}

// waitForPumps waits until the callbacks have all output, or the context ends: a hostile
// guest may never send the end.
func (s *session) waitForPumps(ctx context.Context) error {
	done := make(chan struct{})
	go func() { // ends with the pumps, which end with the connection at the latest
		defer close(done)
		s.pumps.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// detachContext detaches the session from the context of Start.
func (s *session) detachContext() {
	if s.stop != nil {
		s.stop()
	}
}

func (s *session) readLog(ctx context.Context, stream driver.Stream, offset, limit int64) (driver.LogChunk, error) {
	if err := s.c.checkConnected(); err != nil {
		return driver.LogChunk{}, err
	}
	resp, err := s.c.svc.Log(ctx, &guestpb.LogRequest{Id: s.id, Stream: string(stream), Offset: offset, Limit: limit})
	if err != nil {
		return driver.LogChunk{}, s.c.callError("log of "+s.id, err)
	}
	if len(resp.Data) > guestproto.MaxChunk || limit > 0 && int64(len(resp.Data)) > limit || resp.Next < resp.Offset ||
		resp.Offset < 0 || resp.Next > guestproto.MaxCount || resp.Size != guestproto.ClampCount(resp.Size) {
		return driver.LogChunk{}, s.c.invalidAnswer("log of " + s.id)
	}
	return driver.LogChunk{Data: resp.Data, Offset: resp.Offset, Next: resp.Next, Size: resp.Size}, nil
}

func (s *session) sendSignal(ctx context.Context, name string) error {
	return s.call("signal", func() (*guestpb.Empty, error) {
		return s.c.svc.Signal(ctx, &guestpb.SignalRequest{Id: s.id, Signal: name})
	})
}

func (s *session) resizeTerminal(ctx context.Context, size driver.Size) error {
	return s.call("resize", func() (*guestpb.Empty, error) {
		return s.c.svc.Resize(ctx, &guestpb.ResizeRequest{Id: s.id, Size: guestproto.ToSize(&size)})
	})
}
