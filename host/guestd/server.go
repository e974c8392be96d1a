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
	"github.com/croft-run/croft/host/guestproto"
	"github.com/croft-run/croft/host/guestproto/guestpb"
	"github.com/croft-run/croft/host/process"
	"github.com/croft-run/croft/workspace/driver"
)

// A server is the guest's end of the protocol, over the modules that run inside.
type server struct {
	cfg     *guestproto.Config
	shell   *driver.Shell
	files   *fileServer   // nil where the files are the host's business
	reverse *reverseConns // nil where the proxy is in reach, or there is none
	end     func()        // ends the guest
	done    chan struct{} // closed when the guest is about to end

	mu        sync.Mutex
	cancels   map[string]context.CancelFunc // of commands under way, by session
	streams   map[string]*pacedStreams      // output that waits, by session
	clients   map[string]context.Context    // of clients that are there: what one started and did not detach ends with it
	onClients func(n int)                   // told how many
}

var _ guestpb.GuestService = (*server)(nil)

func newServer(cfg *guestproto.Config, shell *driver.Shell, files *fileServer) *server {
	return &server{
		cfg: cfg, shell: shell, files: files, end: func() {}, onClients: func(int) {}, done: make(chan struct{}),
		cancels: map[string]context.CancelFunc{}, streams: map[string]*pacedStreams{}, clients: map[string]context.Context{},
	}
}

// register makes rpc serve what this guest does.
func (s *server) register(rpc *ttrpc.Server) {
	guestpb.RegisterGuestService(rpc, s)
	if s.files != nil {
		guestpb.RegisterFilesService(rpc, s.files)
	}
	if s.reverse != nil {
		guestpb.RegisterRelayService(rpc, s.reverse)
	}
}

// Hello refuses a host of another build or of another workspace. Any other is an
// owner of the guest until it is gone or the guest ends.
func (s *server) Hello(ctx context.Context, r *guestpb.HelloRequest, call guestpb.Guest_HelloServer) error {
	switch {
	case r.Version != s.cfg.Version:
		return guestproto.ToStatus(fmt.Errorf("guest: it is of version %q, the host of %q: %w", s.cfg.Version, r.Version, fault.Evicted))
	case r.Workspace != s.cfg.Workspace:
		return guestproto.ToStatus(fmt.Errorf("guest: it serves another workspace: %w", fault.Failed))
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
	if s.reverse != nil {
		s.reverse.dropClient(client)
	}
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
	res, err := s.shell.Run(process.WithSessionID(ctx, pb.Id), cmd)
	return guestproto.ToResult(&res), err
}

// limitedCommand is what the host asks for, within the limits of the workspace that
// are kept per command.
func (s *server) limitedCommand(pb *guestpb.Command) driver.Command {
	cmd := guestproto.FromCommand(pb)
	for _, r := range driver.Resources {
		limit, most := cmd.Limits[r.Name].Max, s.cfg.Limits[r.Name].Max
		if r.PerCommand && most > 0 && (limit == 0 || limit > most) {
			cmd.Limits = cmd.Limits.With(driver.Limits{r.Name: {Max: most}})
		}
	}
	return cmd
}

// Cancel ends a command.
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
		return nil, fmt.Errorf("guest: the client is not there: %w", fault.WrongState)
	}
	cmd := s.limitedCommand(pb)
	if cmd.Detached {
		life = background()
	}
	life, cancel := context.WithCancel(life)
	p := newPacedStreams(pb, &cmd)
	sess, err := s.shell.Start(process.WithSessionID(life, pb.Id), cmd)
	if err != nil {
		cancel()
		p.closeAll()
		return nil, err
	}
	s.track(sess, p, cancel)
	info, err := sess.State(ctx)
	return guestproto.ToSessionInfo(info), err
}

// track keeps what hangs on a session until it ends.
func (s *server) track(sess *driver.Session, p *pacedStreams, cancel context.CancelFunc) {
	id := sess.ID()
	s.mu.Lock()
	s.streams[id], s.cancels[id] = p, cancel
	if s.clients[p.client] == nil {
		p.discardOutput()
	}
	s.mu.Unlock()
	go func() { // ends with the session, which ends with the guest at the latest
		sess.Wait(background()) //nolint:errcheck // its result is kept by the manager
		cancel()
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

// Next waits for output of a session that was started to be pulled.
func (s *server) Next(_ context.Context, r *guestpb.NextRequest) (*guestpb.NextResponse, error) {
	p := s.streamsOf(r.Id)
	if p == nil {
		return &guestpb.NextResponse{Eof: true}, nil
	}
	data, eof := p.readOutput(driver.Stream(r.Stream), r.Limit)
	return &guestpb.NextResponse{Data: data, Eof: eof}, nil
}

// withSession runs f on a session.
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
			// The program does not want more: that is its own affair.
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

// Resize tells a terminal its size.
func (s *server) Resize(ctx context.Context, r *guestpb.ResizeRequest) (*guestpb.Empty, error) {
	return s.withSession(ctx, r.Id, func(sess *driver.Session) error {
		size := guestproto.FromSize(r.Size)
		if size == nil {
			return fmt.Errorf("guest: resize %s: %w: no size given", r.Id, fault.InvalidArgument)
		}
		if err := sess.Resize(ctx, *size); err != nil || s.cfg.Level != driver.IsolationGVisor {
			return err
		}
		return sess.Signal(ctx, "SIGWINCH") // gVisor keeps the new size to itself
	})
}

// Signal sends a signal.
func (s *server) Signal(ctx context.Context, r *guestpb.SignalRequest) (*guestpb.Empty, error) {
	return s.withSession(ctx, r.Id, func(sess *driver.Session) error { return sess.Signal(ctx, r.Signal) })
}

// Kill ends the tree of a session.
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

// State tells how a session stands.
func (s *server) State(ctx context.Context, r *guestpb.SessionRequest) (*guestpb.SessionInfo, error) {
	sess, err := s.shell.Attach(ctx, r.Id)
	if err != nil {
		return nil, err
	}
	info, err := sess.State(ctx)
	return guestproto.ToSessionInfo(info), err
}

// Close forgets a session.
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

// maxList is what a list of sessions takes at most, in bytes, without numbers.
const maxList = 2 << 20

// truncateSession leaves of what a session was started with as much as fits: who wants
// all of it asks for the session itself.
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
