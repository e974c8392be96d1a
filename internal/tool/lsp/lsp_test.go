package lsp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/sleep"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
)

// needs skips the test where no server of a language is installed; scripts/deps
// installs them.
func needs(t *testing.T, language string) {
	t.Helper()
	spec := serverOf(language)
	for _, c := range spec.commands {
		if _, err := exec.LookPath(c[0]); err == nil {
			return
		}
	}
	t.Skipf("skipped: host: it lacks a language server for %s: %s", language, spec.install)
}

// open opens a directory in place, with files.
func open(t *testing.T, files map[string]string) (*workspace.Workspace, string) {
	t.Helper()
	p, err := local.New(&local.Config{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range files {
		write(t, dir, name, strings.ReplaceAll(text, "DIR", dir))
	}
	ws, err := workspace.NewMux(p).Open(t.Context(), workspace.Spec{Kind: "local", ID: workspace.NewID(), Dir: dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Destroy(context.WithoutCancel(t.Context())) })
	return ws, dir
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func newSet(t *testing.T, ws *workspace.Workspace) *Set {
	t.Helper()
	s := New(ws, 0)
	t.Cleanup(func() {
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

var goFiles = map[string]string{
	"go.mod":      "module example.com/m\n\ngo 1.24\n",
	"main.go":     "package main\n\nimport \"example.com/m/util\"\n\nfunc main() {\n\t/* 😀é */ println(util.Add(1, 2))\n}\n",
	"util/add.go": "package util\n\n// Add adds.\nfunc Add(a, b int) int { return a + b }\n\nfunc Twice(n int) int { return Add(n, n) }\n",
}

func show(list []Location) []string {
	out := []string{}
	for _, l := range list {
		out = append(out, fmt.Sprintf("%s:%d:%d", l.Path, l.Line, l.Col))
	}
	return out
}

func TestGo(t *testing.T) {
	needs(t, "go")
	ws, dir := open(t, goFiles)
	s := newSet(t, ws)
	col := strings.Index("\t/* 😀é */ println(util.Add", "Add") - 3 - 1 + 1 // the emoji has 4 bytes, é has 2: characters, not bytes
	got, err := s.Definition(t.Context(), "main.go", 6, col)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"util/add.go:4:6"}, show(got)); diff != "" {
		t.Errorf("definition (-want +got):\n%s", diff)
	}
	if got, want := got[0].Text, "func Add(a, b int) int { return a + b }"; got != want {
		t.Errorf("text = %q, want %q", got, want)
	}
	got, _, err = s.References(t.Context(), "util/add.go", 4, 6)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{fmt.Sprintf("main.go:6:%d", col), "util/add.go:4:6", "util/add.go:6:32"}, sorted(show(got))); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
	hover, err := s.Hover(t.Context(), "main.go", 6, col)
	if err != nil || !strings.Contains(hover, "func util.Add(a int, b int) int") || !strings.Contains(hover, "Add adds.") {
		t.Errorf("hover = %q, %v", hover, err)
	}
	symbols, err := s.DocumentSymbols(t.Context(), "util/add.go")
	if err != nil || len(symbols) != 2 || symbols[1].Name != "Twice" || symbols[1].Kind != "function" || symbols[1].Line != 6 {
		t.Errorf("document symbols = %+v, %v", symbols, err)
	}
	symbols, err = s.WorkspaceSymbols(t.Context(), "main.go", "Twice")
	if err != nil || len(symbols) == 0 || symbols[0].Path != "util/add.go" {
		t.Errorf("workspace symbols = %+v, %v", symbols, err)
	}
	renames(t, s, dir, col)
}

// renames renames across files and checks that the server has followed.
func renames(t *testing.T, s *Set, dir string, col int) {
	t.Helper()
	edits, _, err := s.Rename(t.Context(), "main.go", 6, col, "Sum")
	if err != nil {
		t.Fatal(err)
	}
	if len(edits) != 2 || edits[0].Path != "main.go" || edits[1].Edits != 3 && edits[1].Edits != 2 {
		t.Fatalf("edits = %+v", edits)
	}
	if data, _ := os.ReadFile(filepath.Join(dir, "main.go")); string(data) != goFiles["main.go"] {
		t.Fatalf("a rename that is only shown changed main.go: %s", data)
	}
	if _, err := s.Apply(t.Context(), edits); err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(goFiles["main.go"], "util.Add", "util.Sum")
	if data, _ := os.ReadFile(filepath.Join(dir, "main.go")); string(data) != want {
		t.Errorf("main.go = %q, want %q", data, want)
	}
	got, err := s.Definition(t.Context(), "main.go", 6, col)
	if err != nil || len(got) != 1 || !strings.HasPrefix(got[0].Text, "func Sum(") {
		t.Errorf("definition after the rename = %v, %v", got, err)
	}
	list, err := s.Diagnostics(t.Context(), "main.go")
	if err != nil || len(list) != 0 {
		t.Errorf("diagnostics after the rename = %v, %v", list, err)
	}
}

func sorted(list []string) []string {
	out := append([]string{}, list...)
	for i := range out {
		for j := i + 1; j < len(out); j++ {
			if out[j] < out[i] {
				out[i], out[j] = out[j], out[i]
			}
		}
	}
	return out
}

// TestServerFollowsEdits is the hole of a file that was sent once and never
// again: positions refer to the text as it is.
func TestServerFollowsEdits(t *testing.T) {
	needs(t, "go")
	ws, dir := open(t, goFiles)
	s := newSet(t, ws)
	if _, err := s.Definition(t.Context(), "util/add.go", 6, 32); err != nil {
		t.Fatal(err)
	}
	// Longer than the file was, by another program.
	write(t, dir, "util/add.go", "package util\n\n\n\n// Add adds.\nfunc Add(a, b int) int { return a + b }\n\nfunc Twice(number int) int { return Add(number, number) }\n")
	got, err := s.Definition(t.Context(), "util/add.go", 8, 51)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"util/add.go:8:12"}, show(got)); diff != "" {
		t.Errorf("definition after an edit (-want +got):\n%s", diff)
	}
	list, err := s.Diagnostics(t.Context(), "util/add.go")
	if err != nil || len(list) != 0 {
		t.Errorf("diagnostics = %v, %v, want none", list, err)
	}
	// A file that the server does not have open, told by Touch.
	write(t, dir, "util/more.go", "package util\n\nfunc More() int { return Nothing() }\n")
	if err := s.NotifyChanged(t.Context(), "util/more.go"); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "util/add.go", "package util\n\nfunc Add(a, b int) int { return More() + \"x\" }\n")
	if list, err = s.Diagnostics(t.Context(), "util/add.go"); err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 || list[0].Line != 3 || list[0].Severity != "error" || !strings.Contains(list[0].Message, "mismatched types") && !strings.Contains(list[0].Message, "cannot convert") {
		t.Errorf("diagnostics = %+v, want a mismatch at line 3", list)
	}
	if got, err = s.Definition(t.Context(), "util/add.go", 3, 34); err != nil || len(got) != 1 || got[0].Path != "util/more.go" {
		t.Errorf("definition in a file that is new = %v, %v", got, err)
	}
}

