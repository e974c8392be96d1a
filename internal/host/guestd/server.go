package guestd

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/ttrpc"
	"google.golang.org/protobuf/proto"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/guestproto/guestpb"
	"github.com/croft-run/croft/internal/host/process"
	"github.com/croft-run/croft/workspace/driver"
)

// A server implements the guest's services of the protocol.
type server struct {
	cfg     *guestproto.Config
	shell   *driver.Shell
	files   *fileServer   // nil unless Config.Files
	reverse *reverseConns // connections that a host relays
	end     func()        // ends the guest
	done    chan struct{} // closed when the guest is about to end
	rights  rightsStore   // descriptors that came over the connections

	mu        sync.Mutex
	cancels   map[string]context.CancelFunc // cancel functions of running commands, by session
	streams   map[string]*pacedStreams      // of running sessions, by session
	clients   map[string]context.Context    // connected clients; sessions that a client started and did not detach end with its context
	onClients func(n int)                   // called with the number of clients
}

var _ guestpb.GuestService = (*server)(nil)

func newServer(cfg *guestproto.Config, shell *driver.Shell, files *fileServer) *server {
	return &server{
		cfg: cfg, shell: shell, files: files, reverse: newReverseConns(), end: func() {}, onClients: func(int) {}, done: make(chan struct{}),
		cancels: map[string]context.CancelFunc{}, streams: map[string]*pacedStreams{}, clients: map[string]context.Context{},
	}
}

// register registers the services of this guest.
func (s *server) register(rpc *ttrpc.Server) {
	guestpb.RegisterGuestService(rpc, s)
	if s.files != nil {
		guestpb.RegisterFilesService(rpc, s.files)
	}
	guestpb.RegisterRelayService(rpc, s.reverse)
}

// Hello registers a client until its connection or the guest ends: a client renews the
// lease. A host of another build, or of another workspace, is refused.
func (s *server) Hello(ctx context.Context, r *guestpb.HelloRequest, call guestpb.Guest_HelloServer) error {
	switch {
	case r.Version != s.cfg.Version:
		return guestproto.ToStatus(fmt.Errorf("guest: version %q, and the host has %q: %w", s.cfg.Version, r.Version, fault.Evicted))
	case r.Workspace != s.cfg.Workspace:
		return guestproto.ToStatus(fmt.Errorf("guest: this one serves another workspace: %w", fault.Failed))
	}
	s.addClient(ctx, r.Client)
	defer s.removeClient(r.Client)
	if err := call.Send(&guestpb.HelloResponse{Version: s.cfg.Version}); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-s.done:
	}
	return nil
}

func (s *server) addClient(ctx context.Context, client string) {
	s.mu.Lock()
	s.clients[client] = ctx
	n := len(s.clients)
	s.mu.Unlock()
	s.onClients(n)
}

func (s *server) removeClient(client string) {
	s.mu.Lock()
	delete(s.clients, client)
	for _, p := range s.streams {
		if p.client == client {
			p.discardOutput()
		}
	}
	n := len(s.clients)
	s.mu.Unlock()
	s.reverse.dropClient(client)
	if n == 0 && s.files != nil {
		s.files.close()
	}
	s.onClients(n)
}

// Shutdown ends the guest once it has answered.
func (s *server) Shutdown(context.Context, *guestpb.Empty) (*guestpb.Empty, error) {
	s.end()
	return &guestpb.Empty{}, nil
}

// Run runs a command in the foreground.
func (s *server) Run(ctx context.Context, pb *guestpb.Command) (*guestpb.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	s.cancels[pb.Id] = cancel
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.cancels, pb.Id)
	}()
	cmd := s.limitedCommand(pb)
	if len(pb.Stdin) > 0 {
		cmd.Stdin = bytes.NewReader(pb.Stdin)
	}
	group, err := s.rights.takeGroup(pb.Group)
	if err != nil {
		return nil, err
	}
	if group != nil {
		defer group.Close()
		ctx = process.WithCommandGroup(ctx, group)
	}
	res, err := s.shell.Run(process.WithSessionID(ctx, pb.Id), cmd)
	return guestproto.ToResult(&res), err
}

// limitedCommand decodes a command and lowers its limits to those of the workspace.
func (s *server) limitedCommand(pb *guestpb.Command) driver.Command {
	cmd := guestproto.FromCommand(pb)
	cmd.Limits = cmd.Limits.LowerTo(s.cfg.Limits)
	return cmd
}

