package envd

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/e2b/envd/envdpb"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Labels of the sessions that are processes of E2B.
const (
	labelProcess = "e2b.process" // "true"
	labelTag     = "e2b.tag"
	labelDir     = "e2b.cwd" // a directory outside the workspace, see outsideDir
)

// endedRetain is how long an ended process can be connected to.
const endedRetain = 30 * time.Second

// A process is a session of the workspace that E2B's clients see as a process.
type process struct {
	*workspace.Session
	handle *workspace.Workspace // that the session belongs to
	pid    uint32
	tag    string
	tty    bool
	envs   map[string]string // as the client gave them; nil for a process of an earlier server
}

// processService implements process.Process.
type processService struct{ *Server }

var _ envdpb.ProcessHandler = processService{}

// List lists the processes that run.
func (s processService) List(ctx context.Context, _ *envdpb.ListRequest) (*envdpb.ListResponse, error) {
	c := callOf(ctx)
	sessions, err := c.sessions(ctx)
	if err != nil {
		return nil, rpcError(ctx, err)
	}
	res := &envdpb.ListResponse{}
	for _, info := range sessions {
		if !info.Running {
			continue
		}
		argv, dir := info.Argv, ""
		if outer := info.Labels[labelDir]; outer != "" {
			argv, dir = argv[min(len(outsideDir), len(argv)):], outer
		} else if info.Dir != "" {
			dir = path.Join(c.home(), info.Dir)
		}
		p := &envdpb.ProcessInfo{Pid: pidOf(info), Config: &envdpb.ProcessConfig{}}
		if len(argv) > 0 {
			p.Config.Cmd, p.Config.Args = argv[0], argv[1:]
		}
		if dir != "" {
			p.Config.Cwd = &dir
		}
		if tag, ok := info.Labels[labelTag]; ok {
			p.Tag = &tag
		}
		c.box.mu.Lock()
		if known := c.box.procs[p.Pid]; known != nil && known.ID() == info.ID {
			p.Config.Envs = known.envs
		}
		c.box.mu.Unlock()
		res.Processes = append(res.Processes, p)
	}
	return res, nil
}

// sessions lists the sessions that are processes of E2B.
func (c *sandboxCall) sessions(ctx context.Context) ([]driver.SessionInfo, error) {
	all, err := c.Workspace.Sessions(ctx)
	return slices.DeleteFunc(all, func(i driver.SessionInfo) bool { return i.Labels[labelProcess] == "" || i.PID <= 0 }), err
}

func pidOf(info driver.SessionInfo) uint32 { return uint32(min(max(info.PID, 0), math.MaxUint32)) } //nolint:gosec // it is bounded

// Start starts a process and streams its output until it ends or the time-out of the
// request has passed, which kills it. If the connection is lost, the process continues.
func (s processService) Start(ctx context.Context, req *envdpb.StartRequest, stream *connect.ServerStream[envdpb.StartResponse]) error {
	c := callOf(ctx)
	if err := c.checkUser(ctx); err != nil {
		return rpcError(ctx, err)
	}
	cmd, err := c.command(ctx, req)
	if err != nil {
		return rpcError(ctx, err)
	}
	out := newEvents(stream.Conn().RequestHeader().Get(keepaliveHeader), func(e *envdpb.ProcessEvent) error {
		return stream.Send(&envdpb.StartResponse{Event: e})
	})
	defer out.close()
	out.own = true
	cmd.OnStdout, cmd.OnStderr = out.callback(driver.Stdout, cmd.TTY != nil), out.callback(driver.Stderr, false)
	p, err := c.start(ctx, cmd, req)
	if err != nil {
		return rpcError(ctx, err)
	}
	return rpcError(ctx, out.run(ctx, p))
}

// command returns the command of a request.
func (c *sandboxCall) command(ctx context.Context, req *envdpb.StartRequest) (driver.Command, error) {
	cfg := req.GetProcess()
	cmd := driver.Command{
		Argv: append([]string{cfg.GetCmd()}, cfg.GetArgs()...), Env: map[string]string{}, Detached: true,
		Interactive: req.Stdin == nil || *req.Stdin, Labels: map[string]string{labelProcess: "true"},
	}
	maps.Copy(cmd.Env, c.Env)
	maps.Copy(cmd.Env, cfg.GetEnvs())
	if cfg.GetCmd() == "" {
		return cmd, fmt.Errorf("start: %w: the command is empty", fault.InvalidArgument)
	}
	if req.Tag != nil {
		cmd.Labels[labelTag] = *req.Tag
	}
	if req.Pty != nil {
		size := ttySize(req.Pty.GetSize())
		cmd.TTY, cmd.Interactive = &size, true
	}
	if deadline, ok := ctx.Deadline(); ok {
		cmd.Timeout = max(time.Until(deadline), time.Millisecond)
	}
	return cmd, c.setDir(ctx, &cmd, cfg.GetCwd())
}

