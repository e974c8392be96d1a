package testenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// DockerVar is the environment variable with the engine's address for child processes of
// a test.
const DockerVar = "CROFT_TEST_DOCKER"

// A Dockerd is a private Docker engine with a directory of its own, for the life of one
// program. It has no network, so that it shares no bridge and no firewall rules with an
// engine of the host or of other programs.
type Dockerd struct {
	Dir string // short, since a socket's path must be

	wrap []string // before what is run
	args []string
	argv []string // in place of dockerd and all its arguments
	env  []string // beyond this process's own

	socket string // "" is docker.sock in Dir
	cmd    *exec.Cmd
	done   <-chan struct{}
	log    *os.File
}

// DockerMissing returns what the host lacks to start an engine; "" is nothing.
func DockerMissing() string {
	for _, name := range []string{"dockerd", "containerd", "runc", "iptables", "dpkg-query"} {
		if _, err := exec.LookPath(name); err != nil {
			return name + " is not on PATH"
		}
	}
	if os.Geteuid() != 0 {
		return "this process is not root"
	}
	return ""
}

// StartDockerd starts an engine with further arguments, such as
// --userns-remap=default. gVisor is its runtime "runsc" where the host has it.
func StartDockerd(ctx context.Context, args ...string) (*Dockerd, error) {
	dir, err := os.MkdirTemp("", "dockerd")
	if err != nil {
		return nil, err
	}
	return (&Dockerd{Dir: dir, args: args}).setUp(ctx)
}

// StartMappedDockerd starts an engine with user namespace remapping, from uid base on.
// The host's /etc/subuid is not changed.
func StartMappedDockerd(ctx context.Context, base int) (*Dockerd, error) {
	dir, err := os.MkdirTemp("", "dockerd")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // root of a container is an unprivileged user outside, and needs to traverse it
		return nil, err
	}
	table := filepath.Join(dir, "subid")
	if err := os.WriteFile(table, fmt.Appendf(nil, "nobody:%d:65536\nnogroup:%d:65536\n", base, base), 0o644); err != nil { // world-readable, as the host's
		return nil, err
	}
	const own = `mount --bind "$0" /etc/subuid && mount --bind "$0" /etc/subgid && exec "$@"`
	d := &Dockerd{Dir: dir, wrap: []string{"unshare", "-m", "sh", "-c", own, table}, args: []string{"--userns-remap=nobody:nogroup"}}
	return d.setUp(ctx)
}

// RootlessMissing returns what the host lacks to start an engine as an unprivileged user;
// "" is nothing.
func RootlessMissing() string {
	for _, name := range []string{"rootlesskit", "newuidmap", "setpriv"} {
		if _, err := exec.LookPath(name); err != nil {
			return name + " is not on PATH"
		}
	}
	return DockerMissing()
}

// Nobody is the uid of the unprivileged user of a rootless engine.
const Nobody = 65534

// StartRootlessDockerd starts an engine as the user Nobody. The host's tables of
// subordinate ids are not changed.
func StartRootlessDockerd(ctx context.Context) (*Dockerd, error) {
	dir, err := os.MkdirTemp("", "dockerd")
	if err != nil {
		return nil, err
	}
	table, own := filepath.Join(dir, "subid"), filepath.Join(dir, "own")
	if err := errors.Join(
		os.WriteFile(table, []byte("nobody:200000:65536\nnogroup:200000:65536\n"), 0o644), // world-readable, as the host's
		os.Mkdir(own, 0o700), os.Chown(own, Nobody, Nobody), os.Chmod(dir, 0o755), // the user needs to traverse it
	); err != nil {
		return nil, err
	}
	const script = `mount --bind "$0" /etc/subuid && mount --bind "$0" /etc/subgid && exec setpriv --reuid 65534 --regid 65534 --clear-groups \
		env HOME="$1" XDG_RUNTIME_DIR="$1" rootlesskit --net=host --copy-up=/etc --copy-up=/run --state-dir "$1/kit" \
		sh -c 'rm -f /run/docker /run/containerd /run/xtables.lock; echo "{}" > "$0/none.json"; exec dockerd --rootless --data-root "$0/root" --exec-root "$0/exec" -H "unix://$0/docker.sock" -p "$0/pid" --config-file "$0/none.json" --iptables=false --bridge=none' "$1"`
	d := &Dockerd{Dir: dir, socket: filepath.Join(own, "docker.sock"), argv: []string{"unshare", "-m", "sh", "-c", script, table, own}}
	return d.setUp(ctx)
}

