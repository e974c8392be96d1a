package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/cli/cli/connhelper"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/croft-run/croft/fault"
)

// remoteEngine is an engine with Docker's API, such as dockerd or Podman.
type remoteEngine struct{ c *client.Client }

var _ Engine = (*remoteEngine)(nil)

// Hosts lists the addresses of an engine, in the order in which they are tried.
func Hosts() []string {
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		return []string{host}
	}
	paths := []string{"/var/run/docker.sock"}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		paths = append(paths, filepath.Join(dir, "docker.sock"), filepath.Join(dir, "podman/podman.sock"))
	}
	var hosts []string
	for _, path := range append(paths, "/run/podman/podman.sock") {
		hosts = append(hosts, "unix://"+path)
	}
	return hosts
}

// Connect returns the engine at host, such as unix:///var/run/docker.sock; "" means the first
// of Hosts that exists. It does not call the engine yet.
func Connect(host string) (Engine, error) {
	var opts []client.Opt
	if host == "" {
		hosts := Hosts()
		host = hosts[0]
		for _, h := range hosts {
			path, local := strings.CutPrefix(h, "unix://")
			if _, err := os.Stat(path); !local || err == nil {
				host = h
				break
			}
		}
		if os.Getenv("DOCKER_HOST") != "" {
			opts = append(opts, client.FromEnv)
		}
	}
	if scheme, _, _ := strings.Cut(host, "://"); !slices.Contains([]string{"unix", "tcp", "ssh", "http", "https"}, scheme) {
		return nil, fmt.Errorf("docker: engine at %q: %w: the address must be unix://PATH, tcp://HOST:PORT or ssh://HOST", host, fault.InvalidArgument)
	}
	if strings.HasPrefix(host, "ssh://") {
		// Like the docker command: "docker system dial-stdio" on that host. BatchMode
		// prevents that ssh asks for a password.
		ssh, err := connhelper.GetConnectionHelperWithSSHOpts(host, []string{"-o", "BatchMode=yes"})
		if err != nil {
			return nil, fmt.Errorf("docker: engine at %q: %w: %w", host, fault.InvalidArgument, err)
		}
		opts = []client.Opt{client.WithHost(ssh.Host), client.WithDialContext(ssh.Dialer)}
	} else {
		opts = append(opts, client.WithHost(host))
	}
	c, err := client.New(opts...)
	if err != nil {
		return nil, fmt.Errorf("docker: engine at %q: %w: %w", host, fault.InvalidArgument, err)
	}
	return &remoteEngine{c}, nil
}

// wrapError adds the code to an error of the client.
func wrapError(verb string, err error) error {
	if err == nil {
		return nil
	}
	code := fault.Internal
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("docker: %s: %w", verb, err)
	case client.IsErrConnectionFailed(err), errdefs.IsUnavailable(err), errors.Is(err, fault.Unavailable), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), isReset(err):
		return fault.Advise(fmt.Errorf("docker: %s: %w: %w", verb, fault.Unavailable, err),
			"start a container engine, or name the socket of one with DOCKER_HOST; the provider sandbox needs none")
	case errdefs.IsNotFound(err):
		code = fault.NotFound
	case errdefs.IsConflict(err), errdefs.IsAlreadyExists(err):
		code = fault.AlreadyExists
	case errdefs.IsPermissionDenied(err), errdefs.IsUnauthorized(err):
		code = fault.PermissionDenied
	case errdefs.IsInvalidArgument(err):
		code = fault.InvalidArgument
	case strings.Contains(err.Error(), "no space left on device"):
		code = fault.ResourceExhausted
	}
	return fmt.Errorf("docker: %s: %w: %w", verb, code, err)
}

// isReset reports whether the connection to the engine was closed or refused.
func isReset(err error) bool {
	text := err.Error()
	return strings.Contains(text, "connection reset by peer") || strings.Contains(text, "broken pipe") || strings.Contains(text, "connection refused")
}

// Ping checks that the engine answers.
func (e *remoteEngine) Ping(ctx context.Context) error {
	_, err := e.c.Ping(ctx, client.PingOptions{})
	return wrapError("ping the engine", err)
}

// Info describes the engine.
func (e *remoteEngine) Info(ctx context.Context) (Info, error) {
	answer, err := e.c.Info(ctx, client.InfoOptions{})
	if err != nil {
		return Info{}, wrapError("ask the engine", err)
	}
	in := answer.Info
	info := Info{
		ID: in.ID, Name: strings.TrimSpace("Docker " + in.ServerVersion), Architecture: goArch(in.Architecture),
		Runtimes: slices.Sorted(maps.Keys(in.Runtimes)),
		Memory:   in.MemoryLimit, Swap: in.SwapLimit, PIDs: in.PidsLimit, CPU: in.CPUCfsQuota,
		Remote: !strings.HasPrefix(e.c.DaemonHost(), "unix://"),
	}
	for _, opt := range in.SecurityOptions {
		switch {
		case strings.HasPrefix(opt, "name=userns"):
			info.UserNS = true
		case strings.HasPrefix(opt, "name=rootless"):
			info.Rootless = true
		}
	}
	if info.Podman, err = e.isPodman(ctx); info.Podman {
		info.Name = "Podman " + in.ServerVersion
	}
	if info.ID == "" || info.Podman { // Podman has a new one in each answer
		info.ID = strings.Join([]string{in.Name, in.DockerRootDir, e.c.DaemonHost()}, ":")
	}
	return info, err
}

