package e2e

import (
	"archive/tar"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/croft-run/croft/internal/testenv"
)

var update = flag.Bool("update", false, "write docs/e2b.md from what the SDK's methods do")

// e2bDoc is the page about E2B, whose table TestE2B writes.
const e2bDoc = "docs/e2b.md"

// Marks of the table in the page.
const (
	tableStart = "<!-- generated: methods -->\n"
	tableEnd   = "<!-- end -->"
)

// A method is what came of a method of the SDK.
type method struct {
	Method string `json:"method"`
	Result string `json:"result"` // works, differs or 501
	Note   string `json:"note"`
	Error  string `json:"error"`
}

// upServer is a croft up that a test can kill and start again on the same data directory.
type upServer struct {
	t         *testing.T
	bin, data string
	addr      string
	env       []string // beyond the test's own
	cmd       *exec.Cmd
	output    bytes.Buffer
}

// startUp starts croft up on a free port.
func startUp(t *testing.T, bin, data string, env ...string) *upServer {
	t.Helper()
	return startUpAt(t, bin, data, "127.0.0.1:0", env...)
}

// startUpAt starts croft up on an address.
func startUpAt(t *testing.T, bin, data, addr string, env ...string) *upServer {
	t.Helper()
	u := &upServer{t: t, bin: bin, data: data, addr: addr, env: env}
	u.start()
	t.Cleanup(func() {
		u.cmd.Process.Signal(os.Interrupt)
		u.cmd.Wait()
		if t.Failed() {
			t.Logf("croft up:\n%s", u.output.String())
		}
	})
	return u
}

