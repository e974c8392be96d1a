package cli_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// readOnlyTree is a project, with a repository, that everybody may write to: the
// mount alone protects it.
func readOnlyTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":       "module x\n\ngo 1.24\n",
		"a.go":         "package x\n\ntype T struct{}\n\nfunc (T) M() {}\n\nfunc  A() int { return 1 }\n",
		"a_test.go":    "package x\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { if A() != 2 { t.Fatal(A()) } }\n",
		"package.json": `{"name": "x", "scripts": {"harm": "touch b"}}`,
		"sub/file":     "x\n",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	script := "git init -q . && git add a.go && git -c user.name=x -c user.email=x@x commit -qm x && chmod -R a+rwX ."
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir = dir
	must(t, cmd)
	return dir
}

// digest lists all files of a directory with all that a tool could change of them.
func digest(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(tree(t, dir))
	err := filepath.Walk(dir, func(name string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		data, err := os.ReadFile(name)
		fmt.Fprintf(&b, "%s %x\n", name, sha256.Sum256(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// harm is, for every tool that changes something, arguments with which it would do
// so here. SHELL, SESSION and CONTEXT are replaced.
var harm = map[string]m{
	"Bash":                      {"command": "touch b; echo x >> a.go; rm -rf a.go sub; mv go.mod c; chmod 0 a_test.go; ln a.go hard; truncate -s 0 a.go; true"},
	"Edit":                      {"file_path": "a.go", "old_string": "return 1", "new_string": "return 2"},
	"KillShell":                 {"shell_id": "SHELL"},
	"MultiEdit":                 {"file_path": "a.go", "edits": []m{{"old_string": "return 1", "new_string": "return 2"}}},
	"Write":                     {"file_path": "a.go", "content": "changed\n"},
	"apply":                     {"source": "forked", "markers": true},
	"apply_patch":               {"patch": "*** Begin Patch\n*** Update File: a.go\n@@\n-func  A() int { return 1 }\n+func  A() int { return 2 }\n*** Add File: b\n+x\n*** Delete File: sub/file\n*** End Patch"},
	"change_function_signature": {"file_path": "a.go", "function_name": "A", "new_signature": "func A() (n int)"},
	"check":                     {},
	"delete":                    {"path": "sub", "recursive": true},
	"edit_code":                 {"file_path": "a.go", "action": "body", "name": "A", "code": "return 3"},
	"edit_function_body":        {"file_path": "a.go", "function_name": "A", "new_body": "return 3"},
	"fork":                      {"name": "forked"},
	"format":                    {"files": []string{"a.go"}},
	"git_branch":                {"name": "other", "create": true},
	"git_commit":                {"message": "x", "all": true},
	"insert_after_method":       {"file_path": "a.go", "receiver_type": "T", "method_name": "M", "new_method": "func (T) N() {}"},
	"install":                   {},
	"move":                      {"from": "a.go", "to": "c.go"},
	"rename_in_file":            {"file_path": "a.go", "old_name": "A", "new_name": "C"},
	"rename_symbol":             {"file_path": "a.go", "line": 7, "col": 7, "new_name": "C", "apply": true},
	"render_dot":                {"source": "digraph { a -> b }", "output_path": "g.svg"},
	"render_mermaid":            {"source": "graph LR; a --> b", "output_path": "m.svg"},
	"run_failing_tests":         {},
	"run_lint":                  {},
	"run_script":                {"name": "harm"},
	"run_tests":                 {"coverage": true},
	"run_typecheck":             {},
	"skill_run":                 {"skill": "x", "command": "touch b"},
	"snapshot":                  {"name": "before-2"},
	"snapshot_create":           {"name": "before"},
	"snapshot_delete":           {"name": "before"},
	"snapshot_restore":          {"name": "before"},
	"undo":                      {},
	"watch_process":             {"command": "touch b; rm a.go", "description": "x"},
	"workspace_branch":          {"name": "branched"},
	"workspace_create_context":  {},
	"workspace_delete_context":  {"context_id": "CONTEXT"},
	"workspace_delete_snapshot": {"snapshot": "before"},
	"workspace_edit_file":       {"path": "a.go", "old": "return 1", "new": "return 2"},
	"workspace_exec":            {"command": "touch b; rm a.go", "yield_time_ms": 3000},
	"workspace_kill_session":    {"session_id": "SESSION"},
	"workspace_mkdir":           {"path": "made/deep", "recursive": true},
	"workspace_restore":         {"snapshot": "before", "name": "restored"},
	"workspace_rm":              {"path": "sub", "recursive": true},
	"workspace_run":             {"cmd": "touch", "args": []string{"b", "a.go"}},
	"workspace_run_code":        {"code": "open('b', 'w').write('x')"},
	"workspace_run_script":      {"code": "fs.writeFileSync('b', 'x')"},
	"workspace_save_artifact":   {"path": "a.go"},
	"workspace_snapshot":        {"name": "again"},
	"workspace_write_file":      {"path": "b", "content": "x"},
	"workspace_write_stdin":     {"session_id": "SESSION", "chars": "touch b", "append_newline": true, "yield_time_ms": 500},
	"write_stdin":               {"shell_id": "SHELL", "chars": "touch b", "append_newline": true, "yield_time_ms": 500},
}

// first are the tools that others need the work of; the rest follows by name.
var first = []string{"run_tests", "snapshot_create", "fork", "write_stdin", "workspace_write_stdin"}

// mustFail are the tools that do nothing but change files of the workspace.
var mustFail = []string{
	"Edit", "MultiEdit", "Write", "apply_patch", "change_function_signature", "delete", "edit_code", "edit_function_body", "git_branch", "git_commit",
	"insert_after_method", "move", "rename_in_file", "rename_symbol", "workspace_edit_file", "workspace_mkdir", "workspace_rm", "workspace_write_file",
}

// mustWork are tools that run something, which then can't write; they have to have
// run it.
var mustWork = []string{"Bash", "workspace_exec", "workspace_run", "snapshot_create", "fork", "watch_process", "write_stdin"}

// TestReadOnlyByTheKernel calls every tool that changes things, with arguments that
// would, in a directory that is open read-only, on a server that offers them
// all. Nothing of it may change, whatever the tools believe.
//
//croft:slow
func TestReadOnlyByTheKernel(t *testing.T) {
	url, on := startUp(t)
	dir := readOnlyTree(t)
	must(t, on("ws", "open", "ro", "--provider", "sandbox", "--dir", dir, "--read-only"))
	before := digest(t, dir)
	a := connect(t, &mcp.StreamableClientTransport{Endpoint: url + "/mcp?toolset=both", HTTPClient: &http.Client{Transport: bearer{httpToken}}})
	for _, name := range []string{"a.go", "a_test.go", "go.mod"} {
		a.ok("Read", m{"file_path": name})
	}
	kernelSaysNo(t, a)
	ids := map[string]string{
		"SHELL":   idOf(a.ok("Bash", m{"command": "bash", "run_in_background": true})),
		"SESSION": idOf(a.ok("workspace_exec", m{"command": "bash", "yield_time_ms": 10})),
	}
	tools, err := a.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	names := slices.Clone(first)
	for _, x := range tools.Tools {
		if !x.Annotations.ReadOnlyHint && !slices.Contains(first, x.Name) {
			names = append(names, x.Name)
		}
	}
	for _, name := range names {
		text, failed := a.harm(name, ids)
		if after := digest(t, dir); after != before {
			t.Fatalf("%s changed the tree:\n%s\nwas\n%s", name, after, before)
		}
		switch {
		case slices.Contains(mustFail, name) && !failed:
			t.Errorf("%s says that it worked: %s", name, text)
		case slices.Contains(mustWork, name) && failed:
			t.Errorf("%s did nothing: %s", name, text)
		}
	}
	if got, failed := a.call("Write", m{"workspace": "forked", "file_path": "b", "content": "x"}); !failed {
		t.Errorf("a fork of what is read-only can be written to: %s", got)
	}
}

// harm calls a tool to do its harm. What takes too long had its chance, unless it
// must be seen to work.
func (a *agent) harm(name string, ids map[string]string) (text string, failed bool) {
	a.t.Helper()
	given, ok := harm[name]
	if !ok {
		a.t.Errorf("%s changes something, and this test does not know how", name)
	}
	args := m{"workspace": "ro"}
	for k, v := range given {
		args[k] = v
		if s, ok := v.(string); ok && ids[s] != "" {
			args[k] = ids[s]
		}
	}
	chance := 1500 * time.Millisecond
	switch {
	case slices.Contains(mustFail, name):
		chance = 10 * time.Second
	case slices.Contains(mustWork, name):
		chance = patience
	}
	ctx, cancel := context.WithTimeout(a.t.Context(), chance)
	defer cancel()
	res, err := a.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return err.Error(), true
	}
	return res.Content[0].(*mcp.TextContent).Text, res.IsError
}

var idPattern = regexp.MustCompile(`(?:shell_id|session_id)"?: "?([\w-]+)`)

// idOf finds the id of what was started.
func idOf(text string) string {
	if m := idPattern.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// kernelSaysNo checks that the kernel itself refuses writes: the directory is a
// read-only mount, also for a process with all rights inside.
func kernelSaysNo(t *testing.T, a *agent) {
	t.Helper()
	got := a.ok("Bash", m{"command": "m=mou; touch b; ${m}nt -o remount,rw,bind \"$PWD\" 2>&1; touch b; unshare -rm sh -c \"${m}nt -o remount,rw,bind '$PWD'; touch b\" 2>&1; " +
		"echo x > /proc/self/cwd/b; awk -v d=\"$PWD\" '$5 == d { print \"options \" $6 }' /proc/self/mountinfo"})
	if n := strings.Count(got, "Read-only file system"); n < 3 {
		t.Errorf("the kernel refuses %d times to write, want at least 3: %s", n, got)
	}
	options := regexp.MustCompile(`options (\S+)`).FindStringSubmatch(got)
	if options == nil || !slices.Contains(strings.Split(options[1], ","), "ro") {
		t.Errorf("the mount of the workspace is not read-only: %s", got)
	}
}