// PodmanMissing returns what the host lacks to start Podman; "" is nothing.
func PodmanMissing() string {
	for _, name := range []string{"podman", "conmon"} {
		if _, err := exec.LookPath(name); err != nil {
			return name + " is not on PATH"
		}
	}
	if os.Geteuid() != 0 {
		return "this process is not root"
	}
	return ""
}

// StartPodman starts Podman with Docker's API, and with images and containers of its own.
func StartPodman(ctx context.Context) (*Dockerd, error) {
	dir, err := os.MkdirTemp("", "podman")
	if err != nil {
		return nil, err
	}
	// Its default ulimits need CAP_SYS_RESOURCE on some hosts.
	settings := filepath.Join(dir, "containers.conf")
	if err := os.WriteFile(settings, []byte("[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n"), 0o600); err != nil {
		return nil, err
	}
	d := &Dockerd{Dir: dir, env: []string{"CONTAINERS_CONF=" + settings}}
	d.argv = []string{
		"podman", "--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "run"), "--tmpdir", filepath.Join(dir, "tmp"),
		"--cgroup-manager", "cgroupfs", "--events-backend", "file", "--runtime", "runc", "system", "service", "--time", "0", d.Host(),
	}
	return d.setUp(ctx)
}

func (d *Dockerd) setUp(ctx context.Context) (*Dockerd, error) {
	dir := d.Dir
	settings := map[string]any{}
	if path := Runsc(); path != "" {
		settings["runtimes"] = map[string]any{"runsc": map[string]any{
			"path": path, "runtimeArgs": []string{"--platform=systrap", "--network=none", "--host-uds=all", "--overlay2=none"},
		}}
	}
	data, err := json.Marshal(settings)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "daemon.json"), data, 0o600)
	}
	if err == nil {
		d.log, err = os.Create(filepath.Join(dir, "log"))
	}
	if err == nil {
		err = d.Start(ctx)
	}
	if err == nil {
		err = d.importImage(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, d.Stop())
	}
	return d, nil
}

// Host is the address of the engine.
func (d *Dockerd) Host() string { return "unix://" + d.Socket() }

// Socket is the path of the engine's socket.
func (d *Dockerd) Socket() string {
	if d.socket != "" {
		return d.socket
	}
	return filepath.Join(d.Dir, "docker.sock")
}

// PID is the process of the engine.
func (d *Dockerd) PID() int { return d.cmd.Process.Pid }

// Start starts the engine again, after Kill.
func (d *Dockerd) Start(ctx context.Context) error {
	os.Remove(filepath.Join(d.Dir, "pid")) // left by a killed engine
	argv := append(slices.Clone(d.wrap), append([]string{
		"dockerd", "--data-root", filepath.Join(d.Dir, "root"), "--exec-root", filepath.Join(d.Dir, "exec"), "--config-file", filepath.Join(d.Dir, "daemon.json"),
		"-H", d.Host(), "-p", filepath.Join(d.Dir, "pid"), "--bridge=none", "--iptables=false", "--ip6tables=false",
	}, d.args...)...)
	if d.argv != nil {
		argv = d.argv
	}
	d.cmd = exec.CommandContext(context.WithoutCancel(ctx), argv[0], argv[1:]...)
	d.cmd.Stdout, d.cmd.Stderr, d.cmd.Env = d.log, d.log, append(os.Environ(), d.env...)
	d.cmd.SysProcAttr = dieWithParent(syscall.SIGTERM)
	done, err := startChild(d.cmd)
	if err != nil {
		return err
	}
	d.done = done
	return d.waitReady(ctx)
}

// waitReady waits until the engine answers.
func (d *Dockerd) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	client := d.httpClient()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/_ping", http.NoBody)
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-d.done:
			return fmt.Errorf("dockerd ended: %s", d.logTail())
		case <-ctx.Done():
			return fmt.Errorf("dockerd does not answer: %w: %s", ctx.Err(), d.logTail())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// httpClient is a client of the engine's API.
func (d *Dockerd) httpClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", d.Socket())
	}}}
}

