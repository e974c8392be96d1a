package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/testenv"
)

// A thrown is an exception that a program of testdata/e2b prints.
type thrown struct {
	Case    string `json:"case"`
	Error   string `json:"error"` // its class; "" if there was none
	Message string `json:"message"`
}

// checkThrown compares what a program prints with a table. The text of an exception has all
// words of its row.
func checkThrown(t *testing.T, out []byte, want []thrown) {
	t.Helper()
	got := map[string]thrown{}
	for line := range bytes.Lines(out) {
		var one thrown
		if err := json.Unmarshal(line, &one); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		got[one.Case] = one
	}
	for _, w := range want {
		one, ok := got[w.Case]
		t.Logf("%-20s %s: %s", w.Case, one.Error, one.Message)
		delete(got, w.Case)
		if !ok || one.Error != w.Error {
			t.Errorf("%s: the exception is %q (%s), want %q", w.Case, one.Error, one.Message, w.Error)
			continue
		}
		for _, part := range strings.Split(w.Message, " … ") {
			if !strings.Contains(one.Message, part) {
				t.Errorf("%s: the text is %q, want %q in it", w.Case, one.Message, part)
			}
		}
	}
	for name := range got {
		t.Errorf("no row of the table has the case %q", name)
	}
}

// writeConfig writes the configuration of a data directory.
func writeConfig(t *testing.T, data, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(data, "croft.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestE2BErrors uses the SDK wrongly: the exception says what to do, and nothing is lost.
func TestE2BErrors(t *testing.T) {
	testenv.NeedsE2B(t)
	bin, data := buildCroft(t), t.TempDir()
	writeConfig(t, data, `version: 1
defaults: {policy: small}
policies:
  small: {limits: {disk: 64M}, persist: true}
tenants:
  team: {maxWorkspaces: 3}
`)
	server := startUp(t, bin, data)
	key := server.newKey("team", "run")
	checkThrown(t, server.node("errors.mjs", "E2B_API_KEY="+key), []thrown{
		{"key form", "AuthenticationError", "e2b_ and 40 hexadecimal digits … croft key create"},
		{"key unknown", "AuthenticationError", "croft key create"},
		{"key empty", "AuthenticationError", "send an API key"},
		{"template", "SandboxError", `template "no-such-template": not found … "base" and "code-interpreter-v1" exist … Template.build`},
		{"template name", "SandboxError", `template "../base"`},
		{"timeout negative", "SandboxError", "a sandbox lives from 0 to 2592000 seconds"},
		{"timeout long", "SandboxError", "setTimeout from time to time"},
		{"setTimeout long", "SandboxError", "a sandbox lives from 0 to 2592000 seconds"},
		{"too many", "RateLimitError", "tenant team … its quota maxWorkspaces is 3 … destroy a workspace, or ask the operator for a higher quota"},
		{"gone", "SandboxNotFoundError", "not found"},
		{"path outside", "SandboxError", "/etc … Read-only file system … write below the home directory or /tmp"},
		{"path of a tree", "FileNotFoundError", "/nope: No such file or directory"},
		{"path with NUL", "InvalidArgumentError", "a path has no NUL byte"},
		{"path is a directory", "InvalidArgumentError", "/home/user … it is a directory"},
		{"cwd", "InvalidArgumentError", `cwd "/no/such/dir" … there is no such directory`},
		{"user", "AuthenticationError", `user "mallory" … the sandbox has no such user`},
		{"upload over quota", "NotEnoughSpaceError", "no space left on device … remove files … limit of disk"},
		{"command over quota", "CommandExitError", "disk"},
		{"volume", "SandboxError", `volume "no-such-volume" … Volume.list lists the volumes`},
		{"volume name", "VolumeError", "lower-case letters, digits"},
		{"build", "BuildError", "it exited with status 7: broken"},
		{"build of packages", "BuildError", "steps can't install packages of the system: use an image that has them"},
		{"build in silence", "BuildError", "it exited with status 8"},
		{"file of another user", "SandboxError", "403: permission denied … /proc/1/environ"},
		{"mcp", "SandboxError", "501: mcp … it serves its own MCP tools at /mcp"},
		{"kept", "", "content in: kept"},
	})

	second := exec.Command(filepath.Join(bin, "croft"), "up", "--data", data, "--addr", "127.0.0.1:0", "--token", testToken)
	out, err := second.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "process") || !strings.Contains(string(out), "--data") {
		t.Errorf("a second server on the data directory: %v\n%s\nwant an error with the process and --data", err, out)
	}
	if status, _ := server.e2bCall("GET", "/v2/sandboxes", key, ""); status != 200 {
		t.Errorf("the first server answers %d after that", status)
	}
}

// TestE2BFullDisk fills the file system of the data directory.
func TestE2BFullDisk(t *testing.T) {
	testenv.NeedsE2B(t)
	server := startUp(t, buildCroft(t), testenv.NeedsTmpfs(t, 128<<20))
	checkThrown(t, server.node("fulldisk.mjs"), []thrown{
		{"upload", "NotEnoughSpaceError", "no space left on device … remove files"},
		{"write", "NotEnoughSpaceError", "no space left on device"},
		{"create", "", ""}, // it works, or says that the disk is full
		{"read", "", ""},
		{"list", "", ""},
		{"kill", "", ""},
		{"write again", "", ""},
		{"create again", "", ""},
		{"read again", "", ""},
	})
	server.kill9() // what is on the disk opens again
	server.start()
	status, text := server.e2bCall("GET", "/v2/sandboxes", testToken, "")
	if n := strings.Count(text, "sandboxID"); status != 200 || n < 2 || n > 3 {
		t.Errorf("after a restart: %d %s, want two or three sandboxes", status, text)
	}
}
