package local

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/workspace/driver"
)

// sandboxExec writes the stand-in for sandbox-exec, which enforces all but leaks.
func sandboxExec(t *testing.T, leaks string) string {
	t.Helper()
	testenv.NeedsProgram(t, "bwrap")
	text, err := os.ReadFile("testdata/sandbox-exec")
	must(t, err)
	path := filepath.Join(t.TempDir(), "sandbox-exec")
	must(t, os.WriteFile(path, []byte(strings.Replace(string(text), "LEAKS=none", "LEAKS='"+leaks+"'", 1)), 0o755))
	return path
}

// isolating returns a provider that isolates by a program.
func isolating(t *testing.T, program string) *Provider {
	t.Helper()
	data := t.TempDir()
	p, err := New(&Config{Root: filepath.Join(data, "ws"), Forbidden: []string{data}, InProcess: true, SandboxExec: program})
	must(t, err)
	return p
}

func withProcess(mods ...func(*driver.Spec)) func(*driver.Spec) {
	return func(s *driver.Spec) {
		s.Policy.Isolation = driver.IsolationProcess
		for _, mod := range mods {
			mod(s)
		}
	}
}

// Each proof fails where its part is not enforced, and the error names it; then nothing is
// opened, also not by a program that does not exist or that runs nothing.
func TestSeatbeltIsRefuted(t *testing.T) {
	for leaks, want := range map[string][]string{
		"none":           nil,
		"outside":        {"a command writes outside of its workspace"},
		"hidden":         {"a command reads a hidden file"},
		"signal":         {"a command signals a process outside"},
		"network":        {"a command without network connects to the loopback"},
		"nonetwork":      {"a command with network can't connect to the loopback"},
		"inside":         {"a command can't write to its workspace"},
		"outside signal": {"a command writes outside of its workspace", "a command signals a process outside"},
	} {
		p := isolating(t, sandboxExec(t, leaks))
		err := p.seatbelt.prove(t.Context())
		if want == nil {
			must(t, err)
			continue
		}
		if _, text, _ := strings.Cut(fmt.Sprint(err), "does not isolate here: "); text != strings.Join(want, "; ") {
			t.Errorf("without %s the test says %v, want %q", leaks, err, want)
		}
		_, err = p.Open(t.Context(), spec(withProcess()))
		wantCode(t, "Open without "+leaks, err, fault.Unsupported)
		if !strings.Contains(fmt.Sprint(err), want[0]) {
			t.Errorf("the error of Open is %v, want %q in it", err, want)
		}
		if left := leftovers(t, filepath.Dir(p.store.Path())); len(left) != 0 {
			t.Errorf("a refused Open left %q", left)
		}
	}
	for _, program := range []string{filepath.Join(t.TempDir(), "missing"), "/bin/true", "/bin/false"} {
		_, err := isolating(t, program).Open(t.Context(), spec(withProcess()))
		wantCode(t, "Open with "+program, err, fault.Unsupported)
	}
	_, err := inProcess(t, t.TempDir()).Open(t.Context(), spec(withProcess()))
	wantCode(t, "Open without sandbox-exec", err, fault.Unsupported)
	_, err = isolating(t, sandboxExec(t, "none")).Open(t.Context(), spec(func(s *driver.Spec) { s.Policy.Isolation = driver.IsolationNamespaces }))
	wantCode(t, "Open with more isolation", err, fault.Unsupported)
}