// logTail is the end of the engine's log.
func (d *Dockerd) logTail() string {
	data, _ := os.ReadFile(filepath.Join(d.Dir, "log"))
	const most = 2000
	return string(data[max(0, len(data)-most):])
}

// Kill kills the engine. Its containers go on.
func (d *Dockerd) Kill() {
	d.cmd.Process.Kill() //nolint:errcheck // it has ended already
	<-d.done
	// Its containerd dies with it, and may remain a zombie until it is reaped; a new
	// engine would wait for it.
	file := filepath.Join(d.Dir, "exec/containerd/containerd.pid")
	data, err := os.ReadFile(file)
	if err != nil {
		return
	}
	words := filepath.Join("/proc", strings.TrimSpace(string(data)), "cmdline") // empty for a zombie
	for till := time.Now().Add(startTimeout); time.Now().Before(till); time.Sleep(10 * time.Millisecond) {
		if said, err := os.ReadFile(words); err != nil || !strings.Contains(string(said), d.Dir+"/") {
			os.Remove(file) // else the engine refuses to start
			return
		}
	}
}

// Stop ends the engine and its containers, and removes its directory.
func (d *Dockerd) Stop() error {
	if upTo := slices.Index(d.argv, "system"); upTo > 0 { // containers of Podman are not children of the engine
		exec.Command(d.argv[0], append(slices.Clone(d.argv[1:upTo]), "rm", "--all", "--force", "--time", "0")...).Run() //nolint:errcheck,noctx // what stays shows when the directory is removed
	}
	if d.cmd != nil && d.done != nil {
		d.cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it has ended already
		select {
		case <-d.done:
		case <-time.After(startTimeout):
			d.Kill()
		}
	}
	d.endStrays()
	if d.log != nil {
		d.log.Close()
	}
	d.unmountAll()
	err := os.RemoveAll(d.Dir)
	for till := time.Now().Add(startTimeout); err != nil && time.Now().Before(till); err = os.RemoveAll(d.Dir) {
		time.Sleep(100 * time.Millisecond) // processes of containers may take a moment to end
		d.unmountAll()
	}
	return err
}

// endStrays kills processes of this engine and waits until they have ended, so that none
// of them writes to the directory while it is removed.
func (d *Dockerd) endStrays() {
	for till := time.Now().Add(startTimeout); d.killStrays() > 0 && time.Now().Before(till); {
		time.Sleep(5 * time.Millisecond)
	}
}

// killStrays kills processes with the engine's directory in their command line: shims,
// and a containerd whose parent was killed. It returns their number.
func (d *Dockerd) killStrays() (n int) {
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0
	}
	for _, path := range procs {
		data, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(data), d.Dir+"/") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && pid != os.Getpid() && (strings.Contains(string(data), "containerd") || strings.Contains(string(data), "conmon")) {
			syscall.Kill(pid, syscall.SIGKILL) //nolint:errcheck // it has ended already
			n++
		}
	}
	return n
}

// unmountAll detaches the mounts below the engine's directory.
func (d *Dockerd) unmountAll() {
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return
	}
	lines := strings.Split(string(data), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if f := strings.Fields(lines[i]); len(f) > 1 && strings.HasPrefix(f[1], d.Dir+"/") {
			exec.Command("umount", "-l", f[1]).Run() //nolint:errcheck,noctx // what stays shows when the directory is removed
		}
	}
}

// NeedsDocker skips a test where the host can't start an engine.
func NeedsDocker(t testing.TB) {
	t.Helper()
	if os.Getenv(DockerVar) != "" {
		return
	}
	if missing := DockerMissing(); missing != "" {
		t.Skip("skipped: host: no Docker engine can be started: " + missing)
	}
}

// NeedsRootless skips a test where the host can't start an engine as an ordinary user.
func NeedsRootless(t testing.TB) {
	t.Helper()
	if missing := RootlessMissing(); missing != "" {
		t.Skip("skipped: host: no Docker engine can be started as an ordinary user: " + missing)
	}
}

// NeedsPodman skips a test where the host can't start Podman.
func NeedsPodman(t testing.TB) {
	t.Helper()
	if missing := PodmanMissing(); missing != "" {
		t.Skip("skipped: host: Podman can't be started: " + missing)
	}
}
