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
	"github.com/croft-run/croft/guest"
	"github.com/croft-run/croft/host/process"
	"github.com/croft-run/croft/workspace/driver"
)

// What is where inside.
const (
	guestWorkspaceDir = "/workspace"
	boxInside         = "/.croft"       // what the guest has of the host
	guestInside       = "/.croft-guest" // its program
	caDirInside       = "/run/croft"    // what programs trust
	home              = "/home/croft"
	userName          = "croft"
	hostname          = "croft"
	relayPort         = egress.RelayPort

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
	proof      *engineProof
	key        string
	policy     driver.Policy
	proxied    bool   // there is a proxy, whose socket is in the box, or which the client reaches
	caDir      string // directory with what programs trust; "" leaves them theirs
	caBundle   []byte // the same where nothing is mounted
	autoRemove bool
	lease      time.Duration
	token      string
}

func (l *launch) boxPath(elem ...string) string {
	return filepath.Join(append([]string{l.dir, boxName}, elem...)...)
}

// startContainer makes the container and waits until its guest answers. Where it fails the
// container is left for the caller to remove.
func (p *Provider) startContainer(ctx context.Context, l *launch) (*guest.Client, error) {
	if l.volume != "" {
		return p.startOnVolume(ctx, l)
	}
	bin, err := p.installGuest()
	if err != nil {
		return nil, err
	}
	img, err := p.ensureImage(ctx, l.image)
	if err != nil {
		return nil, err
	}
	if err := l.prepareBox(bin.version, img); err != nil {
		return nil, fmt.Errorf("docker: prepare %s: %w: %w", l.name, fault.Of(err), err)
	}
	spec, err := p.containerSpec(ctx, l, img, bin.path)
	if err != nil {
		return nil, err
	}
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	defer cancel()
	if err := p.runContainer(soon, spec); err != nil {
		return nil, p.engineTimeout(ctx, err)
	}
	c, err := p.awaitGuest(soon, l, bin.version)
	if err != nil {
		return nil, p.engineTimeout(ctx, err)
	}
	if err := l.closeBox(); err != nil {
		return nil, errors.Join(fmt.Errorf("docker: close the box of %s: %w: %w", l.name, fault.Of(err), err), c.Close())
	}
	return c, nil
}

// createContainer makes a container in place of any that has its name, which a crash has
// left: the lock is held.
func (p *Provider) createContainer(ctx context.Context, u ContainerSpec) (id string, err error) {
	id, err = p.requestCreate(ctx, u)
	if fault.Of(err) == fault.AlreadyExists {
		if err = p.removeContainer(ctx, u.Name); err == nil {
			id, err = p.requestCreate(ctx, u)
		}
	}
	if err == nil {
		driver.Step(ctx, "container created")
	}
	return id, err
}