// ttySize returns the size of a terminal; the default is that of envd.
func ttySize(size *envdpb.PTY_Size) driver.Size {
	if size.GetCols() == 0 && size.GetRows() == 0 {
		return driver.Size{Rows: 24, Cols: 80}
	}
	return driver.Size{Rows: int(size.GetRows()), Cols: int(size.GetCols())}
}

// outsideDir runs a command in a directory outside the workspace, its next argument.
var outsideDir = []string{"/bin/sh", "-c", `cd -- "$0" && exec "$@"`, ""}

// setDir sets the directory of a command.
func (c *sandboxCall) setDir(ctx context.Context, cmd *driver.Command, cwd string) error {
	l, err := c.locate(cwd)
	if err != nil || l.name == "." {
		return err
	}
	info, err := c.stat(ctx, l, true)
	if fault.Of(err) == fault.NotFound || err == nil && info.Type != driver.TypeDir {
		return fmt.Errorf("cwd %q: %w: there is no such directory", l.abs, fault.InvalidArgument)
	}
	if err != nil {
		return err
	}
	if !info.outside {
		cmd.Dir = l.name
		return nil
	}
	wrapper := slices.Clone(outsideDir)
	wrapper[len(wrapper)-1] = l.abs
	cmd.Argv, cmd.Labels[labelDir] = append(wrapper, cmd.Argv...), l.abs
	return nil
}

// start starts a process and remembers it.
func (c *sandboxCall) start(ctx context.Context, cmd driver.Command, req *envdpb.StartRequest) (*process, error) {
	c.removeEnded(ctx, false)
	session, err := c.Workspace.Start(ctx, cmd)
	if fault.Of(err) == fault.ResourceExhausted && c.removeEnded(ctx, true) > 0 {
		session, err = c.Workspace.Start(ctx, cmd)
	}
	switch fault.Of(err) {
	case "":
	case fault.NotFound, fault.PermissionDenied, fault.SandboxViolation:
		return nil, fmt.Errorf("%w: %w", fault.InvalidArgument, err) // as envd answers
	default:
		return nil, err
	}
	info, err := session.State(ctx)
	if err != nil {
		return nil, err
	}
	p := &process{Session: session, handle: c.Workspace, pid: pidOf(info), tag: req.GetTag(), tty: cmd.TTY != nil, envs: req.GetProcess().GetEnvs()}
	c.box.mu.Lock()
	c.box.procs[p.pid] = p
	c.box.mu.Unlock()
	return p, nil
}

// removeEnded removes processes that ended endedRetain ago, or all ended ones, at most
// every endedRetain unless all. It returns their number.
func (c *sandboxCall) removeEnded(ctx context.Context, all bool) int {
	now := time.Now()
	c.box.mu.Lock()
	due := all || now.Sub(c.box.swept) > c.retain
	if due {
		c.box.swept = now
	}
	c.box.mu.Unlock()
	if !due {
		return 0
	}
	sessions, err := c.sessions(ctx)
	if err != nil {
		return 0 // the next call tries again
	}
	n := 0
	for _, info := range sessions {
		if info.Running || info.Result == nil || !all && now.Sub(info.Started.Add(info.Result.Duration)) < c.retain {
			continue
		}
		session, err := c.Workspace.Attach(ctx, info.ID)
		if err != nil || session.Close(ctx) != nil {
			continue // likewise
		}
		n++
		c.box.mu.Lock()
		if p := c.box.procs[pidOf(info)]; p != nil && p.ID() == info.ID {
			delete(c.box.procs, p.pid)
		}
		c.box.mu.Unlock()
	}
	return n
}

