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
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/croft-run/croft/fault"
)

// remoteEngine is an engine that speaks Docker's API, such as dockerd or Podman.
type remoteEngine struct{ c *client.Client }

var _ Engine = (*remoteEngine)(nil)

// Hosts lists where an engine may listen, in the order in which they are tried.
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

// Connect returns the engine at host, such as unix:///var/run/docker.sock; "" is
// the first of Hosts that is there. It does not speak to it yet.
func Connect(host string) (Engine, error) {
	opts := []client.Opt{client.WithAPIVersionNegotiation()}
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
	c, err := client.NewClientWithOpts(append(opts, client.WithHost(host))...)
	if err != nil {
		return nil, fmt.Errorf("docker: engine at %q: %w: %w", host, fault.InvalidArgument, err)
	}
	return &remoteEngine{c}, nil
}

// coded gives an error of the client the code that it has here.
func coded(verb string, err error) error {
	if err == nil {
		return nil
	}
	code := fault.Internal
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("docker: %s: %w", verb, err)
	case client.IsErrConnectionFailed(err), errdefs.IsUnavailable(err), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), isReset(err):
		code = fault.Unavailable
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

// isReset reports whether an engine was cut off in the middle of an answer.
func isReset(err error) bool {
	text := err.Error()
	return strings.Contains(text, "connection reset by peer") || strings.Contains(text, "broken pipe") || strings.Contains(text, "connection refused")
}

// Ping asks whether the engine answers.
func (e *remoteEngine) Ping(ctx context.Context) error {
	_, err := e.c.Ping(ctx)
	return coded("ping the engine", err)
}

// Info describes the engine.
func (e *remoteEngine) Info(ctx context.Context) (Info, error) {
	in, err := e.c.Info(ctx)
	if err != nil {
		return Info{}, coded("ask the engine", err)
	}
	info := Info{
		ID: in.ID, Name: strings.TrimSpace("Docker " + in.ServerVersion), Architecture: goArch(in.Architecture),
		Runtimes: slices.Sorted(maps.Keys(in.Runtimes)),
		Memory:   in.MemoryLimit, Swap: in.SwapLimit, PIDs: in.PidsLimit, CPU: in.CPUCfsQuota, CgroupV2: in.CgroupVersion == "2",
	}
	for _, opt := range in.SecurityOptions {
		switch {
		case strings.HasPrefix(opt, "name=userns"):
			info.UserNS = true
		case strings.HasPrefix(opt, "name=rootless"):
			info.Rootless = true
		}
	}
	if info.ID == "" { // as Podman
		info.ID = in.Name + ":" + in.DockerRootDir
	}
	return info, nil
}

// goArch names an architecture as Go does.
func goArch(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return machine
}

// Create makes a container, hardened: no network, no capability, no new
// privileges, a root file system that can't be written, no swap beyond its memory.
func (e *remoteEngine) Create(ctx context.Context, u Unit) (string, error) {
	cfg, host := configs(u)
	made, err := e.c.ContainerCreate(ctx, cfg, host, nil, nil, u.Name)
	if err != nil {
		return "", coded("create "+u.Name, err)
	}
	return made.ID, nil
}

func configs(u Unit) (*container.Config, *container.HostConfig) {
	cfg := &container.Config{
		Image: u.Image, Labels: u.Labels, Entrypoint: u.Command, Cmd: []string{}, User: u.User, WorkingDir: u.Dir, Hostname: u.Hostname,
		OpenStdin: u.Stdin, StdinOnce: u.Stdin, AttachStdin: u.Stdin, AttachStdout: u.Stdin,
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}
	host := &container.HostConfig{
		NetworkMode: "none", ReadonlyRootfs: true, CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"},
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
			one.Type, one.VolumeOptions = mount.TypeVolume, &mount.VolumeOptions{NoCopy: true}
		} else {
			one.BindOptions = &mount.BindOptions{Propagation: mount.PropagationRPrivate}
		}
		host.Mounts = append(host.Mounts, one)
	}
	return cfg, host
}

// Start starts a container.
func (e *remoteEngine) Start(ctx context.Context, id string) error {
	return coded("start "+id, e.c.ContainerStart(ctx, id, container.StartOptions{}))
}

// Attach connects to standard input and output of a container.
func (e *remoteEngine) Attach(ctx context.Context, id string) (io.ReadWriteCloser, error) {
	resp, err := e.c.ContainerAttach(ctx, id, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, coded("attach to "+id, err)
	}
	r, w := io.Pipe()
	a := &attached{resp: resp, out: r, done: make(chan struct{})}
	go func() { // ends with the connection, which Close closes
		defer close(a.done)
		_, err := stdcopy.StdCopy(w, io.Discard, resp.Reader)
		w.CloseWithError(err)
	}()
	return a, nil
}

