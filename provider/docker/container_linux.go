package docker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/internal/egress/proxies"
	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/toolchain"
	"github.com/croft-run/croft/internal/sleep"
	"github.com/croft-run/croft/workspace/driver"
)

// Paths and names inside the container.
const (
	guestWorkspaceDir = "/workspace"
	boxInside         = "/.croft"       // the box of the host
	guestInside       = "/.croft-guest" // the guest's program
	caDirInside       = "/run/croft"    // certificates that programs trust
	loginName         = "login.sh"      // the file that keeps the PATH of login shells
	home              = guest.ContainerHome
	userName          = guest.ContainerUser
	hostname          = "croft"
	relayPort         = egress.RelayPort

	// guestThreads is the number of threads of the guest. The engine's PIDs limit is
	// higher than the workload's by this number.
	guestThreads = 24
)

// A launch is a container to start, with a guest in it.
type launch struct {
	dir        string // of the workspace, with the box
	id         string // of the workspace
	name       string // of the container
	image      string
	files      string
	volume     string // with the files; "" if they are at files
	proof      *engineProof
	key        string
	policy     driver.Policy
	proxied    bool   // there is an egress proxy, whose socket is in the box, or to which the client relays
	caDir      string // directory of the certificates that programs trust; "" leaves those of the image
	caBundle   []byte // the certificates themselves, if nothing can be mounted
	autoRemove bool
	lease      time.Duration
	token      string
}

func (l *launch) boxPath(elem ...string) string {
	return filepath.Join(append([]string{l.dir, boxName}, elem...)...)
}

// startContainer creates the container and waits until its guest answers. After an error the
// caller removes the container.
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

// createContainer creates a container, and replaces one of the same name, which is a leftover
// of a crash. It requires the guest lock. While the engine still creates the container of a
// process that was killed, its name is in use, and it can't be removed yet.
func (p *Provider) createContainer(ctx context.Context, u ContainerSpec) (id string, err error) {
	const most, pause = 10 * time.Second, 50 * time.Millisecond
	begin := time.Now()
	id, err = p.requestCreate(ctx, u)
	for fault.Of(err) == fault.AlreadyExists && time.Since(begin) < most {
		if err := p.removeContainer(ctx, u.Name); err != nil {
			return "", err
		}
		if id, err = p.requestCreate(ctx, u); fault.Of(err) == fault.AlreadyExists {
			if err := sleep.For(ctx, pause); err != nil {
				return "", fmt.Errorf("docker: create %s: %w", u.Name, err)
			}
		}
	}
	if err == nil {
		driver.Step(ctx, "container created")
	}
	return id, err
}

// requestCreate creates a container, and waits for the answer for some time even if ctx is
// cancelled: the engine completes a request that was sent, and a container that it creates
// after the caller's cleanup would leak.
func (p *Provider) requestCreate(ctx context.Context, u ContainerSpec) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("docker: create %s: %w", u.Name, err)
	}
	const grace = 10 * time.Second
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(min(grace, p.cfg.AnswerTimeout), cancel) })()
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

