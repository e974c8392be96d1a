package e2e

import (
	"bytes"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestToolsHideSecretsByForm: what looks like a secret is not shown, whichever way
// it gets into an answer; and code that talks about secrets is shown as it is, so
// that it can be edited.
func TestToolsHideSecretsByForm(t *testing.T) {
	croft := buildCroft(t)
	env, dir := mcpEnv(t, croft), t.TempDir()
	const key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzKEY"
	const code = "password = getPassword()\ntoken = parse(x)\n"
	put(t, "", dir, map[string]string{".env": "AWS_SECRET_ACCESS_KEY=" + key + "\n", "login.py": code})
	call := func(tool, args string) string {
		t.Helper()
		cmd := exec.Command(filepath.Join(croft, "croft"), "tool", tool, args, "--dir", dir)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s(%s): %v\n%s", tool, args, err, out)
		}
		return string(out)
	}
	for tool, args := range map[string]string{
		"Read": `{"file_path": ".env"}`,
		"Grep": `{"pattern": "SECRET", "output_mode": "content"}`,
		"Bash": `{"command": "cat .env"}`,
	} {
		if got := call(tool, args); strings.Contains(got, key[:12]) || !strings.Contains(got, "AWS_SECRET_ACCESS_KEY=[REDACTED:secret-assignment]") {
			t.Errorf("%s shows %q", tool, got)
		}
	}
	if got, want := call("Read", `{"file_path": "login.py"}`), "1\tpassword = getPassword()\n2\ttoken = parse(x)\n"; got != want {
		t.Errorf("Read shows %q, want %q", got, want)
	}
}

// TestMessagesAreBounded: a message that is too large is refused, and the server
// goes on.
func TestMessagesAreBounded(t *testing.T) {
	croft := buildCroft(t)
	addr := startHTTP(t, croft, t.TempDir(), mcpEnv(t, croft))
	post := func(body io.Reader) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/mcp", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+testToken)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0 // it hung up on us, which refuses, too
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if got := post(io.MultiReader(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`), bytes.NewReader(bytes.Repeat([]byte("x"), 40<<20)))); got != 0 && got < 400 {
		t.Errorf("40 MiB are answered with status %d", got)
	}
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	if got := post(strings.NewReader(hello)); got != http.StatusOK {
		t.Errorf("the next message is answered with status %d", got)
	}
}
