package docker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/egress"
	"github.com/croft-run/croft/egress/proxies"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/guest"
	"github.com/croft-run/croft/host/guestproto"
	"github.com/croft-run/croft/host/process"
	"github.com/croft-run/croft/workspace/driver"
)

// What is where inside.
const (
	inside      = "/workspace"
	boxInside   = "/.croft"       // what the guest has of the host
	guestInside = "/.croft-guest" // its program
	rootsInside = "/run/croft"    // what programs trust
	home        = "/home/croft"
	userName    = "croft"
	hostname    = "croft"
	relayPort   = egress.RelayPort

	// guestThreads is how many threads the guest keeps of its own: a limit of
	// processes is so much higher for the engine than for the workload.
	guestThreads = 24
)

// A launch is a container to be started, with a guest in it.
type launch struct {
	dir        string // of the workspace, which holds the box
	id         string // of the workspace
	name       string // of the container
	image      string
	files      string
	volume     string // that holds the files; "" has them at files
	fact       *fact
	key        string
	policy     driver.Policy
	proxied    bool   // there is a proxy, whose socket is in the box, or which the client reaches
	roots      string // directory with what programs trust; "" leaves them theirs
	trust      []byte // the same where nothing is mounted
	autoRemove bool
	lease      time.Duration
	token      string
}

func (l *launch) box(elem ...string) string {
	return filepath.Join(append([]string{l.dir, boxName}, elem...)...)
}

// start makes the container and waits until its guest answers. Where it fails the
// container is left for the caller to remove.
func (p *Provider) start(ctx context.Context, l *launch) (*guest.Client, error) {
	if l.volume != "" {
		return p.startAway(ctx, l)
	}
	bin, err := p.install()
	if err != nil {
		return nil, err
	}
	img, err := p.ensureImage(ctx, l.image)
	if err != nil {
		return nil, err
	}
	if err := l.prepare(bin.version, img); err != nil {
		return nil, fmt.Errorf("docker: prepare %s: %w: %w", l.name, fault.Of(err), err)
	}
	unit, err := p.unit(ctx, l, img, bin.path)
	if err != nil {
		return nil, err
	}
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	defer cancel()
	if err := p.run(soon, unit); err != nil {
		return nil, p.hung(ctx, err)
	}
	c, err := p.await(soon, l, bin.version)
	if err != nil {
		return nil, p.hung(ctx, err)
	}
	if err := l.seal(); err != nil {
		return nil, errors.Join(fmt.Errorf("docker: close the box of %s: %w: %w", l.name, fault.Of(err), err), c.Close())
	}
	return c, nil
}

// create makes a container in place of any that has its name, which a crash has
// left: the lock is held.
func (p *Provider) create(ctx context.Context, u Unit) (id string, err error) {
	id, err = p.ask(ctx, u)
	if fault.Of(err) == fault.AlreadyExists {
		if err = p.removeUnit(ctx, u.Name); err == nil {
			id, err = p.ask(ctx, u)
		}
	}
	if err == nil {
		driver.Step(ctx, "container created")
	}
	return id, err
}

// ask has the engine make a container, and hears the answer also where the caller gives
// up meanwhile: an engine that was asked goes on, and what it makes after its maker has
// looked for it would be nobody's. One that does not answer is not waited for long.
func (p *Provider) ask(ctx context.Context, u Unit) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("docker: create %s: %w", u.Name, err)
	}
	const patience = 10 * time.Second
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(min(patience, p.cfg.AnswerTimeout), cancel) })()
	id, err := p.engine.Create(whole, u)
	if cut := ctx.Err(); cut != nil {
		return "", fmt.Errorf("docker: create %s: %w", u.Name, cut)
	}
	return id, err
}

// run creates a container and starts it.
func (p *Provider) run(ctx context.Context, u Unit) error {
	id, err := p.create(ctx, u)
	if err != nil {
		return err
	}
	if err := p.engine.Start(ctx, id); err != nil {
		return err
	}
	driver.Step(ctx, "container started")
	return nil
}

