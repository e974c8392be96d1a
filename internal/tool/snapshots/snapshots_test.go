package snapshots_test

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/croft-run/croft/internal/history"
	"github.com/croft-run/croft/internal/server/mcpserver"
	"github.com/croft-run/croft/internal/tool/snapshots"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/tool/all"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func openFork(t *testing.T, p driver.Provider, spec workspace.Spec) *workspace.Workspace {
	t.Helper()
	spec.Kind, spec.ID = p.Kind(), workspace.NewID()
	ws, err := workspace.NewMux(p).Open(t.Context(), spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Destroy(context.WithoutCancel(t.Context())) })
	return ws
}

// An agent is a client of an MCP server over workspaces.
type agent struct {
	t   *testing.T
	s   *mcp.ClientSession
	set *tool.Set

	server *mcpserver.Server
}

func newAgent(t *testing.T, p driver.Provider, cfg tool.Config) *agent {
	t.Helper()
	set := new(tool.Set)
	cfg.Tools, cfg.Workspaces = slices.Concat(all.Coding(), all.Workspace()), set
	cfg.Records = recordsBelow(t.TempDir(), false)
	if cfg.Around == nil {
		cfg.Around = snapshots.Around(func(context.Context, *tool.Call) (history.Limits, bool) { return history.Limits{}, false })
	}
	cfg.Fork = func(_ context.Context, _ *tool.Call, from, name string) (string, error) {
		return name, set.Add(name, openFork(t, p, workspace.Spec{From: driver.Source{Snapshot: from}}))
	}
	env, err := tool.NewEnv(cfg)
	if err != nil {
		t.Fatal(err)
	}
	server := mcpserver.New(t.Context(), mcpserver.Options{Env: env, Toolset: mcpserver.Both})
	a := &agent{t: t, set: set, server: server}
	t.Cleanup(func() {
		server.Close()
		env.Close(context.WithoutCancel(t.Context()))
	})
	return a.connect()
}

func (a *agent) add(name string, ws *workspace.Workspace) {
	a.t.Helper()
	if err := a.set.Add(name, ws); err != nil {
		a.t.Fatal(err)
	}
	if err := a.server.Refresh(a.t.Context()); err != nil {
		a.t.Fatal(err)
	}
}

func (a *agent) try(name string, args map[string]any) (string, bool) {
	a.t.Helper()
	res, err := a.s.CallTool(a.t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		a.t.Fatalf("%s(%v): %v", name, args, err)
	}
	return res.Content[0].(*mcp.TextContent).Text, !res.IsError
}

func (a *agent) ok(name string, args map[string]any) string {
	a.t.Helper()
	text, ok := a.try(name, args)
	if !ok {
		a.t.Fatalf("%s(%v): %s", name, args, text)
	}
	return text
}

type args = map[string]any

func sandboxed(t *testing.T, layers string) *sandbox.Provider {
	t.Helper()
	p, err := sandbox.New(&sandbox.Config{Root: filepath.Join(t.TempDir(), "ws"), Layers: layers, Snapshots: snapshot.Open(snapshot.Dir(t.TempDir()), nil)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (a *agent) connect() *agent {
	a.t.Helper()
	web := httptest.NewServer(a.server.Handler())
	a.t.Cleanup(web.Close)
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(a.t.Context(), &mcp.StreamableClientTransport{Endpoint: web.URL + "?toolset=both"}, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { s.Close() })
	a.s = s
	return a
}

func (a *agent) tools() []string {
	a.t.Helper()
	var names []string
	for x, err := range a.s.Tools(a.t.Context(), nil) {
		if err != nil {
			a.t.Fatal(err)
		}
		names = append(names, x.Name)
	}
	return names
}

func contains(t *testing.T, what, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("%s: %q lacks %q", what, text, want)
	}
}

func skipWithoutSandbox(t *testing.T, p driver.Provider) {
	t.Helper()
	if _, err := p.Probe(t.Context()); err != nil {
		t.Skipf("skipped: host: it lacks isolation: %v", err)
	}
}

// TestOverMCP walks through all tools of the coding toolset: in a directory in
// place, and in a workspace over a template.
func TestOverMCP(t *testing.T) {
	for _, how := range []string{"in place", "template"} {
		t.Run(how, func(t *testing.T) {
			p := sandboxed(t, t.TempDir())
			skipWithoutSandbox(t, p)
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "numbers"), []byte("1\n2\n3\n4\n5\n6\n7\n8\n9\n"), 0o666); err != nil {
				t.Fatal(err)
			}
			a := newAgent(t, p, tool.Config{})
			spec := workspace.Spec{Dir: dir}
			if how == "template" {
				spec = workspace.Spec{From: driver.Source{Template: dir}}
			}
			a.add("w", openFork(t, p, spec))
			walk(t, a)
		})
	}
}

