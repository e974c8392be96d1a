package sandbox

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/croft-run/croft/workspace/driver"
)

func TestTry(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "croft-guest")
	cmd := exec.Command("go", "build", "-o", bin, "github.com/croft-run/croft/cmd/croft-guest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if s := os.Getenv("GUEST"); s != "" {
		bin = s
	} else if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	p := &Provider{binary: bin, version: "v", ids: hostIDs(1 << 30)}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	l, open, err := p.namespaces(unit{id: "x", files: dir, inside: "/workspace"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.Start(t.Context())
	closeAll(open)
	if err != nil {
		t.Fatal(err)
	}
	defer r.End(context.Background())
	for _, s := range []string{"id; pwd; ls -la / /workspace /dev; mount | head -50; ps ax; cat /proc/self/status | grep -i -E 'cap|seccomp|nonew|uid'", "echo hi > /workspace/x; ls -la /workspace; touch /usr/x; ls /root /home; cat /etc/shadow; ls /proc/1/; ls -la /proc/1/fd; ip addr; cat /proc/1/environ", "unshare -U true; mount -t tmpfs x /tmp; kill -9 1; echo still"} {
		res, err := r.Shell().Run(t.Context(), driver.Command{Script: s})
		t.Logf("%v %v\n%s\n%s", err, res.ExitCode, res.Stdout, res.Stderr)
	}
	out, _ := exec.Command("ls", "-la", dir).CombinedOutput()
	t.Logf("%s", out)
}
