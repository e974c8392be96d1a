package workspacetest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Traits are claims, and these checks attack them from inside.
var isolationChecks = []Check{
	{"Isolation/host-files-can't-be-read", allNeeds(needShell, needIsolation(1)), isolationRead},
	{"Isolation/host-files-can't-be-written", allNeeds(needShell, needIsolation(1)), isolationWrite},
	{"Isolation/host-processes-can't-be-seen", allNeeds(needShell, needIsolation(2)), isolationProcesses},
	{"Isolation/other-workspaces-can't-be-reached", allNeeds(needShell, needFS, needIsolation(1)), isolationSessions},
	{"Network/nothing-is-reached-without-a-policy", allNeeds(needShell, needNoNetwork), networkNone},
	{"ReadOnly/holds-for-processes", allNeeds(needShell, needFS, needReadOnly), readOnlyProcesses},
}

func needIsolation(rank int) func(*Env) (string, bool) {
	return func(e *Env) (string, bool) {
		return fmt.Sprintf("Traits.Isolation is only %q", e.Traits.Isolation), e.Traits.Isolation.Rank() >= rank
	}
}

func needNoNetwork(e *Env) (string, bool) {
	return fmt.Sprintf("Traits.Network is %q", e.Traits.Network), e.Traits.Network != driver.NetworkOpen
}

// hostFile creates a file that every user of the host may read and write.
func hostFile(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "host-file")
	if err := os.WriteFile(path, []byte(canary), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, dir} {
		if err := os.Chmod(name, 0o777); err != nil { // it is bait
			t.Fatal(err)
		}
	}
	return path
}

func isolationRead(t testing.TB, e *Env) {
	path := hostFile(t)
	for _, way := range []string{path, "/proc/1/root" + path, "/proc/self/root" + path, fmt.Sprintf("/proc/%d/root%s", os.Getpid(), path)} {
		res := e.open(t).mustRun(t, driver.Command{Argv: []string{"cat", way}})
		if strings.Contains(string(res.Stdout), canary) {
			t.Errorf("a command reads a file of the host by %s", way)
		}
	}
}

func isolationWrite(t testing.TB, e *Env) {
	path := hostFile(t)
	p := e.open(t)
	p.runScriptOK(t, fmt.Sprintf("echo changed > %s; echo new > %s.new; ln %s stolen; mkdir -p %s.dir", path, path, path, path))
	if got, err := os.ReadFile(path); err != nil || string(got) != canary {
		t.Errorf("a command changed a file of the host: %q, %v", got, err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("a command made something on the host: %v, %v", entries, err)
	}
}

func isolationProcesses(t testing.TB, e *Env) {
	res := e.open(t).runScriptOK(t, fmt.Sprintf("kill -0 %d 2>/dev/null && tr '\\0' ' ' < /proc/%d/cmdline", os.Getpid(), os.Getpid()))
	if strings.Contains(string(res.Stdout), filepath.Base(os.Args[0])) {
		t.Errorf("a command sees a process of the host: %q", res.Stdout)
	}
}

func isolationSessions(t testing.TB, e *Env) {
	a, b := e.open(t, withSession("a")), e.open(t, withSession("b"))
	a.write(t, "secret", canary)
	// If the workspace is directly below the root, only ".." is searched: the
	// system's own trees are endless, and contain no workspace.
	res := b.runScriptOK(t, fmt.Sprintf("cat ../%s/secret ../../%s/*/secret 2>/dev/null; grep -rs --exclude-dir={proc,sys,dev,usr} %s %s ..; true", a.spec.ID, a.spec.ID, canary, e.Dir))
	if strings.Contains(string(res.Stdout), canary) {
		t.Errorf("a command reads what another session wrote: %s", clip(string(res.Stdout)))
	}
}

// networkNone listens on every address of the host, and a command dials each.
func networkNone(t testing.TB, e *Env) {
	p := e.open(t)
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatalf("addresses of the host: %v", err)
	}
	for _, addr := range addrs {
		ip, _, err := net.ParseCIDR(addr.String())
		if err != nil || ip.IsLinkLocalUnicast() {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(ip.String(), "0"))
		if err != nil {
			continue
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		res := p.mustRun(t, driver.Command{
			Script:  fmt.Sprintf("exec 3<>/dev/tcp/%s/%s && echo reached", ip, port),
			Timeout: 30 * time.Second,
		})
		if strings.Contains(string(res.Stdout), "reached") {
			t.Errorf("a command reaches %s", l.Addr())
		}
		l.Close()
	}
}

func readOnlyProcesses(t testing.TB, e *Env) {
	p := e.readOnly(t)
	before := p.treeDigest(t)
	text := "echo x > file; echo x > new; rm -rf dir; mkdir d; mv file f; chmod 777 file; ln -s a b; cat file"
	res, err := p.run(t.Context(), driver.Command{Script: text})
	if fault.Of(err) == fault.PermissionDenied && p.d.Traits.Isolation.Rank() == 0 {
		return // without a sandbox only the absence of commands ensures it
	}
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	if after := p.treeDigest(t); after != before {
		t.Errorf("a command changed a read-only workspace: %q", pathsOf(p.listTree(t)))
	}
	if string(res.Stdout) != "content" {
		t.Errorf("a command can't read a read-only workspace: %+v", res)
	}
}