func walk(t *testing.T, a *agent) {
	if got := a.ok("snapshot_list", nil); got != "no snapshots" {
		t.Errorf("without snapshots the list is %q", got)
	}
	contains(t, "create", a.ok("snapshot_create", args{"name": "first", "description": "as it came"}), "snapshot first created: ")
	a.ok("Bash", args{"command": "sed -i s/^1$/one/ numbers; mkdir sub; echo new > sub/file"})
	contains(t, "diff", a.ok("snapshot_diff", args{"name": "first"}), "-1\n+one\n")
	contains(t, "diff", a.ok("diff", args{"stat": true, "from": "first"}), "sub/file")
	if got := a.ok("diff", args{"from": "first", "paths": []string{"numbers"}}); strings.Contains(got, "sub/file") {
		t.Errorf("of one path %q", got)
	}
	contains(t, "fork", a.ok("fork", args{"name": "try"}), `pass workspace "try"`)
	a.ok("Bash", args{"workspace": "try", "command": "sed -i s/^9$/nine/ numbers"})
	contains(t, "diff of the fork", a.ok("diff", args{"workspace": "try"}), "-9\n+nine\n")
	contains(t, "apply", a.ok("apply", args{"workspace": "w", "source": "try", "dry_run": true}), "1 file(s) of try would be changed:\nnumbers")
	contains(t, "apply", a.ok("apply", args{"workspace": "w", "source": "try"}), "applied 1 file(s) of try:\nnumbers")
	if got, want := a.ok("Bash", args{"workspace": "w", "command": "tr '\\n' ' ' < numbers"}), "one 2 3 4 5 6 7 8 nine"; !strings.Contains(got, want) {
		t.Errorf("merged %q, want %q", got, want)
	}
	contains(t, "undo of an apply", a.ok("undo", args{"workspace": "w"}), "undone: apply")
	if got := a.ok("Bash", args{"workspace": "w", "command": "cat numbers"}); strings.Contains(got, "nine") {
		t.Errorf("after the undo of an apply there is %q", got)
	}
	contains(t, "redo", a.ok("undo", args{"workspace": "w", "redo": true}), "redone: apply")
	contains(t, "numbers after it", a.ok("Bash", args{"workspace": "w", "command": "cat numbers"}), "nine")
	text := a.ok("snapshot_restore", args{"workspace": "w", "name": "first"})
	contains(t, "restore", text, "restored snapshot first (3 file(s) changed):\nnumbers\nsub\nsub/file\n")
	if got := a.ok("snapshot_restore", args{"workspace": "w", "name": "first"}); got != "restored snapshot first (no files changed)" {
		t.Errorf("again it is %q", got)
	}
	if got := a.ok("snapshot_diff", args{"workspace": "w", "name": "first"}); got != "no differences" {
		t.Errorf("after the restore %q", got)
	}
	contains(t, "all", a.ok("snapshot_create", args{"workspace": "all", "name": "both"}), "=== try ===\nsnapshot both created: ")
	contains(t, "delete", a.ok("snapshot_delete", args{"workspace": "all", "name": "both"}), "=== w ===\nsnapshot both deleted")
	contains(t, "list", a.ok("snapshot_list", args{"workspace": "w"}), "\tas it came\n")
}

// TestRefusals shows what the tools refuse, in the words that agents know.
func TestRefusals(t *testing.T) {
	p := &memory.Provider{Snapshots: snapshot.Open(snapshot.Dir(t.TempDir()), nil)}
	a := newAgent(t, p, tool.Config{})
	a.add("w", openFork(t, p, workspace.Spec{}))
	for _, c := range []struct {
		tool string
		args args
		want string
	}{
		{"snapshot_create", args{"name": ""}, "name is required"},
		{"snapshot_create", args{"name": "a/b"}, `invalid snapshot name "a/b": must match [A-Za-z0-9_-][A-Za-z0-9_.-]*`},
		{"snapshot_restore", args{"name": "x"}, `snapshot "x" not found`},
		{"snapshot_diff", args{"name": "x"}, `snapshot "x" not found`},
		{"snapshot_delete", args{"name": "x"}, `snapshot "x" not found`},
		{"apply", args{"source": "x"}, `unknown workspace "x"; configured: w`},
		{"apply", args{"source": "w"}, `source and workspace are both "w"`},
		{"workspace_restore", args{"snapshot": "x"}, `snapshot "x" not found`},
		{"snapshot_list", args{"limit": -1}, "limit must not be negative"},
		{"workspace_mkdir", args{"path": "a/b"}, "mkdir a/b: the parent directory does not exist; recursive creates it"},
	} {
		if got, ok := a.try(c.tool, c.args); ok || got != c.want {
			t.Errorf("%s(%v) = %q, want %q", c.tool, c.args, got, c.want)
		}
	}
	if got, ok := a.try("undo", nil); ok || !strings.Contains(got, "snapshot_restore") {
		t.Errorf("undo = %q", got)
	}
}

