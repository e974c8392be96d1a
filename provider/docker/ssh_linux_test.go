package docker

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
)

// sshServer starts a real one on loopback, whose docker command finds the engine of
// the tests, and returns a directory with a command ssh that trusts it.
func sshServer(t *testing.T) (bin, host string) {
	t.Helper()
	dir := t.TempDir()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
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
	server := put("sshd_config", fmt.Sprintf("Port %d\nListenAddress 127.0.0.1\nHostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nPermitRootLogin yes\nUsePAM no\nPidFile none\nSetEnv DOCKER_HOST=%s\n",
		port, key, put("authorized", string(public), 0o600), os.Getenv(testenv.DockerVar)), 0o600)
	client := put("ssh_config", fmt.Sprintf("Host *\nIdentityFile %s\nUserKnownHostsFile %s\n", key, put("known", fmt.Sprintf("[127.0.0.1]:%d %s", port, public), 0o600)), 0o600)
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
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	eventually(t, "sshd listens", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return bin, "ssh://root@" + addr
}

// TestEngineOverSSH reaches the engine as the docker command does.
func TestEngineOverSSH(t *testing.T) {
	testenv.NeedsDocker(t)
	if _, err := os.Stat("/usr/sbin/sshd"); err != nil {
		t.Skip("skipped: host: openssh-server is not installed")
	}
	bin, host := sshServer(t)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	p := newProvider(t, t.TempDir(), func(c *Config) { c.Host = host })
	defer p.Close()
	ws := open(t, p)
	write(t, ws, "from-host", "hello")
	if got := string(script(t, ws, "cat from-host; id -un").Stdout); got != "hellocroft\n" {
		t.Errorf("got %q", got)
	}
	if info, err := p.describe(t.Context()); err != nil || !info.Remote {
		t.Errorf("the engine is %+v, %v", info, err)
	}
}

func TestSSHAddresses(t *testing.T) {
	for _, host := range []string{"ssh://", "ssh://-oProxyCommand=x", "ssh://host/path", "ssh://host?x=1", "ssh://ho st"} {
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