// prepare makes the box ready for a guest.
func (l *launch) prepare(version string, img Image) error {
	if err := ownDirectory(l.box()); err != nil {
		return err
	}
	for _, name := range []string{guestproto.ContainerConfig, guestproto.ContainerReport, guestproto.ContainerSocket} {
		if err := os.Remove(l.box(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := ownDirectory(l.box(guestproto.ContainerLog)); err != nil {
		return err
	}
	l.newToken()
	cfg := l.config(version, img)
	data, err := cfg.Encode()
	if err == nil {
		err = os.WriteFile(l.box(guestproto.ContainerConfig), data, 0o600)
	}
	if err != nil {
		return err
	}
	return l.open()
}

// ownDirectory makes a directory in the place of anything else, such as a link: where
// the workload is the same user as this process, the box is the workload's as well.
// Its container has ended.
func ownDirectory(path string) error {
	info, err := os.Lstat(path)
	if err == nil && !info.IsDir() {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// newToken makes up what the guest wants to hear.
func (l *launch) newToken() {
	token := make([]byte, 32)
	rand.Read(token) // never fails
	l.token = hex.EncodeToString(token)
}

// open lets the guest, who is not known to be anyone else than the workload, make
// its socket in the box. Nobody else comes so far: the directory above is closed.
func (l *launch) open() error {
	mode := fs.FileMode(0o700)
	if l.fact.Outside < 0 {
		mode = 0o777
	}
	for path, m := range map[string]fs.FileMode{l.box(): mode, l.box(guestproto.ContainerLog): mode, l.box(guestproto.ContainerConfig): mode &^ 0o111} {
		if err := os.Chmod(path, m); err != nil {
			return err
		}
		if l.fact.Outside >= 0 {
			if err := l.fact.give(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// seal closes the box, before anything of the workload runs: what the guest needs
// of it, it has open. Where the workload is the same user as this process, the
// token alone keeps it from speaking to the guest.
func (l *launch) seal() error {
	if err := errors.Join(os.Remove(l.box(guestproto.ContainerConfig)), os.Remove(l.box(guestproto.ContainerReport))); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(l.box(), 0, 0); err != nil {
			return err
		}
	}
	if l.fact.Kernel {
		// gVisor reaches the proxy's socket by its path, as the workload. So what is in
		// the box can be reached by name: the guest's socket, which wants the token,
		// and the logs, which tell of the workload alone.
		return os.Chmod(l.box(), 0o711)
	}
	return os.Chmod(l.box(), 0o700)
}

// config is what the guest is told.
func (l *launch) config(version string, img Image) guestproto.Config {
	level := driver.IsolationContainer
	if l.fact.Kernel {
		level = driver.IsolationGVisor
	}
	cfg := guestproto.Config{
		Version: version, Workspace: l.id, Level: level, Root: inside, UID: -1, Token: l.token,
		Confine: guestproto.Confine{NoNewPrivs: true, DropCaps: true, Seccomp: true}, Limits: l.policy.Limits, Lease: l.lease,
		WatchDisk: true, Threads: guestThreads, Env: environment(img.Env, l.policy.Env),
	}
	if l.volume != "" {
		cfg.Files, cfg.ReadOnly, cfg.Sync = true, l.policy.ReadOnly, l.policy.Durable
	}
	if l.proxied {
		cfg.RelayPort, cfg.RemoteProxy, cfg.CACerts = relayPort, l.volume != "", l.trust
		bundle := ""
		switch {
		case l.roots != "":
			bundle = rootsInside + "/" + proxies.BundleName
		case len(l.trust) > 0:
			bundle = boxInside + "/" + guestproto.CACertsFile
		}
		for name, value := range egress.Env(relayPort, bundle) {
			if _, set := cfg.Env[name]; !set {
				cfg.Env[name] = value
			}
		}
	}
	return cfg
}

// environment is what every process inside starts with: what the image says, and
// the policy over it.
func environment(image []string, policy map[string]string) map[string]string {
	env := map[string]string{"PATH": process.DefaultPath, "LANG": "C.UTF-8"}
	for _, pair := range image {
		if name, value, ok := cutEnv(pair); ok {
			env[name] = value
		}
	}
	maps.Copy(env, map[string]string{
		"HOME": home, "USER": userName, "LOGNAME": userName, "SHELL": "/bin/bash", "TERM": "xterm-256color", "TMPDIR": "/tmp",
	})
	maps.Copy(env, policy)
	return env
}

// unit describes the container.
func (p *Provider) unit(ctx context.Context, l *launch, img Image, program string) (Unit, error) {
	mounts, err := p.mounts(l, program)
	if err != nil {
		return Unit{}, err
	}
	labels, err := p.labels(ctx, l.id, l.key)
	if err != nil {
		return Unit{}, err
	}
	memory := l.policy.Limits[driver.ResourceMemory].Max
	private := fmt.Sprintf("mode=700,uid=%d,gid=%d", l.fact.UID, l.fact.UID)
	if l.fact.info.Podman {
		private = "mode=1777" // it takes no owner, and there is no other user
	}
	u := Unit{
		Name: l.name, Image: l.image, Labels: labels, Hostname: hostname, Dir: inside, Runtime: l.fact.Runtime,
		Command: []string{guestInside, guestproto.ContainerVerb, boxInside},
		User:    fmt.Sprintf("%d:%d", l.fact.UID, l.fact.UID),
		Mounts:  mounts,
		Tmpfs: map[string]string{
			"/tmp":     "rw,nosuid,nodev,exec,mode=1777" + size(memory, 2),
			"/run":     "rw,nosuid,nodev,mode=755" + size(memory, 32),
			"/var/tmp": "rw,nosuid,nodev,exec,mode=1777" + size(memory, 16),
			home:       "rw,nosuid,nodev,exec," + private + size(memory, 8),
		},
		Memory: memory, MilliCPUs: l.policy.Limits[driver.ResourceCPU].Max, AutoRemove: l.autoRemove,
	}
	if pids := l.policy.Limits[driver.ResourcePIDs].Max; pids > 0 && !l.fact.Kernel {
		u.PIDs = pids + guestThreads
	}
	if l.volume != "" {
		u.Command[1], u.Stdin = guestproto.StdioVerb, true
	}
	return u, u.cover(img, private, memory)
}

// uncovered is how large what an image declares as a volume may become where memory has
// no limit.
const uncovered = 256 << 20

// cover puts a file system in memory where the image declares a volume, which an engine
// would make on its own disk, writable and without a limit. It is the workload's: some
// engines give it the mode of the directory below.
func (u *Unit) cover(img Image, private string, memory int64) error {
	limit := size(memory, 8)
	if limit == "" {
		limit = fmt.Sprintf(",size=%d", uncovered)
	}
	for _, at := range img.Volumes {
		at = path.Clean("/" + at)
		_, ours := u.Tmpfs[at]
		switch {
		case ours || slices.ContainsFunc(u.Mounts, func(m Mount) bool { return m.Target == at }):
		case at == "/" || strings.HasPrefix(at, inside+"/") || strings.HasPrefix(at, boxInside+"/"):
			return fmt.Errorf("docker: image %s: %w: it declares the volume %s, where nothing but the workspace can be", u.Image, fault.Unsupported, at)
		default:
			u.Tmpfs[at] = "rw,nosuid,nodev,exec," + private + limit
		}
	}
	return nil
}

// mounts are what the container has of this host, or of its engine.
func (p *Provider) mounts(l *launch, program string) ([]Mount, error) {
	if l.volume != "" {
		return []Mount{{Source: l.volume, Target: inside, Volume: true, ReadOnly: l.policy.ReadOnly}, {Target: boxInside, Volume: true}}, nil
	}
	accounts, err := p.accounts(l.fact.UID)
	if err != nil {
		return nil, err
	}
	mounts := append([]Mount{
		{Source: l.files, Target: inside, ReadOnly: l.policy.ReadOnly},
		{Source: l.box(), Target: boxInside},
		{Source: program, Target: guestInside, ReadOnly: true},
	}, accounts...)
	if l.roots != "" {
		mounts = append(mounts, Mount{Source: l.roots, Target: rootsInside, ReadOnly: true})
	}
	return mounts, nil
}

// size limits a file system in memory to a part of the memory that there is: what
// is in such files can't be freed by killing anyone.
func size(memory, part int64) string {
	if memory == 0 {
		return ""
	}
	return fmt.Sprintf(",size=%d", max(memory/part, 64<<10))
}

// await waits until the guest of a container that was started answers.
func (p *Provider) await(ctx context.Context, l *launch, version string) (*guest.Client, error) {
	const look, often = 2 * time.Millisecond, 100
	for i := 0; ; i++ {
		said, err := os.ReadFile(l.box(guestproto.ContainerReport))
		switch {
		case err == nil && string(said) == "ok":
			return guest.Dial(ctx, l.box(guestproto.ContainerSocket), l.token, version, l.id)
		case err == nil:
			return nil, failedStart(said)
		case i%often == often-1:
			if err := p.stands(ctx, l.name); err != nil {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("docker: wait for the guest in %s: %w", l.name, ctx.Err())
		case <-time.After(look):
		}
	}
}

// failedStart is what a guest said that can't serve.
func failedStart(said []byte) error {
	var w fault.Wire
	if json.Unmarshal(said, &w) == nil && w.Code != "" {
		return fmt.Errorf("docker: start the guest: %w: %w", fault.Failed, w.Err())
	}
	return fmt.Errorf("docker: start the guest: %w: it said %q", fault.Failed, said)
}

// stands answers why a container does not run.
func (p *Provider) stands(ctx context.Context, name string) error {
	s, err := p.engine.Inspect(ctx, name)
	switch {
	case err != nil:
		return err
	case s.Running:
		return nil
	case s.OOM:
		return fmt.Errorf("docker: start the guest: %w: the memory limit is too low for it", fault.ResourceExhausted)
	}
	return fmt.Errorf("docker: start the guest: %w: the container ended with status %d %s", fault.Failed, s.ExitCode, s.Error)
}

// removeUnit removes a container by its name, whatever it does.
func (p *Provider) removeUnit(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.AnswerTimeout)
	defer cancel()
	err := p.engine.Remove(ctx, name)
	if err == nil {
		return nil
	}
	if s, ierr := p.engine.Inspect(ctx, name); ierr == nil && s.Paused { // what stands still can't end, for some engines
		if uerr := p.engine.Unpause(ctx, name); uerr == nil {
			err = p.engine.Remove(ctx, name)
		}
	}
	return p.hung(context.WithoutCancel(ctx), err)
}