// TestServerComesBack is the hole of a server that died and was never replaced.
func TestServerComesBack(t *testing.T) {
	needs(t, "go")
	ws, _ := open(t, goFiles)
	s := newSet(t, ws)
	if _, err := s.Definition(t.Context(), "util/add.go", 6, 32); err != nil {
		t.Fatal(err)
	}
	if !s.Warm("main.go") || s.Warm("a.py") {
		t.Errorf("warm = %v and %v, want Go's server alone", s.Warm("main.go"), s.Warm("a.py"))
	}
	// die kills the process as an outsider would, early in its life.
	die := func(c *client) {
		c.started = time.Now()
		c.cancel()
		<-c.done
	}
	first := s.runningClients()[0]
	die(first)
	got, err := s.Definition(t.Context(), "util/add.go", 6, 32)
	if err != nil || len(got) != 1 {
		t.Fatalf("definition after the server died = %v, %v", got, err)
	}
	if s.runningClients()[0] == first {
		t.Error("the dead server still answers")
	}
	sl, err := s.slotFor(serverOf("go"))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c := s.runningClients()
		if len(c) == 0 {
			break
		}
		die(c[0])
		if _, err = s.Definition(t.Context(), "util/add.go", 6, 32); err != nil {
			break
		}
	}
	if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "times in a row") {
		t.Errorf("a server that dies again and again: %v, want it to be left alone", err)
	}
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if wait := time.Until(sl.next); wait > maxPause {
		t.Errorf("pause = %v", wait)
	}
}

