package trpcagent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trpc.group/trpc-go/trpc-agent-go/codeexecutor"
	"trpc.group/trpc-go/trpc-agent-go/codeexecutor/e2b"

	"github.com/croft-run/croft/internal/testenv"
)

// TestE2BClient runs trpc-agent-go's own client of E2B against croft up: it knows nothing of
// Croft.
func TestE2BClient(t *testing.T) {
	testenv.NeedsJupyter(t)
	const token = "token-of-the-e2b-test"
	bin := filepath.Join(t.TempDir(), "croft")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./cmd/croft")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	server := exec.Command(bin, "up", "--json", "--data", t.TempDir(), "--addr", "127.0.0.1:0", "--token", token)
	var stderr bytes.Buffer
	server.Stderr = &stderr
	stdout, err := server.StdoutPipe()
	must(t, err)
	must(t, server.Start())
	t.Cleanup(func() {
		server.Process.Signal(os.Interrupt)
		server.Wait()
		if t.Failed() {
			t.Logf("croft up:\n%s", stderr.String())
		}
	})
	var up struct {
		URL string `json:"url"`
	}
	must(t, json.NewDecoder(stdout).Decode(&up))
	addr := strings.TrimPrefix(up.URL, "http://")

	// The client addresses the code interpreter as 49999-ID.localhost, which not every
	// resolver knows.
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	client := []e2b.Option{
		e2b.WithAPIKey(token), e2b.WithAPIURL(up.URL), e2b.WithDebug(true), e2b.WithHTTPClient(&http.Client{Transport: transport}),
		e2b.WithSandboxTimeout(10 * time.Minute), e2b.WithExecutionTimeout(3 * time.Minute), e2b.WithEnvVars(map[string]string{"GIVEN": "yes"}),
	}
	e, err := e2b.NewWithContext(t.Context(), client...)
	must(t, err)
	defer e.Close()
	run := func(code string) string {
		t.Helper()
		res, err := e.ExecuteCode(t.Context(), codeexecutor.CodeExecutionInput{CodeBlocks: []codeexecutor.CodeBlock{{Language: "python", Code: code}}})
		must(t, err)
		return res.Output
	}
	if got := run("import os\nx = 20\nprint(os.environ['GIVEN'], os.getcwd())"); !strings.Contains(got, "yes /home/user") {
		t.Errorf("the output is %q, want yes /home/user in it", got)
	}
	if got := run("print(x + 22)"); !strings.Contains(got, "42") {
		t.Errorf("the output is %q, want 42 in it: the state is lost", got)
	}
	if got := run("1/0"); !strings.Contains(got, "ZeroDivisionError") {
		t.Errorf("the output is %q, want ZeroDivisionError in it", got)
	}

	wrong, err := e2b.NewWithContext(t.Context(), append(client, e2b.WithAPIKey("wrong"))...)
	if err == nil {
		wrong.Close()
		t.Error("a wrong key is accepted")
	}
	t.Run("workspace", func(t *testing.T) { e2bWorkspace(t, e) })
}

// e2bWorkspace moves files of a workspace of the framework, which the client does by code in
// the language bash.
func e2bWorkspace(t *testing.T, e *e2b.CodeExecutor) {
	ws, err := e.CreateWorkspace(t.Context(), "exec", codeexecutor.WorkspacePolicy{})
	must(t, err)
	must(t, e.PutFiles(t.Context(), ws, []codeexecutor.PutFile{{Path: "work/in.txt", Content: []byte("content"), Mode: 0o644}}))
	res, err := e.RunProgram(t.Context(), ws, codeexecutor.RunProgramSpec{Cmd: "sh", Args: []string{"-c", "tr a-z A-Z < work/in.txt > work/out.txt; echo done"}})
	must(t, err)
	if strings.TrimSpace(res.Stdout) != "done" || res.ExitCode != 0 {
		t.Errorf("stdout %q, stderr %q, exit status %d; want done", res.Stdout, res.Stderr, res.ExitCode)
	}
	files, err := e.Collect(t.Context(), ws, []string{"work/out.txt"})
	must(t, err)
	if len(files) != 1 || files[0].Content != "CONTENT" {
		t.Errorf("collected %+v, want CONTENT", files)
	}
}
