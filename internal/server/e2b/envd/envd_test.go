package envd_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/croft-run/croft/internal/server/e2b/envd"
	"github.com/croft-run/croft/internal/server/e2b/envd/envdpb"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/internal/wrap/interpreters"
	"github.com/croft-run/croft/interp/isolate"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace"
)

func TestMain(m *testing.M) { testshell.Main(m) }

const token = "secret-token"

// A host serves one sandbox.
type host struct {
	t   testing.TB
	srv *envd.Server
	box envd.Sandbox
	url string // of envd
	ci  string // of the code interpreter
}

// newHost serves a new sandbox of the provider sandbox, as E2B's users see one.
func newHost(t testing.TB) *host {
	t.Helper()
	inner, _ := testshell.NewProvider(t, sandbox.Kind)
	engine := &isolate.Engine{}
	p := interpreters.Wrap(inner, interpreters.Config{Engine: engine})
	ctx := context.WithoutCancel(t.Context())
	ws, err := workspace.NewMux(p).Open(ctx, workspace.Spec{
		Kind: sandbox.Kind, ID: workspace.NewID(), Config: json.RawMessage(`{"user": "user", "at": "/home/user"}`),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, box: envd.Sandbox{ID: ws.ID(), Workspace: ws, Token: token, Env: map[string]string{"GIVEN": "yes"}}}
	t.Cleanup(func() {
		if err := ws.Destroy(ctx); err != nil {
			t.Error(err)
		}
		if err := engine.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	h.serve()
	return h
}

// serve starts a server, as after a restart of the program.
func (h *host) serve() {
	h.srv = envd.New(envd.Config{})
	srv := h.srv
	one := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { srv.ServeEnvd(w, r, h.box) }))
	two := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { srv.ServeCode(w, r, h.box) }))
	h.url, h.ci = one.URL, two.URL
	h.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(h.t.Context()), 30*time.Second)
		defer cancel()
		if err := srv.Close(ctx); err != nil {
			h.t.Error(err)
		}
		one.Close()
		two.Close()
		stacks := make([]byte, 4<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		for stack := range strings.SplitSeq(string(stacks), "\n\n") {
			if strings.Contains(stack, "croft/server/e2b/envd.") { // not envd_test
				h.t.Errorf("a goroutine is left:\n%s", stack)
			}
		}
	})
}

// withToken adds the access token, and a time-out that is no deadline of the client.
type withToken struct{ timeout string }