func (u *upServer) start() {
	u.t.Helper()
	u.cmd = exec.Command(filepath.Join(u.bin, "croft"), "up", "--json", "--data", u.data, "--addr", u.addr, "--token", testToken)
	u.cmd.Env = append(os.Environ(), u.env...)
	out, err := u.cmd.StdoutPipe()
	if err != nil {
		u.t.Fatal(err)
	}
	u.cmd.Stderr = &u.output
	if err := u.cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	var answer struct {
		URL string `json:"url"`
	}
	if err := json.NewDecoder(out).Decode(&answer); err != nil {
		u.t.Fatalf("croft up: %v\n%s", err, u.output.String())
	}
	_, u.addr, _ = strings.Cut(answer.URL, "://")
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // it only waits for an answer
	for range 100 {
		if res, err := (&http.Client{Transport: transport}).Get(answer.URL + "/healthz"); err == nil {
			res.Body.Close()
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	u.t.Fatalf("croft up does not answer at %s\n%s", answer.URL, u.output.String())
}

// kill9 kills the server, as a crash does.
func (u *upServer) kill9() {
	u.t.Helper()
	if err := u.cmd.Process.Kill(); err != nil {
		u.t.Fatal(err)
	}
	u.cmd.Wait()
}

// node runs a program of testdata/e2b, and returns its output.
func (u *upServer) node(program string, extra ...string) []byte {
	u.t.Helper()
	cmd := u.nodeCommand(program, extra...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		u.t.Fatalf("node %s: %v\n%s\n%s", program, err, out, stderr.String())
	}
	return out
}

// nodeCommand returns the command of a program of testdata/e2b with the stock SDKs and their
// environment variables.
func (u *upServer) nodeCommand(program string, extra ...string) *exec.Cmd {
	u.t.Helper()
	modules, node := testenv.NeedsE2B(u.t), testenv.NeedsProgram(u.t, "node")
	dir := u.t.TempDir()
	source, err := os.ReadFile(filepath.Join("e2e", "testdata", "e2b", program))
	if err != nil {
		u.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, program), source, 0o600); err != nil {
		u.t.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		u.t.Fatal(err)
	}
	cmd := exec.CommandContext(u.t.Context(), node, program)
	cmd.Dir = dir
	url := "http://" + u.addr
	cmd.Env = append(os.Environ(), "E2B_API_KEY="+testToken, "E2B_API_URL="+url, "E2B_SANDBOX_URL="+url, "E2B_VOLUME_API_URL="+url)
	cmd.Env = append(cmd.Env, extra...)
	return cmd
}

// TestE2B calls every method of the stock E2B packages against croft up, and compares
// docs/e2b.md with what they do.
func TestE2B(t *testing.T) {
	testenv.NeedsE2B(t)
	testenv.NeedsJupyter(t)
	server := startUp(t, buildCroft(t), t.TempDir())
	var table strings.Builder
	type outcome struct{ result, note string }
	var outcomes []outcome
	methods := map[outcome][]string{}
	for line := range bytes.Lines(server.node("methods.mjs", "TEST_IMAGE="+testImage(t))) {
		var m method
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		t.Logf("%-8s %s", m.Result, m.Method)
		if m.Error != "" {
			t.Errorf("%s: %s", m.Method, m.Error)
		}
		o := outcome{m.Result, m.Note}
		if methods[o] == nil {
			outcomes = append(outcomes, o)
		}
		methods[o] = append(methods[o], m.Method)
	}
	table.WriteString("| Methods | Here | |\n|---|---|---|\n")
	for _, o := range outcomes {
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", strings.Join(methods[o], "`, `"), o.result, o.note)
	}
	page, err := os.ReadFile(e2bDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), tableStart)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !ok || !ended {
		t.Fatalf("%s has no table between %q and %q", e2bDoc, tableStart, tableEnd)
	}
	want := before + tableStart + "\n" + table.String() + "\n" + tableEnd + after
	if *update && !t.Failed() {
		if err := os.WriteFile(e2bDoc, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(page)); diff != "" {
		t.Errorf("%s is not what the methods do; write it with: go test ./e2e -run 'TestE2B$' -update (-want +got):\n%s", e2bDoc, diff)
	}
}

// TestE2BRestart kills the server twice: with SIGKILL and with an interrupt. Sandboxes, their
// processes, time-outs and templates are there afterwards.
func TestE2BRestart(t *testing.T) {
	testenv.NeedsE2B(t)
	server := startUp(t, buildCroft(t), t.TempDir())
	state := strings.TrimSpace(string(server.node("restart.mjs")))
	server.kill9()
	time.Sleep(3 * time.Second) // the time-out of a sandbox passes meanwhile
	server.start()
	server.node("restart.mjs", "STATE="+state)
	if err := server.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := server.cmd.Wait(); err != nil {
		t.Errorf("croft up ended with %v\n%s", err, server.output.String())
	}
	server.start()
	server.node("restart.mjs", "STATE="+state)
}

// TestE2BLives: code contexts, commands and terminals outlive a pause, one at the time-out too, and
// the server: killed, and interrupted.
func TestE2BLives(t *testing.T) {
	testenv.NeedsE2B(t)
	testenv.NeedsJupyter(t)
	server := startUp(t, buildCroft(t), t.TempDir())
	state := strings.TrimSpace(string(server.node("lives.mjs")))
	server.kill9()
	server.start()
	server.node("lives.mjs", "STATE="+state)
	if err := server.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := server.cmd.Wait(); err != nil {
		t.Errorf("croft up ended with %v\n%s", err, server.output.String())
	}
	server.start()
	server.node("lives.mjs", "STATE="+state)
}

// TestE2BWarm: the sandboxes of a configured template are warm from the start of the server, and
// the SDK, with a key of a tenant, gets them.
func TestE2BWarm(t *testing.T) {
	testenv.NeedsE2B(t)
	data := t.TempDir()
	writeConfig(t, data, "version: 1\nproviders: {sandbox: {pool: {size: 2, templates: [base, none]}}}\n")
	server := startUp(t, buildCroft(t), data)
	marks := filepath.Join(data, "pool", "sandbox")
	warm := func() (ids []string) {
		entries, err := os.ReadDir(marks)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			ids = append(ids, e.Name())
		}
		return ids
	}
	for range 600 {
		if len(warm()) >= 2 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(3 * time.Second) // the flock file is there before the workspace
	before := warm()
	if len(before) != 2 {
		t.Fatalf("the pool has %v, want two workspaces before the first request", before)
	}
	var made struct {
		ID, Stdout string
		MS         int
	}
	if err := json.Unmarshal(server.node("warm.mjs", "E2B_API_KEY="+server.newKey("team", "run")), &made); err != nil {
		t.Fatal(err)
	}
	t.Logf("create to first output: %d ms", made.MS)
	if made.Stdout != "hello\n" || !slices.Contains(before, made.ID) {
		t.Errorf("sandbox %s printed %q, want one of the pool, %v", made.ID, made.Stdout, before)
	}
}

// testImage pushes an image to a registry on loopback, and returns its name. It has a shell,
// some programs with their libraries, and a file that only it has.
func testImage(t *testing.T) string {
	t.Helper()
	var layer bytes.Buffer
	archive, seen := tar.NewWriter(&layer), map[string]bool{}
	add := func(name string, data []byte, mode int64) {
		t.Helper()
		if seen[name] {
			return
		}
		seen[name] = true
		if err := archive.WriteHeader(&tar.Header{Name: strings.TrimPrefix(name, "/"), Mode: mode, Size: int64(len(data)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"/bin/bash", "/bin/cat", "/bin/ls", "/bin/mkdir", "/usr/bin/id"} {
		out, err := exec.Command("ldd", program).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range append(strings.Fields(string(out)), program) {
			if data, err := os.ReadFile(word); strings.HasPrefix(word, "/") && err == nil {
				add(word, data, 0o755)
			}
		}
	}
	add("/opt/marker", []byte("of the image\n"), 0o644)
	add("/etc/passwd", []byte("root:x:0:0:root:/root:/bin/bash\nother:x:1000:1000::/home/other:/bin/sh\n"), 0o644)
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, static.NewLayer(layer.Bytes(), types.DockerUncompressedLayer))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/croft/test:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, image); err != nil {
		t.Fatal(err)
	}
	return ref.String()
}