// attached is a connection to a container.
type attached struct {
	resp types.HijackedResponse
	out  *io.PipeReader
	done chan struct{}
}

// Read reads standard output.
func (a *attached) Read(p []byte) (int, error) { return a.out.Read(p) }

// Write writes standard input.
func (a *attached) Write(p []byte) (int, error) { return a.resp.Conn.Write(p) }

// Close ends the connection.
func (a *attached) Close() error {
	a.resp.Close()
	err := a.out.Close()
	<-a.done
	return err
}

// Stop ends a container: by asking, and after grace by force.
func (e *remoteEngine) Stop(ctx context.Context, id string, grace time.Duration) error {
	seconds := int(grace.Round(time.Second).Seconds())
	return gone(coded("stop "+id, e.c.ContainerStop(ctx, id, container.StopOptions{Timeout: &seconds})))
}

// Remove removes a container by force.
func (e *remoteEngine) Remove(ctx context.Context, id string) error {
	err := coded("remove "+id, e.c.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true}))
	if fault.Of(err) == fault.AlreadyExists { // another is removing it
		return e.awaitGone(ctx, id)
	}
	return gone(err)
}

// awaitGone waits until a container that somebody else removes is gone.
func (e *remoteEngine) awaitGone(ctx context.Context, id string) error {
	const look = 20 * time.Millisecond
	for {
		if _, err := e.Inspect(ctx, id); err != nil {
			return gone(err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("docker: remove %s: %w", id, ctx.Err())
		case <-time.After(look):
		}
	}
}

// gone makes the absence of what is to go a success.
func gone(err error) error {
	if fault.Of(err) == fault.NotFound {
		return nil
	}
	return err
}

// Inspect tells how a container stands.
func (e *remoteEngine) Inspect(ctx context.Context, id string) (State, error) {
	in, err := e.c.ContainerInspect(ctx, id)
	if err != nil {
		return State{}, coded("inspect "+id, err)
	}
	s := State{ID: in.ID, Name: strings.TrimPrefix(in.Name, "/"), Image: in.Image}
	if in.Config != nil {
		s.Labels = in.Config.Labels
	}
	if st := in.State; st != nil {
		s.Running, s.Paused, s.OOM, s.ExitCode, s.Error, s.PID = st.Running, st.Paused, st.OOMKilled, st.ExitCode, st.Error, st.Pid
	}
	return s, nil
}

// List lists containers with the given labels.
func (e *remoteEngine) List(ctx context.Context, labels map[string]string) ([]State, error) {
	list, err := e.c.ContainerList(ctx, container.ListOptions{All: true, Filters: labelled(labels)})
	if err != nil {
		return nil, coded("list containers", err)
	}
	var states []State
	for _, c := range list {
		s := State{ID: c.ID, Image: c.Image, Labels: c.Labels, Running: c.State == container.StateRunning, Paused: c.State == container.StatePaused}
		if len(c.Names) > 0 {
			s.Name = strings.TrimPrefix(c.Names[0], "/")
		}
		states = append(states, s)
	}
	return states, nil
}

// labelled filters by labels; one with the value "" need only be there.
func labelled(labels map[string]string) filters.Args {
	args := filters.NewArgs()
	for k, v := range labels {
		if v != "" {
			k += "=" + v
		}
		args.Add("label", k)
	}
	return args
}

// Pause stops all processes of a container where they are.
func (e *remoteEngine) Pause(ctx context.Context, id string) error {
	return coded("pause "+id, e.c.ContainerPause(ctx, id))
}

// Unpause lets them go on.
func (e *remoteEngine) Unpause(ctx context.Context, id string) error {
	return coded("unpause "+id, e.c.ContainerUnpause(ctx, id))
}

// Events sends what happens to containers.
func (e *remoteEngine) Events(ctx context.Context, labels map[string]string) (<-chan Event, error) {
	args := labelled(labels)
	args.Add("type", string(events.ContainerEventType))
	ctx, cancel := context.WithCancel(ctx)
	messages, errs := e.c.Events(ctx, events.ListOptions{Filters: args})
	out := make(chan Event)
	go func() { // ends with the context, or with the engine
		defer close(out)
		defer cancel()
		for {
			select {
			case m := <-messages:
				select {
				case out <- Event{ID: m.Actor.ID, Action: string(m.Action)}:
				case <-ctx.Done():
					return
				}
			case <-errs:
				return
			}
		}
	}()
	return out, nil
}

// Image returns an image by its name or id.
func (e *remoteEngine) Image(ctx context.Context, name string) (Image, error) {
	in, err := e.c.ImageInspect(ctx, name)
	if err != nil {
		return Image{}, coded("inspect image "+name, err)
	}
	created, _ := time.Parse(time.RFC3339Nano, in.Created) // "" of an image that does not say
	img := Image{ID: in.ID, Names: in.RepoTags, Size: in.Size, Created: created}
	if in.Config != nil {
		img.Labels, img.Env = in.Config.Labels, in.Config.Env
	}
	return img, nil
}

// Images lists the images that have names.
func (e *remoteEngine) Images(ctx context.Context) ([]Image, error) {
	list, err := e.c.ImageList(ctx, image.ListOptions{})
	if err != nil {
		return nil, coded("list images", err)
	}
	var images []Image
	for _, in := range list {
		images = append(images, Image{ID: in.ID, Names: in.RepoTags, Size: in.Size, Created: time.Unix(in.Created, 0), Labels: in.Labels})
	}
	return images, nil
}

// Pull fetches an image from its registry.
func (e *remoteEngine) Pull(ctx context.Context, name string) error {
	r, err := e.c.ImagePull(ctx, name, image.PullOptions{})
	if err != nil {
		return coded("pull "+name, err)
	}
	return progress("pull "+name, r, nil)
}

// progress reads what an engine says while it works, to its end; each, which may
// be nil, is called with every line of text.
func progress(verb string, r io.ReadCloser, each func(text string)) error {
	defer r.Close()
	dec := json.NewDecoder(r)
	for {
		var line struct {
			Stream string `json:"stream"`
			Error  string `json:"error"`
		}
		err := dec.Decode(&line)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return coded(verb, err)
		case line.Error != "":
			code := fault.Failed
			if strings.Contains(line.Error, "no space left on device") {
				code = fault.ResourceExhausted
			}
			return fmt.Errorf("docker: %s: %w: %s", verb, code, line.Error)
		case each != nil:
			each(line.Stream)
		}
	}
}