// TestWorkspaceToolset restores into new workspaces and leaves the first alone.
func TestWorkspaceToolset(t *testing.T) {
	p := &memory.Provider{Snapshots: snapshot.Open(snapshot.Dir(t.TempDir()), nil)}
	a := newAgent(t, p, tool.Config{})
	a.add("w", openFork(t, p, workspace.Spec{}))
	write := func(ws, text string) {
		t.Helper()
		a.ok("workspace_write_file", args{"workspace": ws, "path": "f", "content": text})
	}
	read := func(ws, want string) {
		t.Helper()
		if got := a.ok("workspace_read_file", args{"workspace": ws, "path": "f"}); !strings.Contains(got, want) {
			t.Errorf("%s has %q, want %q", ws, got, want)
		}
	}
	write("w", "old")
	a.ok("workspace_snapshot", args{"name": "s"})
	write("w", "new")
	a.ok("workspace_restore", args{"snapshot": "s", "name": "restored"})
	a.ok("workspace_branch", args{"workspace": "w", "name": "branched"})
	read("w", "new")
	read("restored", "old")
	read("branched", "new")
	contains(t, "list", a.ok("workspace_list_snapshots", args{"workspace": "w"}), "s\t")
	a.ok("workspace_snapshot", args{"workspace": "w", "name": "s"})
	if got := a.ok("workspace_list_snapshots", args{"workspace": "w"}); strings.Count("\n"+got, "\ns\t") != 1 { // an id may end in s
		t.Errorf("two have the name, which is that of the newest:\n%s", got)
	}
	a.ok("workspace_delete_snapshot", args{"workspace": "w", "snapshot": "s"})
	a.ok("workspace_delete_snapshot", args{"workspace": "w", "snapshot": "s"})
	if got, ok := a.try("workspace_delete_snapshot", args{"workspace": "w", "snapshot": "s"}); ok {
		t.Errorf("deleted twice: %s", got)
	}
}