// find returns the process that a selector names.
func (c *sandboxCall) find(ctx context.Context, sel *envdpb.ProcessSelector) (*process, error) {
	pid, byPID := sel.GetSelector().(*envdpb.ProcessSelector_Pid)
	tag, byTag := sel.GetSelector().(*envdpb.ProcessSelector_Tag)
	if !byPID && !byTag {
		return nil, fmt.Errorf("process: %w: neither pid nor tag is given", fault.InvalidArgument)
	}
	if byPID {
		c.box.mu.Lock()
		p := c.box.procs[pid.Pid]
		c.box.mu.Unlock()
		if p != nil && p.handle == c.Workspace {
			return p, nil
		}
	}
	sessions, err := c.sessions(ctx)
	if err != nil {
		return nil, err
	}
	var found *driver.SessionInfo // the running one, or else the latest
	for _, info := range sessions {
		label, tagged := info.Labels[labelTag]
		if byPID && pidOf(info) != pid.Pid || byTag && (!tagged || label != tag.Tag) {
			continue
		}
		if found == nil || info.Running && !found.Running || info.Running == found.Running && info.Started.After(found.Started) {
			found = &info
		}
	}
	if found == nil {
		if byPID {
			return nil, fmt.Errorf("process %d: %w", pid.Pid, fault.NotFound)
		}
		return nil, fmt.Errorf("process with tag %.200q: %w", tag.Tag, fault.NotFound)
	}
	c.box.mu.Lock()
	p := c.box.procs[pidOf(*found)]
	c.box.mu.Unlock()
	var envs map[string]string
	if p != nil && p.ID() == found.ID {
		if p.handle == c.Workspace {
			return p, nil
		}
		envs = p.envs // the handle was closed, by a pause for example; the process lives on
	}
	session, err := c.Workspace.Attach(ctx, found.ID)
	if err != nil {
		return nil, err
	}
	p = &process{Session: session, handle: c.Workspace, pid: pidOf(*found), tag: found.Labels[labelTag], tty: found.TTY, envs: envs}
	c.box.mu.Lock()
	c.box.procs[p.pid] = p
	c.box.mu.Unlock()
	return p, nil
}

// findRunning is find, and an ended process is not found.
func (c *sandboxCall) findRunning(ctx context.Context, sel *envdpb.ProcessSelector) (*process, error) {
	p, err := c.find(ctx, sel)
	if err != nil {
		return nil, err
	}
	info, err := p.State(ctx)
	if err == nil && !info.Running {
		err = fmt.Errorf("process %d: %w: it has ended", p.pid, fault.NotFound)
	}
	return p, err
}

// Connect streams the output of a process from now on. An ended process can be connected
// to for endedRetain.
func (s processService) Connect(ctx context.Context, req *envdpb.ConnectRequest, stream *connect.ServerStream[envdpb.ConnectResponse]) error {
	p, err := callOf(ctx).find(ctx, req.GetProcess())
	if err != nil {
		return rpcError(ctx, err)
	}
	out := newEvents(stream.Conn().RequestHeader().Get(keepaliveHeader), func(e *envdpb.ProcessEvent) error {
		return stream.Send(&envdpb.ConnectResponse{Event: e})
	})
	defer out.close()
	return rpcError(ctx, out.follow(ctx, p))
}

// Update resizes the terminal of a process.
func (s processService) Update(ctx context.Context, req *envdpb.UpdateRequest) (*envdpb.UpdateResponse, error) {
	p, err := callOf(ctx).findRunning(ctx, req.GetProcess())
	if err == nil && req.Pty != nil {
		err = p.Resize(ctx, ttySize(req.Pty.GetSize()))
	}
	return &envdpb.UpdateResponse{}, rpcError(ctx, err)
}

// SendInput writes to the standard input or the terminal of a process.
func (s processService) SendInput(ctx context.Context, req *envdpb.SendInputRequest) (*envdpb.SendInputResponse, error) {
	p, err := callOf(ctx).findRunning(ctx, req.GetProcess())
	if err == nil {
		err = p.input(ctx, req.GetInput())
	}
	return &envdpb.SendInputResponse{}, rpcError(ctx, err)
}

func (p *process) input(ctx context.Context, in *envdpb.ProcessInput) error {
	switch in := in.GetInput().(type) {
	case *envdpb.ProcessInput_Stdin:
		if p.tty {
			return fmt.Errorf("process %d: %w: it has a terminal, whose input is pty", p.pid, fault.WrongState)
		}
		return p.Write(ctx, in.Stdin)
	case *envdpb.ProcessInput_Pty:
		if !p.tty {
			return fmt.Errorf("process %d: %w: it has no terminal, its input is stdin", p.pid, fault.WrongState)
		}
		return p.Write(ctx, in.Pty)
	}
	return fmt.Errorf("input: %w: neither stdin nor pty is given", fault.InvalidArgument)
}

