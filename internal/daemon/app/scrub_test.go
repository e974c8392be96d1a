package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// TestSecretsStayOutOfTheDataDirectory uses a configured secret and a token of a known shape
// wherever a text can be given, and searches the data directory for them. The files, the
// record of edits and the session logs of a workspace are its own: they are left out until
// it is destroyed.
func TestSecretsStayOutOfTheDataDirectory(t *testing.T) {
	const configured = "correct-horse-9931-battery"
	token := "ghp_" + strings.Repeat("q7RkZ2mXv9Tb", 3)
	t.Setenv("CROFT_SECRET_DEPLOY", configured)
	dir := filepath.Join(t.TempDir(), "data")
	var log bytes.Buffer
	sys, err := app.Open(t.Context(), app.Config{DataDir: dir, Operator: true, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for _, text := range []string{configured, token} {
		if _, err := sys.Create(ctx, workspace.Spec{Kind: "local", Labels: map[string]string{"a": text}}, ""); fault.Of(err) != fault.InvalidArgument || strings.Contains(err.Error(), text) {
			t.Errorf("a label: %v, want %v", err, fault.InvalidArgument)
		}
		if _, err := sys.Create(ctx, workspace.Spec{Kind: "local", Session: driver.SessionRef{ID: text}}, ""); fault.Of(err) != fault.InvalidArgument || strings.Contains(err.Error(), text) {
			t.Errorf("a session: %v, want %v", err, fault.InvalidArgument)
		}
	}
	rec, err := sys.Create(ctx, workspace.Spec{Kind: "local", Name: "demo"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sys.Registry.SetLabels(ctx, rec.ID, map[string]string{"a": configured}); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("SetLabels: %v, want %v", err, fault.InvalidArgument)
	}
	ws, err := sys.Registry.Acquire(ctx, rec.ID)
	if err != nil {
		t.Fatal(err)
	}
	env, err := sys.ToolEnv(tool.Config{Workspaces: sys.Workspaces("demo"), SecretsOf: func(_, id string) string { return id }})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{configured, token} {
		useEverywhere(ctx, t, ws, env, text)
	}
	if err := env.Close(ctx); err != nil {
		t.Fatal(err)
	}
	searchData(t, dir, []string{configured, token}, filepath.Join(dir, "ws", rec.ID), filepath.Join(dir, "edits", rec.ID))
	if err := sys.Registry.Destroy(ctx, rec.ID); err != nil {
		t.Fatal(err)
	}
	if err := sys.Close(ctx); err != nil {
		t.Fatal(err)
	}
	searchData(t, dir, []string{configured, token})
	for _, text := range []string{configured, token} {
		if strings.Contains(log.String(), text) {
			t.Errorf("the log has %q:\n%s", text, log.String())
		}
	}
	events, err := os.ReadFile(filepath.Join(dir, "events.jsonl"))
	if err != nil || !bytes.Contains(events, []byte("[REDACTED:deploy]")) || !bytes.Contains(events, []byte("[REDACTED:github-pat]")) {
		t.Errorf("the events have no redaction mark (%v):\n%s", err, events)
	}
}

// useEverywhere uses a text in commands, their environment and output, in file names and
// contents, and in calls that fail.
func useEverywhere(ctx context.Context, t *testing.T, ws *workspace.Workspace, env *tool.Env, text string) {
	t.Helper()
	cmd := driver.Command{Script: "echo " + text + "; echo $X >&2; exit 3", Env: map[string]string{"X": text}}
	if _, err := ws.Run(ctx, cmd); err != nil {
		t.Fatal(err)
	}
	s, err := ws.Start(ctx, driver.Command{Argv: []string{"echo", text}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := ws.WriteFile(ctx, "dir-"+text+"/"+text, []byte(text), &driver.WriteOptions{Parents: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := ws.ReadFile(ctx, "missing-"+text); fault.Of(err) != fault.NotFound {
		t.Errorf("got %v, want %v", err, fault.NotFound)
	}
	if _, err := ws.ReadFile(ctx, strings.Repeat("../", 90)+text); err == nil {
		t.Error("a path outside was read")
	}
	for _, call := range []struct{ name, args string }{
		{"Bash", `{"command": "echo ` + text + `; false"}`},
		{"Bash", `{"command": "echo ` + text + `", "description": "say ` + text + `", "run_in_background": true}`},
		{"Read", `{"file_path": "none/` + text + `"}`},
		{"Write", `{"file_path": "x-` + text + `", "content": "` + text + `"}`},
		{"Grep", `{"pattern": "` + text + `"}`},
		{"Bash", `{"command": "x", "unknown": "` + text + `"}`},
		{"Nothing-" + text, `{}`},
	} {
		res, err := env.Run(ctx, tool.Request{Tool: call.name, Args: json.RawMessage(call.args), Session: "s-" + text})
		if err == nil && (strings.Contains(res.Text, text) || strings.Contains(string(res.Data()), text)) {
			t.Errorf("%s answered %q", call.name, res.Text)
		}
	}
}

// searchData fails the test where a file of the data directory, or its name, has one of the
// texts. Files below except are left out.
func searchData(t *testing.T, dir string, texts []string, except ...string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case slices.Contains(except, path):
			return filepath.SkipDir
		}
		var data []byte
		if d.Type().IsRegular() {
			if data, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		for _, text := range texts {
			if i := bytes.Index(data, []byte(text)); i >= 0 {
				t.Errorf("%s has %q", path, data[max(0, i-80):i+len(text)])
			}
			if strings.Contains(path, text) {
				t.Errorf("%s is there", path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSecretsOfCroftItselfAreWithheld: no agent gets the API keys of providers, nor the password of
// the proxy.
func TestSecretsOfCroftItselfAreWithheld(t *testing.T) {
	for _, name := range []string{"PLAIN", "E2B_API_KEY", "TEAM_KEY", "PROXY_PASSWORD"} {
		t.Setenv("CROFT_SECRET_"+name, "value-of-"+name)
	}
	settings, err := config.Parse([]byte(`version: 1
providers: {boxes: {kind: e2b, options: {server: https://boxes.example, key: team_key}}}
network: {proxy: {url: "http://proxy.example:3128", user: me, secret: proxy_password}}
`))
	if err != nil {
		t.Fatal(err)
	}
	sys, err := app.Open(t.Context(), app.Config{DataDir: filepath.Join(t.TempDir(), "data"), Operator: true, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close(context.WithoutCancel(t.Context()))
	if _, err := sys.Create(t.Context(), workspace.Spec{Kind: "memory", Name: "demo"}, ""); err != nil {
		t.Fatal(err)
	}
	env, err := sys.ToolEnv(tool.Config{Workspaces: sys.Workspaces("demo"), SecretsOf: func(_, id string) string { return id }})
	if err != nil {
		t.Fatal(err)
	}
	defer env.Close(context.WithoutCancel(t.Context()))
	for name, ok := range map[string]bool{"plain": true, "e2b_api_key": false, "E2B_API_KEY": false, "team_key": false, "proxy_password": false} {
		res, err := env.Run(t.Context(), tool.Request{Tool: "secret", Args: json.RawMessage(`{"name": "` + name + `"}`)})
		if (err == nil) != ok || strings.Contains(res.Text, "value-of-") != ok || !ok && fault.Of(err) != fault.PermissionDenied {
			t.Errorf("secret %s: %q, %v", name, res.Text, err)
		}
	}
	if res, err := env.Run(t.Context(), tool.Request{Tool: "secrets_available", Args: json.RawMessage(`{}`)}); err != nil || strings.Contains(strings.ToLower(res.Text), "key") {
		t.Errorf("secrets_available: %q, %v", res.Text, err)
	}
}
