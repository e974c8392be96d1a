package docker

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/workspace/driver"
)

// TestEngineOverSSH reaches the engine as the docker command does, and speaks to a
// container there. The tests of an engine at tcp:// test the rest.
func TestEngineOverSSH(t *testing.T) {
	testenv.NeedsDocker(t)
	testenv.NeedsSSHD(t)
	server, err := testenv.StartSSHD(t.Context(), t.TempDir(), map[string]string{"DOCKER_HOST": os.Getenv(testenv.DockerVar)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Stop()
		if t.Failed() {
			t.Logf("sshd: %s", server.Log())
		}
	})
	t.Setenv("PATH", server.Bin+":"+os.Getenv("PATH"))
	p := newProvider(t, t.TempDir(), func(c *Config) { c.Host = "ssh://root@" + server.Addr })
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