// Cancel cancels a command that runs.
func (s *server) Cancel(_ context.Context, r *guestpb.SessionRequest) (*guestpb.CancelResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cancel := s.cancels[r.Id]
	if cancel != nil {
		cancel()
	}
	return &guestpb.CancelResponse{Found: cancel != nil}, nil
}

// Start starts a session, which outlives the call.
func (s *server) Start(ctx context.Context, pb *guestpb.Command) (*guestpb.SessionInfo, error) {
	s.mu.Lock()
	life := s.clients[pb.Client]
	s.mu.Unlock()
	if life == nil {
		return nil, fmt.Errorf("guest: the client has not said hello, or has disconnected: %w", fault.WrongState)
	}
	cmd := s.limitedCommand(pb)
	if cmd.Detached {
		life = background()
	}
	group, err := s.rights.takeGroup(pb.Group)
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(life)
	end := cancel
	if group != nil {
		life = process.WithCommandGroup(life, group)
		end = func() { cancel(); group.Close() }
	}
	p := newPacedStreams(pb, &cmd)
	sess, err := s.shell.Start(process.WithSessionID(life, pb.Id), cmd)
	if err != nil {
		end()
		p.closeAll()
		return nil, err
	}
	s.track(sess, p, cancel, end)
	info, err := sess.State(ctx)
	return guestproto.ToSessionInfo(info), err
}

// track keeps the streams and the cancel function of a session until the session ends, and
// then calls end.
func (s *server) track(sess *driver.Session, p *pacedStreams, cancel, end context.CancelFunc) {
	id := sess.ID()
	s.mu.Lock()
	s.streams[id], s.cancels[id] = p, cancel
	if s.clients[p.client] == nil {
		p.discardOutput()
	}
	s.mu.Unlock()
	go func() { // ends with the session, which ends with the guest at the latest
		sess.Wait(background()) //nolint:errcheck // its result is kept by the manager
		end()
		p.closeAll()
		s.mu.Lock()
		delete(s.streams, id)
		delete(s.cancels, id)
		s.mu.Unlock()
	}()
}

func (s *server) streamsOf(id string) *pacedStreams {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[id]
}

// Next waits for output of a session whose output the host takes chunk by chunk.
func (s *server) Next(_ context.Context, r *guestpb.NextRequest) (*guestpb.NextResponse, error) {
	p := s.streamsOf(r.Id)
	if p == nil {
		return &guestpb.NextResponse{Eof: true}, nil
	}
	data, eof := p.readOutput(driver.Stream(r.Stream), r.Limit)
	return &guestpb.NextResponse{Data: data, Eof: eof}, nil
}

// withSession calls f with a session.
func (s *server) withSession(ctx context.Context, id string, f func(*driver.Session) error) (*guestpb.Empty, error) {
	sess, err := s.shell.Attach(ctx, id)
	if err == nil {
		err = f(sess)
	}
	return &guestpb.Empty{}, err
}

// Poll returns new output.
func (s *server) Poll(ctx context.Context, r *guestpb.PollRequest) (*guestpb.PollResponse, error) {
	sess, err := s.shell.Attach(ctx, r.Id)
	if err != nil {
		return nil, err
	}
	limit := r.Limit
	if limit <= 0 || limit > guestproto.MaxStream {
		limit = min(max(limit, 64<<10), guestproto.MaxStream)
	}
	p, err := sess.Poll(ctx, limit)
	return &guestpb.PollResponse{Stdout: p.Stdout, Stderr: p.Stderr, Dropped: p.Dropped, Running: p.Running}, err
}

// Log returns a part of a log.
func (s *server) Log(ctx context.Context, r *guestpb.LogRequest) (*guestpb.LogResponse, error) {
	sess, err := s.shell.Attach(ctx, r.Id)
	if err != nil {
		return nil, err
	}
	limit := r.Limit
	if limit <= 0 || limit > guestproto.MaxChunk {
		limit = guestproto.MaxChunk
	}
	c, err := sess.Log(ctx, driver.Stream(r.Stream), r.Offset, limit)
	return &guestpb.LogResponse{Data: c.Data, Offset: c.Offset, Next: c.Next, Size: c.Size}, err
}

