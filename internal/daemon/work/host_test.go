package work

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/workspace/driver"
)

// A work without the sandbox has the user's program, variables and login. No secret is in its
// spec, which is stored, and other secrets are not passed on.
func TestStartOnHost(t *testing.T) {
	home := t.TempDir()
	program := filepath.Join(home, "bin", "claude")
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	u := User{Home: home, Environ: []string{
		"PATH=" + filepath.Dir(program), "HOME=" + home, "ANTHROPIC_API_KEY=planted", "ANTHROPIC_CUSTOM_HEADERS=planted-header", "JAVA_HOME=/java", "=odd",
		"AWS_PROFILE=p", "OTHER_TOKEN=planted-other", "LD_PRELOAD=x", "NODE_OPTIONS=x", "TMPDIR=/t", "PWD=/p", "CROFT_DATA=/d", "BAD=a\x01b",
	}}
	for _, level := range []driver.Isolation{driver.IsolationNone, driver.IsolationProcess} {
		s, err := New(Options{Project: Project{Dir: "/home/me/app"}, Agent: FindAgent("claude"), Words: []string{"hello"}, NoAsk: true, OnHost: true, Isolation: level}, u)
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{program, "--dangerously-skip-permissions", "hello"}; !slices.Equal(s.Argv, want) {
			t.Errorf("the command is %q, want %q", s.Argv, want)
		}
		want := map[string]string{"PATH": filepath.Dir(program), "HOME": home, "ANTHROPIC_API_KEY": "planted", "ANTHROPIC_CUSTOM_HEADERS": "planted-header", "JAVA_HOME": "/java"}
		if diff := cmp.Diff(want, s.AgentEnv); diff != "" {
			t.Errorf("the variables (-want +got):\n%s", diff)
		}
		if len(s.Home) != 0 {
			t.Errorf("files are written to the home of the user: %v", s.Home)
		}
		spec, err := s.Spec()
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(spec)
		if err != nil || strings.Contains(string(data), "planted") {
			t.Errorf("the spec has a secret: %s, %v", data, err)
		}
		if spec.Kind != local.Kind || spec.Policy.Isolation != level || !spec.Policy.Network.Open || spec.From.Template != "/home/me/app" || spec.Dir != "" {
			t.Errorf("the spec is %s", data)
		}
		if writes := strings.Contains(string(spec.Config), filepath.Join(home, ".claude.json")); writes != (level != driver.IsolationNone) {
			t.Errorf("isolation %s: the options are %s", level, spec.Config)
		}
		if len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "network is open") || !strings.Contains(s.Notes[0], "without a placeholder") {
			t.Errorf("the notes are %q", s.Notes)
		}
	}
	if _, err := New(Options{Agent: FindAgent("codex"), OnHost: true}, u); err == nil || !strings.Contains(err.Error(), "no program codex in PATH") {
		t.Errorf("without the program: %v", err)
	}
}