func TestIdleServersEnd(t *testing.T) {
	needs(t, "go")
	ws, _ := open(t, goFiles)
	s := New(ws, 50*time.Millisecond)
	defer s.Close(t.Context())
	if _, err := s.DocumentSymbols(t.Context(), "main.go"); err != nil {
		t.Fatal(err)
	}
	patient, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for s.Warm("main.go") {
		if err := sleep.For(patient, 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.DocumentSymbols(t.Context(), "main.go"); err != nil || len(got) != 1 {
		t.Errorf("after it was ended: %v, %v", got, err)
	}
}

func TestRefusals(t *testing.T) {
	ws, _ := open(t, map[string]string{"a.txt": "x", "main.go": "package main\n"})
	s := newSet(t, ws)
	_, err := s.Definition(t.Context(), "a.txt", 1, 1)
	if !errors.Is(err, fault.Unsupported) || err.Error() != "LSP not configured for .txt files" {
		t.Errorf("unknown language: %v", err)
	}
	none := &server{name: "none", commands: [][]string{{"no-such-server"}, {"nor-this"}}, install: "nothing"}
	err = s.askServer(t.Context(), "main.go", none, nil)
	if !errors.Is(err, fault.Unavailable) || !strings.HasPrefix(err.Error(), "no-such-server or nor-this not found on PATH") {
		t.Errorf("no server: %v", err)
	}
	broken := &server{name: "broken", commands: [][]string{{"sh", "-c", "'echo why >&2; exit 3'"}}}
	err = s.askServer(t.Context(), "main.go", broken, nil)
	if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "it said: why") {
		t.Errorf("broken server: %v", err)
	}
}

// TestApplyIsAllOrNothing changes one file meanwhile, and lets the second write of
// another try fail: the first is put back.
func TestApplyIsAllOrNothing(t *testing.T) {
	ws, err := workspace.NewMux(new(memory.Provider)).Open(t.Context(), workspace.Spec{Kind: "memory", ID: workspace.NewID()}, &workspace.Options{MaxFileSize: 10})
	if err != nil {
		t.Fatal(err)
	}
	s := newSet(t, ws)
	before := map[string]string{"a.go": "a", "b.go": "b"}
	for name, text := range before {
		if _, err := ws.WriteFile(t.Context(), name, []byte(text), nil); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name string
		b    FileEdit
		code fault.Code
	}{
		{"changed", FileEdit{Path: "b.go", Before: []byte("other"), After: []byte("B")}, fault.Conflict},
		{"too large", FileEdit{Path: "b.go", Before: []byte("b"), After: bytes.Repeat([]byte("B"), 11)}, fault.ResourceExhausted},
	}
	for _, tt := range tests {
		edits := []FileEdit{{Path: "a.go", Before: []byte("a"), After: []byte("A")}, tt.b}
		if _, err := s.Apply(t.Context(), edits); !errors.Is(err, tt.code) {
			t.Errorf("%s: error = %v, want %v", tt.name, err, tt.code)
		}
		for name, want := range before {
			if got, err := ws.ReadFile(t.Context(), name); err != nil || string(got) != want {
				t.Errorf("%s: %s = %q, %v, want %q", tt.name, name, got, err, want)
			}
		}
	}
}