// Commands of a workspace are isolated as its policy says. Variables hide the paths from the
// command policy.
func TestSeatbeltWorkspace(t *testing.T) {
	home, outside, settings := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	must(t, os.MkdirAll(filepath.Join(home, ".ssh"), 0o700))
	must(t, os.WriteFile(filepath.Join(home, ".ssh", "id_ed25519"), []byte("planted-key"), 0o600))
	must(t, os.WriteFile(filepath.Join(home, ".netrc"), []byte("planted-password"), 0o600))
	must(t, os.WriteFile(filepath.Join(home, "readable"), []byte("other\n"), 0o600))
	p := isolating(t, sandboxExec(t, "none"))
	neighbour := open(t, p)
	write(t, neighbour, "file", "of another workspace")
	ws := open(t, p, withProcess(func(s *driver.Spec) { s.Config = fmt.Appendf(nil, `{"writable":[%q]}`, settings) }))
	t.Cleanup(func() { ws.Life.Destroy(context.Background()) })
	if ws.Traits.Isolation != driver.IsolationProcess || !ws.Traits.IsolatedBy.Enforced() || ws.Traits.Network != driver.NetworkNone {
		t.Errorf("the traits are %+v", ws.Traits)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	run := func(ws *driver.Workspace, script string) string {
		t.Helper()
		res, err := ws.Shell.Run(t.Context(), driver.Command{Script: script, Env: map[string]string{
			"H": home, "O": outside, "S": settings, "N": neighbour.Traits.Root, "ME": fmt.Sprint(os.Getpid()), "T": "/dev/tcp", "PORT": port,
		}})
		must(t, err)
		return string(res.Stdout) + string(res.Stderr)
	}
	if got := run(ws, `echo a > in && cat in && echo b > "$TMPDIR/t" && cat "$TMPDIR/t" && echo c > "$S/s" && cat "$S/s" && cat "$H/readable"`); got != "a\nb\nc\nother\n" {
		t.Errorf("what is allowed gives %q", got)
	}
	for _, script := range []string{`cat "$H/.ssh/id_ed25519"`, `cat "$H/.netrc"`, `cat "$N/file"`, `echo x > "$O/f" && echo written`, `kill -0 "$ME" && echo seen`, `exec 3<> "$T/127.0.0.1/$PORT" && echo reached`} {
		if got := run(ws, script+"; :"); strings.Contains(got, "planted") || strings.Contains(got, "of another") || strings.Contains(got, "written\n") || strings.Contains(got, "seen\n") || strings.Contains(got, "reached\n") {
			t.Errorf("%s gives %q", script, got)
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 0 {
		t.Errorf("outside there is %v, %v", entries, err)
	}
	if files, err := filepath.Glob(p.store.Path(idOf(t, ws), "profile-*")); err != nil || len(files) != 1 {
		t.Errorf("profiles: %q, %v", files, err)
	}
	// With network, and without it again.
	ref, err := ws.Life.Update(t.Context(), driver.Policy{Isolation: driver.IsolationProcess, Network: driver.Network{Open: true}})
	must(t, err)
	if got := run(ws, `exec 3<> "$T/127.0.0.1/$PORT" && echo reached`); got != "reached\n" {
		t.Errorf("with network: %q", got)
	}
	if files, err := filepath.Glob(p.store.Path(idOf(t, ws), "profile-*")); err != nil || len(files) != 1 {
		t.Errorf("profiles after an update: %q, %v", files, err)
	}
	_, err = ws.Life.Update(t.Context(), driver.Policy{Isolation: driver.IsolationProcess, Network: driver.Network{Allow: []driver.NetRule{{Host: "example.com"}}}})
	wantCode(t, "Update to network rules", err, fault.Unsupported)
	// Where the program is gone, commands do not run unconfined.
	must(t, ws.Life.Close(t.Context()))
	p.seatbelt = nil
	again, err := p.Resolve(t.Context(), ref)
	must(t, err)
	if _, err := again.Shell.Run(t.Context(), driver.Command{Script: "true"}); fault.Of(err) != fault.Unsupported || again.Traits.Isolation != driver.IsolationNone {
		t.Errorf("a command without the program: %v, with isolation %s", err, again.Traits.Isolation)
	}
	must(t, again.Life.Close(t.Context()))
}

func TestOptions(t *testing.T) {
	p := isolating(t, sandboxExec(t, "none"))
	data := filepath.Dir(p.store.Path())
	link, missing := filepath.Join(t.TempDir(), "link"), filepath.Join(t.TempDir(), "missing")
	must(t, os.Symlink(data, link))
	for config, want := range map[string]fault.Code{
		`{"allow":["usr/bin"]}`:                       fault.InvalidArgument,
		`{"allow":["/usr/../etc"]}`:                   fault.InvalidArgument,
		`{"writable":["relative"]}`:                   fault.InvalidArgument,
		`{"writable":["/"]}`:                          fault.InvalidArgument,
		`{"writable":["` + data + `"]}`:               fault.InvalidArgument,
		`{"writable":["` + link + `/ws"]}`:            fault.InvalidArgument,
		`{"writable":["` + filepath.Dir(data) + `"]}`: fault.InvalidArgument,
		`{"write":["/tmp"]}`:                          fault.InvalidArgument,
		`{"writable":["` + missing + `"]}`:            "",
	} {
		ws, err := p.Open(t.Context(), spec(withProcess(func(s *driver.Spec) { s.Config = []byte(config) })))
		wantCode(t, config, err, want)
		if err == nil {
			must(t, ws.Life.Destroy(t.Context()))
		}
	}
	_, err := p.Open(t.Context(), spec(func(s *driver.Spec) { s.Config = []byte(`{"writable":["/tmp"]}`) }))
	wantCode(t, "writable without isolation", err, fault.InvalidArgument)

	program := filepath.Join(t.TempDir(), "agent")
	must(t, os.WriteFile(program, []byte("#!/bin/sh\necho agent $SOME_API_KEY\n"), 0o755))
	cmd := driver.Command{Argv: []string{program}, Env: map[string]string{"SOME_API_KEY": "k"}}
	ws := open(t, p)
	_, err = ws.Shell.Run(t.Context(), cmd)
	wantCode(t, "a program outside", err, fault.SandboxViolation)
	ws = open(t, p, func(s *driver.Spec) {
		s.Config = fmt.Appendf(nil, `{"allow":[%q],"allowEnv":["SOME_API_KEY"]}`, program)
	})
	if res, err := ws.Shell.Run(t.Context(), cmd); err != nil || string(res.Stdout) != "agent k\n" {
		t.Errorf("a program and a variable that are allowed: %+v, %v", res, err)
	}
}