// Write writes to standard input.
func (s *server) Write(ctx context.Context, r *guestpb.WriteRequest) (*guestpb.Empty, error) {
	if p := s.streamsOf(r.Id); p != nil && p.stdin != nil {
		if _, err := p.stdin.Write(r.Data); err != nil {
			// The program closed its standard input or has ended.
			return nil, fmt.Errorf("guest: write to %s: standard input is closed: %w", r.Id, fault.WrongState)
		}
		return &guestpb.Empty{}, nil
	}
	return s.withSession(ctx, r.Id, func(sess *driver.Session) error { return sess.Write(ctx, r.Data) })
}

// CloseStdin ends standard input.
func (s *server) CloseStdin(ctx context.Context, r *guestpb.SessionRequest) (*guestpb.Empty, error) {
	if p := s.streamsOf(r.Id); p != nil && p.stdin != nil {
		return &guestpb.Empty{}, p.stdin.Close()
	}
	return s.withSession(ctx, r.Id, func(sess *driver.Session) error { return sess.CloseStdin(ctx) })
}

// Resize sets the size of a terminal.
func (s *server) Resize(ctx context.Context, r *guestpb.ResizeRequest) (*guestpb.Empty, error) {
	return s.withSession(ctx, r.Id, func(sess *driver.Session) error {
		size := guestproto.FromSize(r.Size)
		if size == nil {
			return fmt.Errorf("guest: resize %s: %w: no size given", r.Id, fault.InvalidArgument)
		}
		if err := sess.Resize(ctx, *size); err != nil || s.cfg.Level != driver.IsolationGVisor {
			return err
		}
		return sess.Signal(ctx, "SIGWINCH") // gVisor sends no SIGWINCH by itself
	})
}

// Signal sends a signal.
func (s *server) Signal(ctx context.Context, r *guestpb.SignalRequest) (*guestpb.Empty, error) {
	return s.withSession(ctx, r.Id, func(sess *driver.Session) error { return sess.Signal(ctx, r.Signal) })
}

// Kill kills the process tree of a session.
func (s *server) Kill(ctx context.Context, r *guestpb.KillRequest) (*guestpb.Empty, error) {
	return s.withSession(ctx, r.Id, func(sess *driver.Session) error { return sess.Kill(ctx, time.Duration(r.GraceNano)) })
}

// Wait waits for the end of a session.
func (s *server) Wait(ctx context.Context, r *guestpb.SessionRequest) (*guestpb.Result, error) {
	sess, err := s.shell.Attach(ctx, r.Id)
	if err != nil {
		return nil, err
	}
	res, err := sess.Wait(ctx)
	return guestproto.ToResult(&res), err
}

// State returns the state of a session.
func (s *server) State(ctx context.Context, r *guestpb.SessionRequest) (*guestpb.SessionInfo, error) {
	sess, err := s.shell.Attach(ctx, r.Id)
	if err != nil {
		return nil, err
	}
	info, err := sess.State(ctx)
	return guestproto.ToSessionInfo(info), err
}

// Close removes a session that has ended.
func (s *server) Close(ctx context.Context, r *guestpb.SessionRequest) (*guestpb.Empty, error) {
	return s.withSession(ctx, r.Id, func(sess *driver.Session) error { return sess.Close(ctx) })
}

// Sessions lists the sessions.
func (s *server) Sessions(ctx context.Context, _ *guestpb.Empty) (*guestpb.SessionsResponse, error) {
	list, err := s.shell.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	resp := new(guestpb.SessionsResponse)
	for _, info := range list {
		resp.Sessions = append(resp.Sessions, guestproto.ToSessionInfo(info))
	}
	if proto.Size(resp) > maxList {
		for _, s := range resp.Sessions {
			truncateSession(s, maxList/len(resp.Sessions))
		}
	}
	return resp, nil
}

// maxList bounds the texts in a list of sessions, in bytes.
const maxList = 2 << 20

// truncateSession truncates the texts of a session in a list; State returns them whole.
func truncateSession(s *guestpb.SessionInfo, most int) {
	const parts = 4
	most = max(most/parts, 16)
	s.Script, s.Dir = s.Script[:min(len(s.Script), most)], s.Dir[:min(len(s.Dir), most)]
	left := most
	for i, arg := range s.Argv {
		if left -= len(arg); left < 0 {
			s.Argv[i] = arg[:len(arg)+left]
			s.Argv = s.Argv[:i+1]
			break
		}
	}
	for name, value := range s.Labels {
		if most -= len(name) + len(value); most < 0 {
			s.Labels = nil
			break
		}
	}
}

// background is the context of what ends with the guest, never with a caller.
func background() context.Context { return context.Background() } //nolint:forbidigo // see above