// prepareBox creates the box, removes files of an earlier guest, and writes the guest's
// configuration.
func (l *launch) prepareBox(version string, img Image) error {
	if err := ownDirectory(l.boxPath()); err != nil {
		return err
	}
	for _, name := range []string{guestproto.ContainerConfig, guestproto.ContainerReport, guestproto.ContainerSocket} {
		if err := os.Remove(l.boxPath(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := ownDirectory(l.boxPath(guestproto.ContainerLog)); err != nil {
		return err
	}
	l.newToken()
	cfg := l.guestConfig(version, img)
	if err := atomicfile.Write(filepath.Join(l.dir, loginName), []byte(toolchain.LoginText(cfg.Env["PATH"])), atomicfile.Options{Mode: 0o444}); err != nil {
		return err
	}
	data, err := cfg.Encode()
	if err == nil {
		err = os.WriteFile(l.boxPath(guestproto.ContainerConfig), data, 0o600)
	}
	if err != nil {
		return err
	}
	return l.openBox()
}

// ownDirectory creates a directory and replaces anything else at the path, such as a symlink,
// which the workload of an earlier container could have created if it is the same user as
// this process.
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

// newToken generates the token that clients of the guest must send.
func (l *launch) newToken() {
	token := make([]byte, 32)
	rand.Read(token) // never fails
	l.token = hex.EncodeToString(token)
}

// openBox gives the guest's uid access to the box, so that it can create its socket. In a
// probe, where that uid is not known yet, every uid gets access; the directory above keeps
// other users of the host out.
func (l *launch) openBox() error {
	mode := fs.FileMode(0o700)
	if l.proof.HostUID < 0 {
		mode = 0o777
	}
	for path, m := range map[string]fs.FileMode{l.boxPath(): mode, l.boxPath(guestproto.ContainerLog): mode, l.boxPath(guestproto.ContainerConfig): mode &^ 0o111} {
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

// closeBox removes access to the box before the workload starts; the guest has the files that
// it needs open. If the workload is the same user as this process, only the token prevents
// that it connects to the guest.
func (l *launch) closeBox() error {
	if err := errors.Join(os.Remove(l.boxPath(guestproto.ContainerConfig)), os.Remove(l.boxPath(guestproto.ContainerReport))); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(l.boxPath(), 0, 0); err != nil {
			return err
		}
	}
	if l.proof.GVisor {
		// gVisor opens the proxy's socket by its path, as the workload. So files in the box
		// can be opened by name: the guest's socket, which requires the token, and the logs
		// of the workload itself.
		return os.Chmod(l.boxPath(), 0o711)
	}
	return os.Chmod(l.boxPath(), 0o700)
}

// guestConfig returns the guest's configuration.
func (l *launch) guestConfig(version string, img Image) guestproto.Config {
	level := driver.IsolationContainer
	if l.proof.GVisor {
		level = driver.IsolationGVisor
	}
	cfg := guestproto.Config{
		Version: version, Workspace: l.id, Level: level, Root: guestWorkspaceDir, UID: -1, Token: l.token,
		Confine: guestproto.Confine{NoNewPrivs: true, DropCaps: true, Seccomp: true}, Limits: l.policy.Limits.WithoutBestEffort(), Lease: l.lease,
		WatchDisk: true, Threads: guestThreads, Env: guest.ContainerEnv(img.Env, l.policy.Env),
	}
	if l.volume != "" {
		cfg.Files, cfg.ReadOnly, cfg.Sync = true, l.policy.ReadOnly, l.policy.Durable
	}
	if l.proxied {
		cfg.RelayPort, cfg.RemoteProxy, cfg.CACerts, cfg.Forwards = relayPort, l.volume != "", l.caBundle, egress.Forwards(l.policy.Network)
		bundle := ""
		switch {
		case l.caDir != "":
			bundle = caDirInside + "/" + proxies.BundleName
		case len(l.caBundle) > 0:
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

// containerSpec returns the spec of the container.
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
		private = "mode=1777" // Podman refuses uid and gid; there is no other user inside
	}
	u := ContainerSpec{
		Name: l.name, Image: l.image, Labels: labels, Hostname: hostname, Dir: guestWorkspaceDir, Runtime: l.proof.Runtime,
		Command: []string{guestInside, guestproto.ContainerVerb, boxInside},
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
		u.Command[1], u.Stdin = guestproto.StdioVerb, true
	}
	return u, u.maskVolumes(img, private, memory)
}

// maskedVolumeSize bounds a masked volume of the image if there is no memory limit.
const maskedVolumeSize = 256 << 20

// maskVolumes mounts a tmpfs on each volume that the image declares. The engine would create a
// writable volume without a size limit on its own disk. The tmpfs belongs to the workload,
// because some engines give it the mode of the directory below.
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

// containerMounts returns the bind mounts of the container, or its volumes.
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
		{Source: filepath.Join(l.dir, loginName), Target: toolchain.LoginFile, ReadOnly: true},
	}, accounts...)
	if l.caDir != "" {
		mounts = append(mounts, Mount{Source: l.caDir, Target: caDirInside, ReadOnly: true})
	}
	return mounts, nil
}

// tmpfsSize returns the mount option that limits a tmpfs to 1/part of the memory limit: the
// OOM killer can't free tmpfs files.
func tmpfsSize(memory, part int64) string {
	if memory == 0 {
		return ""
	}
	return fmt.Sprintf(",size=%d", max(memory/part, 64<<10))
}

// awaitGuest waits until the guest of a started container answers.
func (p *Provider) awaitGuest(ctx context.Context, l *launch, version string) (*guest.Client, error) {
	const interval, inspectEvery = 2 * time.Millisecond, 100
	for i := 0; ; i++ {
		report, err := os.ReadFile(l.boxPath(guestproto.ContainerReport))
		switch {
		case err == nil && string(report) == "ok":
			return guest.Dial(ctx, l.boxPath(guestproto.ContainerSocket), l.token, version, l.id)
		case err == nil:
			return nil, startError(report)
		case i%inspectEvery == inspectEvery-1:
			if err := p.checkRunning(ctx, l.name); err != nil {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("docker: wait for the guest in %s: %w", l.name, ctx.Err())
		case <-time.After(interval):
		}
	}
}

// startError returns the error that a guest reported instead of serving.
func startError(report []byte) error {
	var w fault.Wire
	if json.Unmarshal(report, &w) == nil && w.Code != "" {
		return fmt.Errorf("docker: start the guest: %w: %w", fault.Failed, w.Err())
	}
	return fmt.Errorf("docker: start the guest: %w: it reported %q", fault.Failed, report)
}

// checkRunning returns an error that says why a container does not run, nil if it runs.
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

// removeContainer removes a container by its name, even if it runs or is paused.
func (p *Provider) removeContainer(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.AnswerTimeout)
	defer cancel()
	err := p.engine.Remove(ctx, name)
	if err == nil {
		return nil
	}
	if s, ierr := p.engine.Inspect(ctx, name); ierr == nil && s.Paused { // some engines can't kill a paused container
		if uerr := p.engine.Unpause(ctx, name); uerr == nil {
			err = p.engine.Remove(ctx, name)
		}
	}
	return p.engineTimeout(context.WithoutCancel(ctx), err)
}