// isPodman reports whether the engine is Podman.
func (e *remoteEngine) isPodman(ctx context.Context) (bool, error) {
	v, err := e.c.ServerVersion(ctx, client.ServerVersionOptions{})
	return len(v.Components) > 0 && strings.HasPrefix(v.Components[0].Name, "Podman"), wrapError("ask the engine", err)
}

// goArch returns Go's name of an architecture.
func goArch(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return machine
}

// Create creates a hardened container: no network, no capabilities, no new privileges, a
// read-only rootfs, no swap.
func (e *remoteEngine) Create(ctx context.Context, u ContainerSpec) (string, error) {
	cfg, host := containerConfigs(u)
	made, err := e.c.ContainerCreate(ctx, client.ContainerCreateOptions{Config: cfg, HostConfig: host, Name: u.Name})
	if err != nil {
		return "", wrapError("create "+u.Name, err)
	}
	return made.ID, nil
}

func containerConfigs(u ContainerSpec) (*container.Config, *container.HostConfig) {
	noWait := 0 // the guest ends by a call or is killed
	cfg := &container.Config{
		StopTimeout: &noWait, Image: u.Image, Labels: u.Labels, Entrypoint: u.Command, Cmd: []string{}, User: u.User, WorkingDir: u.Dir, Hostname: u.Hostname,
		OpenStdin: u.Stdin, StdinOnce: u.Stdin, AttachStdin: u.Stdin, AttachStdout: u.Stdin,
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}
	host := &container.HostConfig{
		NetworkMode: "none", ReadonlyRootfs: !u.Writable, CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"},
		Tmpfs: u.Tmpfs, Runtime: u.Runtime, AutoRemove: u.AutoRemove, LogConfig: container.LogConfig{Type: "none"},
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		Resources:     container.Resources{Memory: u.Memory, MemorySwap: u.Memory, NanoCPUs: u.MilliCPUs * 1e6},
	}
	if u.PIDs > 0 {
		host.PidsLimit = &u.PIDs
	}
	for _, m := range u.Mounts {
		one := mount.Mount{Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly}
		if m.Volume {
			one.Type, one.VolumeOptions = mount.TypeVolume, &mount.VolumeOptions{NoCopy: m.Source != ""}
		} else {
			one.BindOptions = &mount.BindOptions{Propagation: mount.PropagationRPrivate}
		}
		host.Mounts = append(host.Mounts, one)
	}
	return cfg, host
}

// Start starts a container.
func (e *remoteEngine) Start(ctx context.Context, id string) error {
	_, err := e.c.ContainerStart(ctx, id, client.ContainerStartOptions{})
	return wrapError("start "+id, err)
}

// Attach connects to standard input and output of a container.
func (e *remoteEngine) Attach(ctx context.Context, id string) (io.ReadWriteCloser, error) {
	resp, err := e.c.ContainerAttach(ctx, id, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, wrapError("attach to "+id, err)
	}
	return newAttachedConn(resp.HijackedResponse), nil
}

// Exec starts a further process in a container and connects to it.
func (e *remoteEngine) Exec(ctx context.Context, id, user string, argv ...string) (io.ReadWriteCloser, error) {
	made, err := e.c.ExecCreate(ctx, id, client.ExecCreateOptions{User: user, AttachStdin: true, AttachStdout: true, AttachStderr: true, Cmd: argv})
	if err != nil {
		return nil, wrapError("create a process in "+id, err)
	}
	resp, err := e.c.ExecAttach(ctx, made.ID, client.ExecAttachOptions{})
	if err != nil {
		return nil, wrapError("start a process in "+id, err)
	}
	return newAttachedConn(resp.HijackedResponse), nil
}

// Put unpacks files in a container.
func (e *remoteEngine) Put(ctx context.Context, id, dir string, files io.Reader) error {
	_, err := e.c.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: dir, Content: files, AllowOverwriteDirWithFile: false})
	return wrapError("copy to "+id, err)
}

func newAttachedConn(resp client.HijackedResponse) *attachedConn {
	r, w := io.Pipe()
	a := &attachedConn{resp: resp, out: r, done: make(chan struct{})}
	go func() { // ends with the connection, which Close closes
		defer close(a.done)
		_, err := stdcopy.StdCopy(w, io.Discard, resp.Reader)
		w.CloseWithError(err)
	}()
	return a
}

// attachedConn is a connection to a process of a container.
type attachedConn struct {
	resp client.HijackedResponse
	out  *io.PipeReader
	done chan struct{}
}