// StreamInput writes a stream of input to a process, in order.
func (s processService) StreamInput(ctx context.Context, stream *connect.ClientStream[envdpb.StreamInputRequest]) (*envdpb.StreamInputResponse, error) {
	var p *process
	for stream.Receive() {
		var err error
		switch e := stream.Msg().GetEvent().(type) {
		case *envdpb.StreamInputRequest_Start:
			p, err = callOf(ctx).findRunning(ctx, e.Start.GetProcess())
		case *envdpb.StreamInputRequest_Data:
			if p == nil {
				err = fmt.Errorf("stream input: %w: the first message must name the process", fault.InvalidArgument)
				break
			}
			err = p.input(ctx, e.Data.GetInput())
		case *envdpb.StreamInputRequest_Keepalive:
		default:
			err = fmt.Errorf("stream input: %w: an empty message", fault.InvalidArgument)
		}
		if err != nil {
			return nil, rpcError(ctx, err)
		}
	}
	return &envdpb.StreamInputResponse{}, stream.Err()
}

// SendSignal sends SIGTERM to the foreground process group, or kills the process tree.
func (s processService) SendSignal(ctx context.Context, req *envdpb.SendSignalRequest) (*envdpb.SendSignalResponse, error) {
	p, err := callOf(ctx).findRunning(ctx, req.GetProcess())
	if err == nil {
		switch req.GetSignal() {
		case envdpb.Signal_SIGNAL_SIGKILL:
			err = p.Kill(ctx, 0)
		case envdpb.Signal_SIGNAL_SIGTERM:
			err = p.Signal(ctx, "SIGTERM")
		default:
			err = fmt.Errorf("signal %d: %w: it is SIGTERM or SIGKILL", req.GetSignal(), fault.InvalidArgument)
		}
	}
	return &envdpb.SendSignalResponse{}, rpcError(ctx, err)
}

// CloseStdin ends the standard input of a process.
func (s processService) CloseStdin(ctx context.Context, req *envdpb.CloseStdinRequest) (*envdpb.CloseStdinResponse, error) {
	p, err := callOf(ctx).findRunning(ctx, req.GetProcess())
	if err == nil && p.tty {
		err = fmt.Errorf("process %d: %w: the input of a terminal is not closed; send Ctrl-D (0x04)", p.pid, fault.WrongState)
	}
	if err == nil {
		err = p.CloseStdin(ctx)
	}
	return &envdpb.CloseStdinResponse{}, rpcError(ctx, err)
}

const (
	keepaliveHeader  = "Keepalive-Ping-Interval" // seconds
	defaultKeepalive = 90 * time.Second
	maxKeepalive     = 3600
)

// keepalive returns the interval of a request.
func keepalive(header string) time.Duration {
	if n, err := strconv.Atoi(header); err == nil && n > 0 && n <= maxKeepalive {
		return time.Duration(n) * time.Second
	}
	return defaultKeepalive
}

// events sends what happens to a process to one client.
type events struct {
	send  func(*envdpb.ProcessEvent) error
	every time.Duration // between keep-alives
	own   bool          // the request started the process: its time-out is that of the request
	data  chan *envdpb.ProcessEvent
	gone  chan struct{} // closed once the client takes no more
	work  sync.WaitGroup
}

func newEvents(keep string, send func(*envdpb.ProcessEvent) error) *events {
	return &events{send: send, every: keepalive(keep), data: make(chan *envdpb.ProcessEvent), gone: make(chan struct{})}
}

// close unblocks callbacks, whose output goes only to the log from then on, and waits for
// the goroutines.
func (e *events) close() {
	close(e.gone)
	e.work.Wait()
}

// callback returns a callback for output. The process waits while the client is slow.
func (e *events) callback(stream driver.Stream, tty bool) func([]byte) error {
	return func(data []byte) error {
		select {
		case e.data <- dataEvent(stream, tty, bytes.Clone(data)):
		case <-e.gone:
		}
		return nil
	}
}

