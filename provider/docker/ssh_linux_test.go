package docker

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/workspace/driver"
)

// sshServer starts a real one on loopback, whose docker command finds the engine of
// the tests, and returns a directory with a command ssh that trusts it.
func sshServer(t *testing.T) (bin, host string) {
	t.Helper()
	dir := t.TempDir()
	addr, err := testenv.Loopback()
	if err != nil {
		t.Fatal(err)
	}
	ip, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key := filepath.Join(dir, "key")
	if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v: %s", err, out)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		t.Fatal(err)
	}
	server := put("sshd_config", fmt.Sprintf("Port %s\nListenAddress %s\nHostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nPermitRootLogin yes\nUsePAM no\nPidFile none\nSetEnv DOCKER_HOST=%s\n",
		port, ip, key, put("authorized", string(public), 0o600), os.Getenv(testenv.DockerVar)), 0o600)
	client := put("ssh_config", fmt.Sprintf("Host *\nIdentityFile %s\nUserKnownHostsFile %s\n", key, put("known", fmt.Sprintf("[%s]:%s %s", ip, port, public), 0o600)), 0o600)
	bin = filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		t.Fatal(err)
	}
	put("bin/ssh", fmt.Sprintf("#!/bin/sh\nexec %s -F %s \"$@\"\n", ssh, client), 0o755)
	program, err := exec.LookPath("sshd")
	if err != nil {
		program = "/usr/sbin/sshd"
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, "-D", "-e", "-f", server)
	var said strings.Builder
	cmd.Stderr = &said
	cmd.WaitDelay = 10 * time.Second // those who serve a connection have it as well
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("sshd: %s", said.String())
		}
	})
	eventually(t, "sshd listens", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return bin, "ssh://root@" + addr
}

// TestEngineOverSSH reaches the engine as the docker command does, and speaks to a
// container there. More is the business of those who do so over tcp.
func TestEngineOverSSH(t *testing.T) {
	testenv.NeedsDocker(t)
	if _, err := os.Stat("/usr/sbin/sshd"); err != nil {
		t.Skip("skipped: host: openssh-server is not installed")
	}
	bin, host := sshServer(t)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	p := newProvider(t, t.TempDir(), func(c *Config) { c.Host = host })
	defer p.Close()
	if info, err := p.engineInfo(t.Context()); err != nil || !info.Remote {
		t.Errorf("the engine is %+v, %v", info, err)
	}
	near := newProvider(t, t.TempDir())
	if _, err := near.ensureImage(t.Context(), DefaultImage); err != nil {
		t.Fatal(err)
	}
	name := namePrefix + driver.NewID()
	id, err := p.engine.Create(t.Context(), ContainerSpec{Name: name, Image: DefaultImage, Command: []string{"/bin/cat"}, User: "1000:1000", Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	defer near.engine.Remove(t.Context(), id)
	conn, err := p.engine.Attach(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := p.engine.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	const text = "there and back"
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != text {
		t.Errorf("the stream gives %q, %v", got, err)
	}
}

// TestSSHComplains: what ssh says is what is told, and not that a stream ended.
func TestSSHComplains(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "ssh"), []byte("#!/bin/sh\nread -r request\necho 'ssh: Could not resolve hostname nowhere' >&2\nexit 255\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	e, err := Connect("ssh://nowhere")
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Info(t.Context()); fault.Of(err) != fault.Unavailable || !strings.Contains(err.Error(), "Could not resolve hostname nowhere") {
		t.Errorf("got %v, want what ssh said", err)
	}
}

func TestSSHAddresses(t *testing.T) {
	for _, host := range []string{"foo://x", "/var/run/docker.sock", "ssh://", "ssh://me:password@host", "ssh://host?x=1", "ssh://ho st"} {
		if _, err := Connect(host); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%q gives %v, want %v", host, err, fault.InvalidArgument)
		}
	}
	e, err := Connect("ssh://me@host:22/")
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
}