// Read reads standard output.
func (a *attachedConn) Read(p []byte) (int, error) { return a.out.Read(p) }

// Write writes standard input.
func (a *attachedConn) Write(p []byte) (int, error) { return a.resp.Conn.Write(p) }

// Close ends the connection.
func (a *attachedConn) Close() error {
	a.resp.Close()
	err := a.out.Close()
	<-a.done
	return err
}

// Remove removes a container by force.
func (e *remoteEngine) Remove(ctx context.Context, id string) error {
	_, err := e.c.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	err = wrapError("remove "+id, err)
	if fault.Of(err) == fault.AlreadyExists { // another client is removing it
		return e.awaitGone(ctx, id)
	}
	return ignoreNotFound(err)
}

// awaitGone waits until a container that another client removes is gone.
func (e *remoteEngine) awaitGone(ctx context.Context, id string) error {
	const interval = 20 * time.Millisecond
	for {
		if _, err := e.Inspect(ctx, id); err != nil {
			return ignoreNotFound(err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("docker: remove %s: %w", id, ctx.Err())
		case <-time.After(interval):
		}
	}
}

// ignoreNotFound returns nil for NotFound, and err otherwise.
func ignoreNotFound(err error) error {
	if fault.Of(err) == fault.NotFound {
		return nil
	}
	return err
}

// Inspect returns the state of a container.
func (e *remoteEngine) Inspect(ctx context.Context, id string) (State, error) {
	answer, err := e.c.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return State{}, wrapError("inspect "+id, err)
	}
	in := answer.Container
	s := State{ID: in.ID, Name: strings.TrimPrefix(in.Name, "/")}
	if in.Config != nil {
		s.Labels = in.Config.Labels
	}
	if st := in.State; st != nil {
		s.Running, s.Paused, s.OOM, s.ExitCode, s.Error, s.PID = st.Running, st.Paused, st.OOMKilled, st.ExitCode, st.Error, st.Pid
	}
	return s, nil
}

// Usage measures a container once. The engine sends zeros for what it does not measure, and for a
// container that does not run.
func (e *remoteEngine) Usage(ctx context.Context, id string) (Usage, error) {
	answer, err := e.c.ContainerStats(ctx, id, client.ContainerStatsOptions{})
	if err != nil {
		return Usage{}, wrapError("measure "+id, err)
	}
	defer answer.Body.Close() // only read
	const most = 1 << 20
	var stats container.StatsResponse
	if err := json.NewDecoder(io.LimitReader(answer.Body, most)).Decode(&stats); err != nil {
		return Usage{}, fmt.Errorf("docker: measure %s: %w: %w", id, fault.Unavailable, err)
	}
	var u Usage
	if n := stats.CPUStats.CPUUsage.TotalUsage; n > 0 {
		u.CPU = new(time.Duration(n)) //nolint:gosec // 292 years
	}
	if m := stats.MemoryStats; m.Usage > 0 {
		// As docker stats shows it: without inactive pages of files, by the names of cgroup v2 and v1.
		cache := max(m.Stats["inactive_file"], m.Stats["total_inactive_file"])
		u.Memory = new(int64(m.Usage - min(cache, m.Usage))) //nolint:gosec // less than the memory of the host
	}
	if n := stats.PidsStats.Current; n > 0 {
		u.PIDs = new(int64(n)) //nolint:gosec // at most 4 million
	}
	return u, nil
}

// List lists containers with the given labels.
func (e *remoteEngine) List(ctx context.Context, labels map[string]string) ([]State, error) {
	list, err := e.c.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: labelFilter(labels)})
	if err != nil {
		return nil, wrapError("list containers", err)
	}
	var states []State
	for _, c := range list.Items {
		s := State{ID: c.ID, Labels: c.Labels, Running: c.State == container.StateRunning, Paused: c.State == container.StatePaused}
		if len(c.Names) > 0 {
			s.Name = strings.TrimPrefix(c.Names[0], "/")
		}
		states = append(states, s)
	}
	return states, nil
}

// labelFilter filters by labels; a label with the value "" matches any value.
func labelFilter(labels map[string]string) client.Filters {
	args := client.Filters{}
	for k, v := range labels {
		if v != "" {
			k += "=" + v
		}
		args.Add("label", k)
	}
	return args
}

// Pause freezes all processes of a container.
func (e *remoteEngine) Pause(ctx context.Context, id string) error {
	_, err := e.c.ContainerPause(ctx, id, client.ContainerPauseOptions{})
	return wrapError("pause "+id, err)
}

// Unpause thaws them.
func (e *remoteEngine) Unpause(ctx context.Context, id string) error {
	_, err := e.c.ContainerUnpause(ctx, id, client.ContainerUnpauseOptions{})
	return wrapError("unpause "+id, err)
}

// Close ends the connections to the engine.
func (e *remoteEngine) Close() error { return e.c.Close() }