func dataEvent(stream driver.Stream, tty bool, data []byte) *envdpb.ProcessEvent {
	d := &envdpb.ProcessEvent_DataEvent{}
	switch {
	case tty:
		d.Output = &envdpb.ProcessEvent_DataEvent_Pty{Pty: data}
	case stream == driver.Stderr:
		d.Output = &envdpb.ProcessEvent_DataEvent_Stderr{Stderr: data}
	default:
		d.Output = &envdpb.ProcessEvent_DataEvent_Stdout{Stdout: data}
	}
	return &envdpb.ProcessEvent{Event: &envdpb.ProcessEvent_Data{Data: d}}
}

// run sends the events of a process whose callbacks are those of e, until it ends.
func (e *events) run(ctx context.Context, p *process) error {
	return e.loop(ctx, p, func(ctx context.Context) error { return nil })
}

// follow sends the events of a process from now on, with output from its log.
func (e *events) follow(ctx context.Context, p *process) error {
	from := map[driver.Stream]int64{}
	streams := []driver.Stream{driver.Stdout, driver.Stderr}
	if p.tty {
		streams = streams[:1]
	}
	for _, stream := range streams {
		chunk, err := p.Log(ctx, stream, 0, 1)
		if err != nil {
			return err
		}
		from[stream] = chunk.Size
	}
	return e.loop(ctx, p, func(ctx context.Context) error {
		errs := make(chan error, len(streams))
		for _, stream := range streams {
			go func() { // the loop below waits for it
				errs <- p.Follow(ctx, stream, from[stream], func(c driver.LogChunk) error {
					return e.callback(stream, p.tty)(c.Data)
				})
			}()
		}
		var first error
		for range streams {
			if err := <-errs; err != nil && first == nil {
				first = err
			}
		}
		return first
	})
}

// loop sends the start of a process, its output and its end. output returns when all
// output was passed on.
func (e *events) loop(ctx context.Context, p *process, output func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type end struct {
		res driver.Result
		err error
	}
	ended := make(chan end, 1)
	e.work.Go(func() {
		err := output(ctx)
		var res driver.Result
		if err == nil {
			res, err = p.Wait(ctx)
		}
		ended <- end{res, err}
	})
	start := &envdpb.ProcessEvent{Event: &envdpb.ProcessEvent_Start{Start: &envdpb.ProcessEvent_StartEvent{Pid: p.pid}}}
	if err := e.send(start); err != nil {
		return err
	}
	tick := time.NewTicker(e.every)
	defer tick.Stop()
	for {
		var event *envdpb.ProcessEvent
		select {
		case event = <-e.data:
			tick.Reset(e.every)
		case <-tick.C:
			event = &envdpb.ProcessEvent{Event: &envdpb.ProcessEvent_Keepalive{Keepalive: &envdpb.ProcessEvent_KeepAlive{}}}
		case end := <-ended:
			if end.err != nil {
				return end.err
			}
			if e.own && end.res.Cause == driver.CauseTimeout {
				return context.DeadlineExceeded
			}
			return e.send(endEvent(end.res))
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := e.send(event); err != nil {
			return err
		}
	}
}

// endEvent says how a process ended, in the words of Go's os.ProcessState.
func endEvent(res driver.Result) *envdpb.ProcessEvent {
	end := &envdpb.ProcessEvent_EndEvent{ExitCode: int32(res.ExitCode), Exited: res.Signal == "", Status: fmt.Sprintf("exit status %d", res.ExitCode)} //nolint:gosec // an exit status is small
	if res.Signal != "" {
		end.ExitCode, end.Status = -1, "signal: "+signalText(res.Signal)
	}
	why := end.Status
	switch res.Cause {
	case "", driver.CauseKilled, driver.CauseCanceled:
	default:
		why += " (" + string(res.Cause) + ")"
	}
	if end.ExitCode != 0 || res.Cause != "" {
		end.Error = &why
	}
	return &envdpb.ProcessEvent{Event: &envdpb.ProcessEvent_End{End: end}}
}

// signalText returns the text of a signal as Go has it.
func signalText(name string) string {
	switch name {
	case "SIGKILL":
		return "killed"
	case "SIGTERM":
		return "terminated"
	case "SIGINT":
		return "interrupt"
	case "SIGHUP":
		return "hangup"
	case "SIGSEGV":
		return "segmentation fault"
	case "SIGABRT":
		return "aborted"
	}
	return name
}
