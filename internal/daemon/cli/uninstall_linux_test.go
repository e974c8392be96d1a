package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/internal/daemon/work"
	"github.com/croft-run/croft/provider/ssh"
)

// TestUninstall: what Croft has put on the machine is listed, and with --yes it is gone.
// What the user made stays.
func TestUninstall(t *testing.T) {
	home := t.TempDir()
	bucket := "file://" + filepath.Join(home, "bucket")
	configuration := "version: 1\nstore: {bucket: \"" + bucket + "\"}\nevals: {dir: " + filepath.Join(home, "runs") + "}\n" +
		"providers:\n  builder: {kind: ssh, options: {host: me@machine}}\n  ssh: {options: {host: other, dir: /srv/croft}}\n"
	bin := filepath.Join(home, ".local", "bin")
	croft := filepath.Join(bin, "croft")
	// A copy of this test, which removes itself.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(".local/bin/croft", string(program))
	run := func(args ...string) (string, error) {
		t.Helper()
		cmd := exec.Command(croft, args...)
		cmd.Dir = home
		cmd.Env = []string{"HOME=" + home, "PATH=" + bin + ":/usr/bin:/bin"}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := run(args...)
		if err != nil {
			t.Fatalf("croft %v: %v\n%s", args, err, out)
		}
		return out
	}
	exists := func(name string) bool {
		_, err := os.Lstat(filepath.Join(home, name))
		return err == nil
	}

	// The list alone makes nothing.
	must("uninstall", "--dry-run")
	if exists(".local/share/croft") {
		t.Error("uninstall --dry-run made a data directory")
	}

	write(".claude.json", "{\"mine\": 1}\n")
	write(".local/share/man/man1/croft-ws-open.1", "")
	write(".local/share/man/man1/croft-of-another-program.1", "")
	write(".local/share/fish/vendor_completions.d/croft.fish", "")
	write(".cache/croft/x", "")
	write("project/file", "mine\n")
	write("runs/results.json", "{}")
	write(".local/share/croft/croft.yaml", configuration)
	must("setup", "claude", "--yes")
	must("ws", "open", "demo", "--provider", "local")
	must("ws", "open", "here", "--provider", "local", "--dir", "project")
	must("ws", "open", "copy", "--provider", "local", "--label", work.ProjectLabel+"=x")
	if out := must("uninstall"); !strings.Contains(out, "changes that you have not applied are lost") {
		t.Errorf("uninstall does not warn of a work:\n%s", out)
	}

	states := func(text string) map[string]string {
		t.Helper()
		var items []struct{ What, Name, State, Note string }
		if err := json.Unmarshal([]byte(text), &items); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		m := map[string]string{}
		for _, i := range items {
			if i.Name == "me@machine" && !strings.HasSuffix(i.Note, "ssh me@machine 'rm -r "+ssh.DefaultDir+"/bin'") ||
				i.Name == "other" && !strings.HasSuffix(i.Note, "ssh other 'rm -r /srv/croft/bin'") {
				t.Errorf("the note of machine %s is %q", i.Name, i.Note)
			}
			m[i.What+" "+strings.TrimPrefix(i.Name, home+"/")] = i.State
		}
		return m
	}
	want := map[string]string{
		"MCP server .claude.json": "found", "workspace demo": "found", "workspace here": "found",
		"data directory .local/share/croft": "found", "cache .cache/croft": "found",
		"configuration .local/share/croft/croft.yaml": "kept",
		"bucket " + bucket:                            "kept", "machine me@machine": "kept", "machine other": "kept", "evaluations runs": "kept",
		"manual pages .local/share/man/man1/croft-ws-open.1":            "found",
		"completions .local/share/fish/vendor_completions.d/croft.fish": "found",
		"program .local/bin/croft":                                      "found",
	}
	check := func(got map[string]string, found string) {
		t.Helper()
		for name, state := range want {
			if state == "found" {
				state = found
			}
			if got[name] != state {
				t.Errorf("%s is %q, want %q", name, got[name], state)
			}
		}
	}
	check(states(must("uninstall", "--json")), "found")
	if !exists(".local/share/croft/croft.db") || !exists(".cache/croft") {
		t.Error("uninstall removed something without --yes")
	}

	if out, err := run("uninstall", "--yes", "--dry-run"); err == nil {
		t.Errorf("--yes with --dry-run: %s", out)
	}
	server := flock.New(filepath.Join(home, ".local/share/croft/up.lock"))
	if ok, err := server.TryLock(); err != nil || !ok {
		t.Fatalf("lock as a server: %v, %v", ok, err)
	}
	if out, err := run("uninstall", "--yes"); err == nil || !strings.Contains(out, "is served by process") || !exists(".cache/croft") {
		t.Errorf("beside a server: %v: %s", err, out)
	}
	if err := server.Unlock(); err != nil {
		t.Fatal(err)
	}

	check(states(must("uninstall", "--yes", "--json")), "removed")
	for _, name := range []string{".local/share/croft/croft.db", ".local/share/croft/ws", ".cache/croft", ".local/bin/croft",
		".local/share/man/man1/croft-ws-open.1", ".local/share/fish/vendor_completions.d/croft.fish"} {
		if exists(name) {
			t.Errorf("%s is still there", name)
		}
	}
	for name, want := range map[string]string{"project/file": "mine\n", ".local/share/croft/croft.yaml": configuration, "runs/results.json": "{}", ".claude.json": "{\"mine\": 1}\n",
		".local/share/man/man1/croft-of-another-program.1": ""} {
		if got, err := os.ReadFile(filepath.Join(home, name)); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
}