func (t withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("X-Access-Token", token)
	if t.timeout != "" {
		r.Header.Set("Connect-Timeout-Ms", t.timeout)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// codecs are those of the SDKs: JSON of JavaScript's, binary of Python's.
var codecs = map[string][]connect.ClientOption{"json": {connect.WithProtoJSON()}, "binary": nil}

func (h *host) processes(codec string) envdpb.ProcessClient {
	return envdpb.NewProcessClient(&http.Client{Transport: withToken{}}, h.url, codecs[codec]...)
}

func (h *host) filesystem(codec string) envdpb.FilesystemClient {
	return envdpb.NewFilesystemClient(&http.Client{Transport: withToken{}}, h.url, codecs[codec]...)
}

// A run is what a stream of a process had.
type run struct {
	pid                 uint32
	stdout, stderr, pty string
	end                 *envdpb.ProcessEvent_EndEvent
	keepalives          int
	err                 error
}

// read reads a stream to its end; each is called for each event.
func read[T any, M interface {
	*T
	GetEvent() *envdpb.ProcessEvent
}](stream *connect.ServerStreamForClient[T], err error, each func(*run)) *run {
	r := &run{err: err}
	if err != nil {
		return r
	}
	defer stream.Close()
	for stream.Receive() {
		switch e := M(stream.Msg()).GetEvent().GetEvent().(type) {
		case *envdpb.ProcessEvent_Start:
			r.pid = e.Start.GetPid()
		case *envdpb.ProcessEvent_Data:
			r.stdout += string(e.Data.GetStdout())
			r.stderr += string(e.Data.GetStderr())
			r.pty += string(e.Data.GetPty())
		case *envdpb.ProcessEvent_End:
			r.end = e.End
		case *envdpb.ProcessEvent_Keepalive:
			r.keepalives++
		}
		if each != nil {
			each(r)
		}
	}
	r.err = stream.Err()
	return r
}

func bash(script string) *envdpb.StartRequest {
	no := false
	return &envdpb.StartRequest{Process: &envdpb.ProcessConfig{Cmd: "/bin/bash", Args: []string{"-l", "-c", script}}, Stdin: &no}
}

func byPID(pid uint32) *envdpb.ProcessSelector {
	return &envdpb.ProcessSelector{Selector: &envdpb.ProcessSelector_Pid{Pid: pid}}
}

func wantCode(t *testing.T, what string, err error, want connect.Code) {
	t.Helper()
	if got := connect.CodeOf(err); err == nil || got != want {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

//croft:race ./^([^m]|m[^u])
func TestProcess(t *testing.T) {
	h := newHost(t)
	for codec := range codecs {
		t.Run(codec, func(t *testing.T) { testProcess(t, h, h.processes(codec)) })
	}
}

func testProcess(t *testing.T, h *host, c envdpb.ProcessClient) {
	ctx := t.Context()
	start := func(req *envdpb.StartRequest, each func(*run)) *run {
		t.Helper()
		s, err := c.Start(ctx, req)
		return read(s, err, each)
	}
	t.Run("output and end", func(t *testing.T) {
		r := start(bash("echo out; echo err >&2; pwd; echo $HOME $GIVEN $(id -un); exit 3"), nil)
		if r.err != nil || r.pid == 0 || r.stdout != "out\n/home/user\n/home/user yes user\n" || r.stderr != "err\n" ||
			r.end.GetExitCode() != 3 || !r.end.GetExited() || r.end.GetStatus() != "exit status 3" || r.end.GetError() != "exit status 3" {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("environment and directory", func(t *testing.T) {
		req := bash("echo $A $GIVEN; pwd")
		dir := "/tmp"
		req.Process.Envs, req.Process.Cwd = map[string]string{"A": "a", "GIVEN": "no"}, &dir
		if r := start(req, nil); r.err != nil || r.stdout != "a no\n/tmp\n" {
			t.Errorf("got %+v", r)
		}
		dir = filepath.Join(t.TempDir(), "missing")
		r := start(req, nil)
		wantCode(t, "a directory that is missing", r.err, connect.CodeInvalidArgument)
		r = start(&envdpb.StartRequest{Process: &envdpb.ProcessConfig{Cmd: "no-such-program"}}, nil)
		wantCode(t, "a program that is missing", r.err, connect.CodeInvalidArgument)
		r = start(&envdpb.StartRequest{}, nil)
		wantCode(t, "no program", r.err, connect.CodeInvalidArgument)
	})
	t.Run("much output", func(t *testing.T) {
		const size = 100 << 20 // more than a log holds
		n := 0
		s, err := c.Start(ctx, bash("head -c 104857600 /dev/zero"))
		if err != nil {
			t.Fatal(err)
		}
		for s.Receive() {
			n += len(s.Msg().GetEvent().GetData().GetStdout())
		}
		if s.Err() != nil || n != size {
			t.Errorf("%d bytes, %v; want %d", n, s.Err(), size)
		}
	})
	t.Run("input", func(t *testing.T) {
		req := &envdpb.StartRequest{Process: &envdpb.ProcessConfig{Cmd: "cat"}}
		r := start(req, func(r *run) {
			if r.pid != 0 && r.stdout == "" && r.end == nil {
				_, err := c.SendInput(ctx, &envdpb.SendInputRequest{Process: byPID(r.pid), Input: &envdpb.ProcessInput{Input: &envdpb.ProcessInput_Stdin{Stdin: []byte("one\n")}}})
				if err != nil {
					t.Error(err)
				}
				in, err := c.StreamInput(ctx)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range []*envdpb.StreamInputRequest{
					{Event: &envdpb.StreamInputRequest_Start{Start: &envdpb.StreamInputRequest_StartEvent{Process: byPID(r.pid)}}},
					{Event: &envdpb.StreamInputRequest_Keepalive{Keepalive: &envdpb.StreamInputRequest_KeepAlive{}}},
					{Event: &envdpb.StreamInputRequest_Data{Data: &envdpb.StreamInputRequest_DataEvent{Input: &envdpb.ProcessInput{Input: &envdpb.ProcessInput_Stdin{Stdin: []byte("two\n")}}}}},
				} {
					if err := in.Send(m); err != nil {
						t.Error(err)
					}
				}
				if _, err := in.CloseAndReceive(); err != nil {
					t.Error(err)
				}
				_, err = c.SendInput(ctx, &envdpb.SendInputRequest{Process: byPID(r.pid), Input: &envdpb.ProcessInput{Input: &envdpb.ProcessInput_Pty{Pty: []byte("x")}}})
				wantCode(t, "input of a terminal", err, connect.CodeFailedPrecondition)
				_, err = c.SendInput(ctx, &envdpb.SendInputRequest{Process: byPID(r.pid)})
				wantCode(t, "no input", err, connect.CodeInvalidArgument)
				if _, err := c.CloseStdin(ctx, &envdpb.CloseStdinRequest{Process: byPID(r.pid)}); err != nil {
					t.Error(err)
				}
			}
		})
		if r.err != nil || r.stdout != "one\ntwo\n" || r.end.GetExitCode() != 0 || r.end.Error != nil {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("terminal", func(t *testing.T) {
		req := &envdpb.StartRequest{
			Process: &envdpb.ProcessConfig{Cmd: "/bin/bash", Args: []string{"-i", "-l"}, Envs: map[string]string{"PS1": "$ "}},
			Pty:     &envdpb.PTY{Size: &envdpb.PTY_Size{Cols: 91, Rows: 17}},
		}
		step := 0
		r := start(req, func(r *run) {
			send := func(text string) {
				if _, err := c.SendInput(ctx, &envdpb.SendInputRequest{Process: byPID(r.pid), Input: &envdpb.ProcessInput{Input: &envdpb.ProcessInput_Pty{Pty: []byte(text)}}}); err != nil {
					t.Error(err)
				}
			}
			switch {
			case step == 0:
				send("stty size; tty; echo first\n")
				step = 1
			case step == 1 && strings.Contains(r.pty, "\nfirst"):
				if _, err := c.Update(ctx, &envdpb.UpdateRequest{Process: byPID(r.pid), Pty: &envdpb.PTY{Size: &envdpb.PTY_Size{Cols: 40, Rows: 5}}}); err != nil {
					t.Error(err)
				}
				_, err := c.CloseStdin(ctx, &envdpb.CloseStdinRequest{Process: byPID(r.pid)})
				wantCode(t, "close a terminal's input", err, connect.CodeFailedPrecondition)
				send("stty size; exit 4\n")
				step = 2
			}
		})
		if r.err != nil || !strings.Contains(r.pty, "17 91\r\n/dev/pts/") || !strings.Contains(r.pty, "5 40\r\n") || r.end.GetExitCode() != 4 || r.stdout != "" {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("list, signal and tag", func(t *testing.T) {
		req := bash("echo ready; sleep 1000")
		tag := "mine"
		req.Tag, req.Process.Envs = &tag, map[string]string{"A": "b"}
		r := start(req, func(r *run) {
			if !strings.Contains(r.stdout, "ready") || r.end != nil {
				return
			}
			list, err := c.List(ctx, &envdpb.ListRequest{})
			if err != nil || len(list.GetProcesses()) != 1 {
				t.Fatalf("list: %v, %v", list, err)
			}
			p := list.GetProcesses()[0]
			if p.GetPid() != r.pid || p.GetTag() != tag || p.GetConfig().GetCmd() != "/bin/bash" || p.GetConfig().GetArgs()[2] != "echo ready; sleep 1000" || p.GetConfig().GetEnvs()["A"] != "b" {
				t.Errorf("listed %v", p)
			}
			_, err = c.SendSignal(ctx, &envdpb.SendSignalRequest{Process: byPID(r.pid)})
			wantCode(t, "no signal", err, connect.CodeInvalidArgument)
			sel := &envdpb.ProcessSelector{Selector: &envdpb.ProcessSelector_Tag{Tag: tag}}
			if _, err := c.SendSignal(ctx, &envdpb.SendSignalRequest{Process: sel, Signal: envdpb.Signal_SIGNAL_SIGKILL}); err != nil {
				t.Error(err)
			}
		})
		if r.err != nil || r.end.GetExitCode() != -1 || r.end.GetExited() || r.end.GetStatus() != "signal: killed" {
			t.Errorf("got %+v", r)
		}
		_, err := c.SendSignal(ctx, &envdpb.SendSignalRequest{Process: byPID(r.pid), Signal: envdpb.Signal_SIGNAL_SIGKILL})
		wantCode(t, "a process that has ended", err, connect.CodeNotFound)
		_, err = c.SendSignal(ctx, &envdpb.SendSignalRequest{Process: byPID(999999), Signal: envdpb.Signal_SIGNAL_SIGKILL})
		wantCode(t, "a pid that is unknown", err, connect.CodeNotFound)
		_, err = c.SendSignal(ctx, &envdpb.SendSignalRequest{Signal: envdpb.Signal_SIGNAL_SIGKILL})
		wantCode(t, "no selector", err, connect.CodeInvalidArgument)
		s, err := c.Connect(ctx, &envdpb.ConnectRequest{Process: byPID(r.pid)})
		if late := read(s, err, nil); late.err != nil || late.pid != r.pid || late.end.GetExitCode() != -1 {
			t.Errorf("a late Connect got %+v", late)
		}
		s, err = c.Connect(ctx, &envdpb.ConnectRequest{Process: byPID(999999)})
		wantCode(t, "connect to a pid that is unknown", read(s, err, nil).err, connect.CodeNotFound)
	})
	t.Run("time-out kills", func(t *testing.T) {
		timed := envdpb.NewProcessClient(&http.Client{Transport: withToken{timeout: "700"}}, h.url)
		s, err := timed.Start(ctx, bash("sleep 1000; echo never"))
		r := read(s, err, nil)
		wantCode(t, "time-out", r.err, connect.CodeDeadlineExceeded)
		for range 100 {
			list, err := c.List(ctx, &envdpb.ListRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if len(list.GetProcesses()) == 0 {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Error("the process lives on")
	})
	t.Run("a lost connection does not kill", func(t *testing.T) {
		lost, cancel := context.WithCancel(ctx)
		s, err := c.Start(lost, bash("echo before; while ! [ -e go ]; do sleep 0.05; done; echo after; rm go; exit 7"))
		r := read(s, err, func(r *run) {
			if strings.Contains(r.stdout, "before") {
				cancel()
			}
		})
		wantCode(t, "a stream that was cancelled", r.err, connect.CodeCanceled)
		again, err := c.Connect(ctx, &envdpb.ConnectRequest{Process: byPID(r.pid)})
		pid := r.pid
		r = read(again, err, func(r *run) {
			if r.stdout == "" && r.end == nil {
				if err := h.box.Workspace.FS().WriteFile("go", nil, 0); err != nil {
					t.Error(err)
				}
			}
		})
		if r.err != nil || r.pid != pid || r.stdout != "after\n" || r.end.GetExitCode() != 7 {
			t.Errorf("connected again: %+v", r)
		}
	})
}

// TestProcessesSurviveTheServer restarts the server while a process runs.
func TestProcessesSurviveTheServer(t *testing.T) {
	h := newHost(t)
	req := bash("echo before; while ! [ -e go ]; do sleep 0.05; done; echo after; exit 7")
	tag := "kept"
	req.Tag = &tag
	s, err := h.processes("json").Start(t.Context(), req)
	first := read(s, err, func(r *run) {
		if strings.Contains(r.stdout, "before") {
			h.srv.Drain()
		}
	})
	// E2B's SDKs take "unavailable", and a plain 503, to mean that the sandbox is gone.
	wantCode(t, "a stream of a server that drains", first.err, connect.CodeAborted)
	late, err := h.processes("json").Start(t.Context(), bash("true"))
	wantCode(t, "a stream that comes later", read(late, err, nil).err, connect.CodeAborted)
	_, err = h.processes("proto").List(t.Context(), &envdpb.ListRequest{})
	wantCode(t, "a call that comes later", err, connect.CodeAborted)
	h.serve()
	c := h.processes("json")
	list, err := c.List(t.Context(), &envdpb.ListRequest{})
	if err != nil || len(list.GetProcesses()) != 1 || list.GetProcesses()[0].GetTag() != tag || list.GetProcesses()[0].GetPid() != first.pid {
		t.Fatalf("list: %v, %v", list, err)
	}
	again, err := c.Connect(t.Context(), &envdpb.ConnectRequest{Process: byPID(first.pid)})
	r := read(again, err, func(r *run) {
		if r.stdout == "" && r.end == nil {
			if err := h.box.Workspace.FS().WriteFile("go", nil, 0); err != nil {
				t.Error(err)
			}
		}
	})
	if r.err != nil || r.stdout != "after\n" || r.end.GetExitCode() != 7 {
		t.Errorf("got %+v", r)
	}
}

// TestKeepalive counts the keep-alives of a quiet process.
//
//croft:race
func TestKeepalive(t *testing.T) {
	h := newHost(t)
	ctx, info := connect.NewClientContext(t.Context())
	info.RequestHeader().Set("Keepalive-Ping-Interval", "1")
	s, err := h.processes("json").Start(ctx, bash("sleep 2.5"))
	if r := read(s, err, nil); r.err != nil || r.keepalives != 2 {
		t.Errorf("got %+v", r)
	}
}

// TestAuthorization calls without the token, and names users.
func TestAuthorization(t *testing.T) {
	h := newHost(t)
	c := envdpb.NewProcessClient(http.DefaultClient, h.url)
	_, err := c.List(t.Context(), &envdpb.ListRequest{})
	wantCode(t, "without a token", err, connect.CodeUnauthenticated)
	for name, want := range map[string]bool{"user": true, "root": true, "nobody": true, "": true, "stranger": false} {
		ctx, info := connect.NewClientContext(t.Context())
		r, err := http.NewRequestWithContext(ctx, "GET", "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth(name, "")
		info.RequestHeader().Set("Authorization", r.Header.Get("Authorization"))
		_, err = h.filesystem("json").Stat(ctx, &envdpb.StatRequest{Path: "."})
		if want != (err == nil) || !want && connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("user %q: %v, want success %v", name, err, want)
		}
	}
}

// TestEndedProcessesAreRemoved keeps an ended process for a while, and not longer.
//
//croft:race
func TestEndedProcessesAreRemoved(t *testing.T) {
	h := newHost(t)
	h.srv.SetRetain(time.Second)
	c := h.processes("json")
	start := func() uint32 {
		s, err := c.Start(t.Context(), bash("exit 5"))
		r := read(s, err, nil)
		if r.err != nil {
			t.Fatal(r.err)
		}
		return r.pid
	}
	pid := start()
	s, err := c.Connect(t.Context(), &envdpb.ConnectRequest{Process: byPID(pid)})
	if r := read(s, err, nil); r.end.GetExitCode() != 5 {
		t.Errorf("got %+v", r)
	}
	time.Sleep(1500 * time.Millisecond)
	start()
	s, err = c.Connect(t.Context(), &envdpb.ConnectRequest{Process: byPID(pid)})
	wantCode(t, "a process that ended long ago", read(s, err, nil).err, connect.CodeNotFound)
	if list, err := h.box.Workspace.Sessions(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%d sessions are left, %v", len(list), err)
	}
}