// TestOnlyWithTheModule offers the tools where there are snapshots, and no others.
func TestOnlyWithTheModule(t *testing.T) {
	p, err := local.New(&local.Config{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	a := newAgent(t, p, tool.Config{})
	a.add("w", openFork(t, p, workspace.Spec{}))
	for _, name := range a.tools() {
		if slices.ContainsFunc(slices.Concat(snapshots.Coding(), snapshots.Workspace()), func(x *tool.Tool) bool { return x.Name == name }) {
			t.Errorf("%s is offered without snapshots", name)
		}
	}
}

// TestCheckpointOfEachCall leaves a state after what changes something, named after
// it, and none after the rest; the secrets in it are scrubbed.
func TestCheckpointOfEachCall(t *testing.T) {
	p := sandboxed(t, t.TempDir())
	skipWithoutSandbox(t, p)
	a := newAgent(t, p, tool.Config{Around: snapshots.Around(func(context.Context, *tool.Call) (history.Limits, bool) { return history.Limits{}, true })})
	a.add("w", openFork(t, p, workspace.Spec{}))
	a.ok("Write", args{"file_path": "a.txt", "content": "1\n"})
	a.ok("Bash", args{"command": "echo 2 >> a.txt"})
	a.ok("Bash", args{"command": "cat a.txt"})
	a.ok("Read", args{"file_path": "a.txt"})
	a.ok("Edit", args{"file_path": "a.txt", "old_string": "1\n", "new_string": "one\n"})
	list := a.ok("snapshot_list", nil)
	var got []string
	for line := range strings.Lines(list) {
		got = append(got, strings.TrimSpace(line[strings.LastIndexByte(line, '\t'):]))
	}
	want := []string{"Edit a.txt", "Bash echo 2 >> a.txt", "Write a.txt", "start"}
	if !slices.Equal(got, want) {
		t.Errorf("checkpoints %q, want %q", got, want)
	}
	contains(t, "undo", a.ok("undo", nil), "undone: Edit a.txt")
	contains(t, "file", a.ok("Bash", args{"command": "cat a.txt"}), "1\n2\n")
	if text, ok := a.try("undo", nil); ok || !strings.Contains(text, "changed since") {
		t.Errorf("undo of an edit below a change of a command: %s", text)
	}
	_, id, _ := strings.Cut(a.ok("snapshot_list", nil), "\t") // of the newest, after the undo
	contains(t, "list", a.ok("snapshot_list", args{"limit": 1}), "\tundo")
	a.ok("Edit", args{"file_path": "a.txt", "old_string": "1\n", "new_string": "one\n"})
	a.ok("snapshot_restore", args{"name": id[:20]})
	contains(t, "file", a.ok("Bash", args{"command": "cat a.txt"}), "1\n2\n")
}

// TestSameName gives the name of a snapshot that a fork started from to other ones: all stay,
// the name means the newest, and the fork is compared, merged and brought back as before, also after
// what nobody needs is gone.
func TestSameName(t *testing.T) {
	needed := map[string]bool{}
	store := snapshot.Open(snapshot.Dir(t.TempDir()), &snapshot.Options{Needed: func(_ context.Context, id string) (bool, error) { return needed[id], nil }})
	p := &memory.Provider{Snapshots: store}
	a := newAgent(t, p, tool.Config{})
	a.add("base", openFork(t, p, workspace.Spec{}))
	in := func(ws string, more args) args {
		more["workspace"] = ws
		return more
	}
	a.ok("Write", in("base", args{"file_path": "f", "content": "one\n"}))
	a.ok("snapshot_create", in("base", args{"name": "v"}))
	a.ok("fork", in("base", args{"name": "kid", "snapshot": "v"}))
	list, err := store.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("there are %v, %v", list, err)
	}
	first := list[0].ID
	needed[first] = true
	a.ok("Read", in("kid", args{"file_path": "f"}))
	a.ok("Write", in("kid", args{"file_path": "f", "content": "mine\n"}))
	for _, text := range []string{"two\n", "three\n"} {
		a.ok("Read", in("base", args{"file_path": "f"}))
		a.ok("Write", in("base", args{"file_path": "f", "content": text}))
		a.ok("snapshot_create", in("base", args{"name": "v"}))
	}
	if got, ok := a.try("snapshot_delete", in("base", args{"name": first})); ok || !strings.Contains(got, "started from it") {
		t.Errorf("deleting what a fork started from: %s", got)
	}
	if list, err = store.List(t.Context()); err != nil || len(list) != 3 || list[2].ID != first {
		t.Errorf("there are %v, %v, want three", list, err)
	}
	contains(t, "the difference to the newest", a.ok("snapshot_diff", in("base", args{"name": "v"})), "no differences")
	if _, err := store.GC(t.Context()); err != nil {
		t.Fatal(err)
	}
	contains(t, "the list", a.ok("snapshot_list", in("base", args{})), first+"\t")
	contains(t, "what changed in the fork", a.ok("diff", in("kid", args{})), "-one\n+mine\n")
	a.ok("undo", in("kid", args{}))
	contains(t, "the fork as it began", a.ok("Read", in("kid", args{"file_path": "f"})), "one")
	a.ok("undo", in("kid", args{"redo": true}))
	a.ok("snapshot_restore", in("base", args{"name": first}))
	for _, name := range []string{".envrc", ".git/config", "node_modules/x.js"} {
		a.ok("Write", in("kid", args{"file_path": name, "content": "evil"}))
	}
	text := a.ok("apply", in("base", args{"source": "kid"}))
	contains(t, "apply", text, "left out: 1 autorun file(s): .envrc")
	contains(t, "apply", text, "left out: 1 ignored file(s): node_modules/x.js")
	for _, name := range []string{".envrc", ".git/config", "node_modules/x.js"} {
		if got, ok := a.try("Read", in("base", args{"file_path": name})); ok {
			t.Errorf("%s was merged: %s", name, got)
		}
	}
	contains(t, "what was merged", a.ok("Read", in("base", args{"file_path": "f"})), "mine")
	needed[first] = false
	a.ok("snapshot_delete", in("base", args{"name": first}))
}