// requestCreate has the engine make a container, and hears the answer also where the caller gives
// up meanwhile: an engine that was asked goes on, and what it makes after its maker has
// looked for it would be nobody's. One that does not answer is not waited for long.
func (p *Provider) requestCreate(ctx context.Context, u ContainerSpec) (string, error) {
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

// runContainer creates a container and starts it.
func (p *Provider) runContainer(ctx context.Context, u ContainerSpec) error {
	id, err := p.createContainer(ctx, u)
	if err != nil {
		return err
	}
	if err := p.engine.Start(ctx, id); err != nil {
		return err
	}
	driver.Step(ctx, "container started")
	return nil
}

// prepareBox makes the box ready for a guest.
func (l *launch) prepareBox(version string, img Image) error {
	if err := ownDirectory(l.boxPath()); err != nil {
		return err
	}
	for _, name := range []string{guest.ContainerConfig, guest.ContainerReport, guest.ContainerSocket} {
		if err := os.Remove(l.boxPath(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := ownDirectory(l.boxPath(guest.ContainerLog)); err != nil {
		return err
	}
	l.newToken()
	cfg := l.guestConfig(version, img)
	data, err := cfg.Encode()
	if err == nil {
		err = os.WriteFile(l.boxPath(guest.ContainerConfig), data, 0o600)
	}
	if err != nil {
		return err
	}
	return l.openBox()
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

// openBox lets the guest, who is not known to be anyone else than the workload, make
// its socket in the box. Nobody else comes so far: the directory above is closed.
func (l *launch) openBox() error {
	mode := fs.FileMode(0o700)
	if l.proof.HostUID < 0 {
		mode = 0o777
	}
	for path, m := range map[string]fs.FileMode{l.boxPath(): mode, l.boxPath(guest.ContainerLog): mode, l.boxPath(guest.ContainerConfig): mode &^ 0o111} {
		if err := os.Chmod(path, m); err != nil {
			return err
		}
		if l.proof.HostUID >= 0 {
			if err := l.proof.chownPath(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// closeBox closes the box, before anything of the workload runs: what the guest needs
// of it, it has open. Where the workload is the same user as this process, the
// token alone keeps it from speaking to the guest.
func (l *launch) closeBox() error {
	if err := errors.Join(os.Remove(l.boxPath(guest.ContainerConfig)), os.Remove(l.boxPath(guest.ContainerReport))); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(l.boxPath(), 0, 0); err != nil {
			return err
		}
	}
	if l.proof.GVisor {
		// gVisor reaches the proxy's socket by its path, as the workload. So what is in
		// the box can be reached by name: the guest's socket, which wants the token,
		// and the logs, which tell of the workload alone.
		return os.Chmod(l.boxPath(), 0o711)
	}
	return os.Chmod(l.boxPath(), 0o700)
}

// guestConfig is what the guest is told.
func (l *launch) guestConfig(version string, img Image) guest.Config {
	level := driver.IsolationContainer
	if l.proof.GVisor {
		level = driver.IsolationGVisor
	}
	cfg := guest.Config{
		Version: version, Workspace: l.id, Level: level, Root: guestWorkspaceDir, UID: -1, Token: l.token,
		Confine: guest.Confine{NoNewPrivs: true, DropCaps: true, Seccomp: true}, Limits: l.policy.Limits, Lease: l.lease,
		WatchDisk: true, Threads: guestThreads, Env: baseEnv(img.Env, l.policy.Env),
	}
	if l.volume != "" {
		cfg.Files, cfg.ReadOnly, cfg.Sync = true, l.policy.ReadOnly, l.policy.Durable
	}
	if l.proxied {
		cfg.Relay, cfg.Away, cfg.Roots = relayPort, l.volume != "", l.caBundle
		bundle := ""
		switch {
		case l.caDir != "":
			bundle = caDirInside + "/" + proxies.BundleName
		case len(l.caBundle) > 0:
			bundle = boxInside + "/" + guest.RootsName
		}
		for name, value := range egress.Env(relayPort, bundle) {
			if _, set := cfg.Env[name]; !set {
				cfg.Env[name] = value
			}
		}
	}
	return cfg
}

// baseEnv is what every process inside starts with: what the image says, and
// the policy over it.
func baseEnv(image []string, policy map[string]string) map[string]string {
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

// containerSpec describes the container.
func (p *Provider) containerSpec(ctx context.Context, l *launch, img Image, program string) (ContainerSpec, error) {
	mounts, err := p.containerMounts(l, program)
	if err != nil {
		return ContainerSpec{}, err
	}
	labels, err := p.objectLabels(ctx, l.id, l.key)
	if err != nil {
		return ContainerSpec{}, err
	}
	memory := l.policy.Limits[driver.ResourceMemory].Max
	private := fmt.Sprintf("mode=700,uid=%d,gid=%d", l.proof.UID, l.proof.UID)
	if l.proof.info.Podman {
		private = "mode=1777" // it takes no owner, and there is no other user
	}
	u := ContainerSpec{
		Name: l.name, Image: l.image, Labels: labels, Hostname: hostname, Dir: guestWorkspaceDir, Runtime: l.proof.Runtime,
		Command: []string{guestInside, guest.ContainerVerb, boxInside},
		User:    fmt.Sprintf("%d:%d", l.proof.UID, l.proof.UID),
		Mounts:  mounts,
		Tmpfs: map[string]string{
			"/tmp":     "rw,nosuid,nodev,exec,mode=1777" + tmpfsSize(memory, 2),
			"/run":     "rw,nosuid,nodev,mode=755" + tmpfsSize(memory, 32),
			"/var/tmp": "rw,nosuid,nodev,exec,mode=1777" + tmpfsSize(memory, 16),
			home:       "rw,nosuid,nodev,exec," + private + tmpfsSize(memory, 8),
		},
		Memory: memory, MilliCPUs: l.policy.Limits[driver.ResourceCPU].Max, AutoRemove: l.autoRemove,
	}
	if pids := l.policy.Limits[driver.ResourcePIDs].Max; pids > 0 && !l.proof.GVisor {
		u.PIDs = pids + guestThreads
	}
	if l.volume != "" {
		u.Command[1], u.Stdin = guest.StdioVerb, true
	}
	return u, u.maskVolumes(img, private, memory)
}

// maskedVolumeSize is how large what an image declares as a volume may become where memory has
// no limit.
const maskedVolumeSize = 256 << 20

// maskVolumes puts a file system in memory where the image declares a volume, which an engine
// would make on its own disk, writable and without a limit. It is the workload's: some
// engines give it the mode of the directory below.
func (u *ContainerSpec) maskVolumes(img Image, private string, memory int64) error {
	limit := tmpfsSize(memory, 8)
	if limit == "" {
		limit = fmt.Sprintf(",size=%d", maskedVolumeSize)
	}
	for _, at := range img.Volumes {
		at = path.Clean("/" + at)
		_, ours := u.Tmpfs[at]
		switch {
		case ours || slices.ContainsFunc(u.Mounts, func(m Mount) bool { return m.Target == at }):
		case at == "/" || strings.HasPrefix(at, guestWorkspaceDir+"/") || strings.HasPrefix(at, boxInside+"/"):
			return fmt.Errorf("docker: image %s: %w: it declares the volume %s, where nothing but the workspace can be", u.Image, fault.Unsupported, at)
		default:
			u.Tmpfs[at] = "rw,nosuid,nodev,exec," + private + limit
		}
	}
	return nil
}

// containerMounts are what the container has of this host, or of its engine.
func (p *Provider) containerMounts(l *launch, program string) ([]Mount, error) {
	if l.volume != "" {
		return []Mount{{Source: l.volume, Target: guestWorkspaceDir, Volume: true, ReadOnly: l.policy.ReadOnly}, {Target: boxInside, Volume: true}}, nil
	}
	accounts, err := p.accountMounts(l.proof.UID)
	if err != nil {
		return nil, err
	}
	mounts := append([]Mount{
		{Source: l.files, Target: guestWorkspaceDir, ReadOnly: l.policy.ReadOnly},
		{Source: l.boxPath(), Target: boxInside},
		{Source: program, Target: guestInside, ReadOnly: true},
	}, accounts...)
	if l.caDir != "" {
		mounts = append(mounts, Mount{Source: l.caDir, Target: caDirInside, ReadOnly: true})
	}
	return mounts, nil
}

// tmpfsSize limits a file system in memory to a part of the memory that there is: what
// is in such files can't be freed by killing anyone.
func tmpfsSize(memory, part int64) string {
	if memory == 0 {
		return ""
	}
	return fmt.Sprintf(",size=%d", max(memory/part, 64<<10))
}

// awaitGuest waits until the guest of a container that was started answers.
func (p *Provider) awaitGuest(ctx context.Context, l *launch, version string) (*guest.Client, error) {
	const look, often = 2 * time.Millisecond, 100
	for i := 0; ; i++ {
		said, err := os.ReadFile(l.boxPath(guest.ContainerReport))
		switch {
		case err == nil && string(said) == "ok":
			return guest.Dial(ctx, l.boxPath(guest.ContainerSocket), l.token, version, l.id)
		case err == nil:
			return nil, startError(said)
		case i%often == often-1:
			if err := p.checkRunning(ctx, l.name); err != nil {
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

// startError is what a guest said that can't serve.
func startError(said []byte) error {
	var w fault.Wire
	if json.Unmarshal(said, &w) == nil && w.Code != "" {
		return fmt.Errorf("docker: start the guest: %w: %w", fault.Failed, w.Err())
	}
	return fmt.Errorf("docker: start the guest: %w: it said %q", fault.Failed, said)
}

// checkRunning answers why a container does not run.
func (p *Provider) checkRunning(ctx context.Context, name string) error {
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

// removeContainer removes a container by its name, whatever it does.
func (p *Provider) removeContainer(ctx context.Context, name string) error {
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
	return p.engineTimeout(context.WithoutCancel(ctx), err)
}