// Load takes in images as "docker save" writes them.
func (e *remoteEngine) Load(ctx context.Context, archive io.Reader) ([]string, error) {
	resp, err := e.c.ImageLoad(ctx, archive)
	if err != nil {
		return nil, coded("load an image", err)
	}
	var names []string
	err = progress("load an image", resp.Body, func(text string) {
		for _, mark := range []string{"Loaded image: ", "Loaded image ID: "} {
			if name, ok := strings.CutPrefix(strings.TrimSpace(text), mark); ok {
				names = append(names, name)
			}
		}
	})
	return names, err
}

// Import makes an image of a tar of files.
func (e *remoteEngine) Import(ctx context.Context, files io.Reader, name string, c Commit) error {
	var changes []string
	for _, v := range c.Env {
		changes = append(changes, "ENV "+v)
	}
	for _, k := range slices.Sorted(maps.Keys(c.Labels)) {
		changes = append(changes, fmt.Sprintf("LABEL %q=%q", k, c.Labels[k]))
	}
	if len(c.Command) > 0 {
		command, err := json.Marshal(c.Command)
		if err != nil {
			return fmt.Errorf("docker: import %s: %w: %w", name, fault.Internal, err)
		}
		changes = append(changes, "CMD "+string(command))
	}
	r, err := e.c.ImageImport(ctx, image.ImportSource{Source: files, SourceName: "-"}, name, image.ImportOptions{Changes: changes})
	if err != nil {
		return coded("import "+name, err)
	}
	return progress("import "+name, r, nil)
}

// Build makes an image by a Dockerfile, in the engine's own builder and without
// a network.
func (e *remoteEngine) Build(ctx context.Context, files io.Reader, dockerfile, name string, labels map[string]string) error {
	resp, err := e.c.ImageBuild(ctx, files, build.ImageBuildOptions{
		Tags: []string{name}, Dockerfile: dockerfile, Labels: labels, Remove: true, ForceRemove: true, Version: build.BuilderV1,
	})
	if err != nil {
		return coded("build "+name, err)
	}
	return progress("build "+name, resp.Body, nil)
}

// RemoveImage takes a name from an image, and the image away with its last one.
func (e *remoteEngine) RemoveImage(ctx context.Context, name string) error {
	_, err := e.c.ImageRemove(ctx, name, image.RemoveOptions{PruneChildren: true})
	return coded("remove image "+name, err)
}

// Close ends the connections to the engine.
func (e *remoteEngine) Close() error { return e.c.Close() }
