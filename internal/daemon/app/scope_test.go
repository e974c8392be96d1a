package app_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// marker is in everything that the workspace "other" has, and in nothing else.
const marker = "7d1f-belongs-to-other"

// named lists every argument of every tool that holds text, by what it can name. A new
// argument must be added to one of the lists: it is then tried with what belongs to
// another workspace.
var named = map[string][]string{
	"workspace": {"apply source"},
	"snapshot": {
		"apply since", "diff from", "diff to", "fork snapshot", "snapshot_delete name", "snapshot_diff name", "snapshot_restore name", "undo edit",
		"workspace_branch snapshot", "workspace_delete_snapshot snapshot", "workspace_restore snapshot",
	},
	"session": {
		"BashOutput shell_id", "KillShell shell_id", "watch_process_events shell_id", "workspace_delete_context context_id",
		"workspace_kill_session session_id", "workspace_run_code context_id", "workspace_write_stdin session_id", "write_stdin shell_id",
	},
	"new workspace": {"fork name", "workspace_branch name", "workspace_restore name"},
	"secret":        {"secret name"},
	"command":       {"Bash command", "run_tests command", "skill_run command", "watch_process command", "workspace_exec command"},
	"python":        {"workspace_run_code code"},
	"javascript":    {"workspace_run_script code"},
	"patch":         {"apply_patch patch"},
	"uri":           {"skill_run inputs.from", "web_fetch url"},
	"path": {
		"Edit file_path", "check files", "edit_code file_path", "symbol file_path", "Glob path", "Glob pattern", "Grep glob", "Grep path", "MultiEdit file_path", "Read file_path", "Write file_path", "apply paths",
		"change_function_signature file_path", "delete path", "diagnostics file_path", "diff paths", "document_symbols file_path", "edit_function_body file_path",
		"find_definition file_path", "find_references file_path", "format files", "git_commit paths", "git_diff from", "git_diff paths", "git_diff to", "git_log paths", "git_log revision",
		"hover file_path", "insert_after_method file_path", "list path", "move from", "move to", "project_symbols file_path", "rename_in_file file_path",
		"rename_symbol file_path", "render_dot output_path", "render_mermaid output_path", "run_lint files", "run_script dir", "run_tests files", "run_typecheck files",
		"skill_load docs", "skill_run cwd", "skill_run inputs.to", "skill_run outputs.globs", "snapshot_diff paths", "snapshot_restore paths", "tests_covering file", "tests_covering file_path", "undo paths",
		"workspace_create_context cwd", "workspace_edit_file path", "workspace_exec cwd", "workspace_glob pattern", "workspace_grep include", "workspace_grep path",
		"workspace_ls path", "workspace_mkdir path", "workspace_read_file path", "workspace_rm path", "workspace_run args", "workspace_run cwd", "workspace_run_code cwd",
		"workspace_run_script cwd", "workspace_save_artifact path", "workspace_stat path", "workspace_write_file path",
		"skill_list_docs skill", "skill_load skill", "skill_run skill", "run_script name", "git_branch from", "git_branch name",
	},
	"nothing": {
		"Bash error_patterns", "Edit edits.new_string", "Edit edits.old_string", "check kind", "check language", "edit_code action", "edit_code code", "edit_code name",
		"run_script language", "snapshot description", "snapshot name", "symbol ask", "symbol query", "symbol name", "find_definition name", "find_references name", "hover name", "rename_symbol name",
		"Bash description", "BashOutput stream", "Edit new_string", "Edit old_string", "Grep output_mode", "Grep pattern", "Grep type",
		"MultiEdit edits.new_string", "MultiEdit edits.old_string", "Write content", "change_function_signature function_name", "change_function_signature new_signature",
		"edit_function_body function_name", "edit_function_body new_body", "format language", "git_commit message", "insert_after_method method_name",
		"insert_after_method new_method", "install language", "insert_after_method receiver_type", "project_symbols query", "rename_in_file new_name", "rename_in_file old_name",
		"rename_symbol new_name", "render_dot source", "render_mermaid source", "run_failing_tests language", "run_lint language", "run_script args",
		"run_tests language", "run_typecheck language", "search_code query", "skill_run env", "skill_run inputs.mode", "skill_run outputs.name_template",
		"skill_run stdin", "snapshot_create description", "snapshot_create name", "watch_process description", "watch_process error_patterns", "workspace_create_context env",
		"workspace_create_context language", "workspace_edit_file new", "workspace_edit_file old", "workspace_exec env", "workspace_exec stdin",
		"workspace_grep pattern", "workspace_run cmd", "workspace_run env", "workspace_run stdin", "workspace_run_code env", "workspace_run_code language",
		"workspace_run_script env", "workspace_run_script language", "workspace_snapshot labels", "workspace_snapshot name", "workspace_write_file content",
		"workspace_write_stdin chars", "write_stdin chars",
	},
}

// A neighbours is a server with the workspaces "mine" and "other".
type neighbours struct {
	t     *testing.T
	sys   *app.System
	url   string
	mine  *workspace.Workspace
	other *workspace.Workspace
	file  string // of other, on the host
}

func newNeighbours(t *testing.T) *neighbours {
	t.Helper()
	t.Setenv("CROFT_SECRET_DB_PASSWORD", "correct horse")
	t.Setenv("OTHER_SECRET_KEY", "a key that "+marker)
	skills := t.TempDir()
	if err := os.CopyFS(skills, os.DirFS("testdata/skills")); err != nil {
		t.Fatal(err)
	}
	cfg := settings(t, "version: 1\nskills: ["+skills+"]\nsecrets: {workspaces: {other: {env: OTHER_SECRET_}}}\n")
	sys, url := serveWith(t, app.Config{DataDir: t.TempDir(), Settings: cfg})
	if p, err := sys.Mux.Provider("sandbox"); err != nil {
		t.Fatal(err)
	} else if _, err := p.Probe(t.Context()); err != nil {
		t.Skipf("skipped: host: it lacks isolation: %v", err)
	}
	n := &neighbours{t: t, sys: sys, url: url}
	n.mine, n.other = n.open("mine"), n.open("other")
	n.write(n.mine, "calc.go", "package calc\n\nfunc Add(a, b int) int { return a + b }\n")
	n.write(n.other, "secret.txt", marker)
	n.write(n.other, "out/note.txt", marker)
	err := filepath.WalkDir(sys.Dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "secret.txt" {
			n.file = path
		}
		return nil
	})
	if err != nil || n.file == "" {
		t.Fatalf("the file of other is not found: %v", err)
	}
	return n
}

func (n *neighbours) open(name string) *workspace.Workspace {
	n.t.Helper()
	rec, err := n.sys.Create(n.t.Context(), workspace.Spec{Name: name, Policy: driver.Policy{Network: driver.Network{Allow: []driver.NetRule{{Host: "example.com"}}}}}, "")
	if err != nil {
		n.t.Fatal(err)
	}
	ws, err := n.sys.Registry.Acquire(n.t.Context(), rec.ID)
	if err != nil {
		n.t.Fatal(err)
	}
	return ws
}

func (n *neighbours) write(ws *workspace.Workspace, name, text string) {
	n.t.Helper()
	if _, err := ws.WriteFile(n.t.Context(), name, []byte(text), &driver.WriteOptions{Parents: true}); err != nil {
		n.t.Fatal(err)
	}
}

// connect is an MCP client bound to a workspace; "" is all.
func (n *neighbours) connect(workspace string) *mcp.ClientSession {
	n.t.Helper()
	endpoint := n.url + "/mcp?toolset=both"
	if workspace != "" {
		endpoint += "&workspace=" + workspace
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(n.t.Context(), &mcp.StreamableClientTransport{
		Endpoint: endpoint, HTTPClient: &http.Client{Transport: withToken(n.sys.Token)}, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { s.Close() })
	return s
}

type withToken string

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(w))
	return http.DefaultTransport.RoundTrip(r)
}

// call returns the whole answer of a tool, and whether it succeeded.
func (n *neighbours) call(s *mcp.ClientSession, name string, args map[string]any) (string, bool) {
	n.t.Helper()
	res, err := s.CallTool(n.t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return err.Error(), false
	}
	data, err := json.Marshal(res)
	if err != nil {
		n.t.Fatal(err)
	}
	return string(data), !res.IsError
}

func (n *neighbours) must(s *mcp.ClientSession, name string, args map[string]any) string {
	n.t.Helper()
	text, ok := n.call(s, name, args)
	if !ok {
		n.t.Fatalf("%s(%v): %s", name, args, text)
	}
	return text
}

// state is all that an intruder could change of other.
func (n *neighbours) state(session *workspace.Session) string {
	n.t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(filepath.Dir(n.file), func(path string, d fs.DirEntry, err error) error {
		data, _ := os.ReadFile(path)
		fmt.Fprintf(&b, "%s %q\n", path, data)
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
	list, err := n.other.Snapshots(n.t.Context(), nil)
	if err != nil {
		n.t.Fatal(err)
	}
	info, err := session.State(n.t.Context())
	if err != nil {
		n.t.Fatal(err)
	}
	fmt.Fprintf(&b, "%d snapshots, running %v", len(list), info.Running)
	return b.String()
}

var result = regexp.MustCompile(`result-[A-Z0-9]+`)

// TestABoundClientReachesNoOtherWorkspace tries, as a client bound to one workspace, every
// argument of every tool with what belongs to another one.
func TestABoundClientReachesNoOtherWorkspace(t *testing.T) {
	n := newNeighbours(t)
	ctx := t.Context()
	owner, bound := n.connect(""), n.connect("mine")
	n.must(bound, "Bash", map[string]any{"command": "git init -q . && git config user.name x && git config user.email x@x && git add . && git commit -qm x; mkdir -p out; echo x > out/x"})
	n.must(bound, "snapshot_create", map[string]any{"name": "before-rewrite"}) // what the examples name
	n.must(bound, "fork", map[string]any{"name": "attempt"})
	session, err := n.other.Start(ctx, driver.Command{Script: "echo " + marker + "; sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	info, err := session.State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	taken, err := n.other.Snapshot(ctx, &driver.SnapshotOptions{Name: "state-of-other"})
	if err != nil {
		t.Fatal(err)
	}
	n.must(owner, "workspace_save_artifact", map[string]any{"workspace": "other", "path": "out/note.txt"})
	n.write(n.other, "long.txt", strings.Repeat(marker+"\n", 50000))
	long := n.must(owner, "workspace_read_file", map[string]any{"workspace": "other", "path": "long.txt", "limit": 50000})
	handle := result.FindString(long)
	if handle == "" {
		t.Fatalf("the long answer of other has no handle: %.300s", long)
	}
	n.must(owner, "BashOutput", map[string]any{"workspace": "other", "shell_id": handle, "offset": 0})

	id := n.other.ID()
	values := map[string][]string{
		"workspace":     {"other", id},
		"snapshot":      {taken.ID, "state-of-other"},
		"session":       {info.ID, handle},
		"new workspace": {"other", "../" + id},
		"secret":        {"key", "KEY", "OTHER_SECRET_KEY"},
		"command":       {"cat " + n.file},
		"python":        {fmt.Sprintf("print(open(%q).read())", n.file)},
		"javascript":    {fmt.Sprintf("fs.readFileSync(%q, 'utf8')", n.file)},
		"path":          {n.file, "../" + id + "/files/secret.txt", "../../../../../../../../../.." + filepath.Dir(n.file)},
		"patch": {
			"--- a/" + n.file + "\n+++ b/" + n.file + "\n@@ -1 +1 @@\n-" + marker + "\n+gone\n",
			"*** Begin Patch\n*** Delete File: ../" + id + "/files/secret.txt\n*** End Patch\n",
		},
		"uri": {
			"workspace://other/secret.txt", "workspace://../" + id + "/files/secret.txt", "artifact://out/note.txt", "artifact://../" + id + "/out/note.txt",
			"file://" + n.file, "host://" + n.file,
		},
	}
	before := n.state(session)
	kinds := map[string]string{}
	for kind, list := range named {
		for _, arg := range list {
			kinds[arg] = kind
		}
	}
	unseen, examples := maps.Clone(kinds), toolExamples(t)
	var tools []string
	for x, err := range bound.Tools(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, x.Name)
		attempt := func(arg string, value any, refused bool) {
			t.Helper()
			args := maps.Clone(examples[x.Name])
			if args == nil {
				args = map[string]any{}
			}
			delete(args, "workspace") // it is another one in the examples
			args[arg] = value
			text, ok := n.call(bound, x.Name, args)
			if strings.Contains(text, marker) {
				t.Errorf("%s with %s %q answers with what belongs to another workspace: %.300s", x.Name, arg, value, text)
			}
			if refused && !strings.Contains(strings.ToLower(text), strings.ToLower(fmt.Sprint(value))) {
				t.Errorf("%s with %s %q is refused for another reason: %.300s", x.Name, arg, value, text)
			}
			if ok && refused {
				t.Errorf("%s with %s %q is not refused: %.300s", x.Name, arg, value, text)
			}
		}
		schema := decodeSchema(t, x.InputSchema)
		if schema.Properties["workspace"] == nil {
			t.Errorf("%s takes no workspace", x.Name)
		}
		for _, value := range values["workspace"] {
			attempt("workspace", value, true)
		}
		eachText(schema, "", func(name string, wrap func(string) any) {
			key := x.Name + " " + name
			kind, ok := kinds[key]
			if !ok {
				t.Errorf("%s is in none of the lists: say what it can name", key)
			}
			delete(unseen, key)
			top, _, _ := strings.Cut(name, ".")
			for _, value := range values[kind] {
				attempt(top, wrap(value), slices.Contains([]string{"workspace", "snapshot", "session", "new workspace", "secret"}, kind))
			}
		})
		if now := n.state(session); now != before {
			t.Fatalf("%s changed another workspace:\n%s\nwant\n%s", x.Name, now, before)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(unseen)) {
		t.Errorf("there is no argument %s", key)
	}
	for _, name := range slices.Sorted(maps.Keys(examples)) {
		if !slices.Contains(tools, name) {
			t.Errorf("the documented tool %s was not tried", name)
		}
	}
	for _, uri := range []string{"workspace://other/secret.txt", "workspace://other/", "workspace://" + id + "/secret.txt", "workspace://mine/../other/secret.txt", "croft-result:///" + handle} {
		if res, err := bound.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("the resource %s is read: %v", uri, res.Contents[0])
		}
	}
	for r, err := range bound.Resources(ctx, nil) {
		if err != nil || strings.Contains(r.URI, "other") {
			t.Errorf("it lists the resource %v, %v", r, err)
		}
	}
}

// TestABoundClientReachesItsForks: forks that a bound client made are in its reach, also
// forks of forks, and in that of no client bound to another workspace. Forks that others
// made are not in its reach.
func TestABoundClientReachesItsForks(t *testing.T) {
	n := newNeighbours(t)
	owner, bound, stranger := n.connect(""), n.connect("mine"), n.connect("other")
	n.must(bound, "fork", map[string]any{"name": "try"})
	n.must(bound, "fork", map[string]any{"name": "again", "workspace": "try"})
	n.must(owner, "fork", map[string]any{"name": "not-its-own", "workspace": "mine"})
	n.must(bound, "workspace_write_file", map[string]any{"workspace": "again", "path": "new.txt", "content": "new"})
	n.must(bound, "apply", map[string]any{"source": "again", "workspace": "try"})
	n.must(n.connect("mine"), "apply", map[string]any{"source": "try"})
	if text := n.must(bound, "workspace_read_file", map[string]any{"path": "new.txt"}); !strings.Contains(text, "new") {
		t.Errorf("what was applied is %s", text)
	}
	for _, tt := range []struct {
		what      string
		client    *mcp.ClientSession
		workspace string
	}{
		{"a fork of a client bound to another", stranger, "try"},
		{"a fork of a fork of another", stranger, "again"},
		{"a fork that another client made", bound, "not-its-own"},
	} {
		if text, ok := n.call(tt.client, "list", map[string]any{"workspace": tt.workspace}); ok {
			t.Errorf("%s is in reach: %s", tt.what, text)
		}
		if text, ok := n.call(tt.client, "apply", map[string]any{"source": tt.workspace}); ok {
			t.Errorf("%s can be applied: %s", tt.what, text)
		}
	}
	if text := n.must(stranger, "Glob", map[string]any{"workspace": "all", "pattern": "*"}); strings.Contains(text, "mine") || strings.Contains(text, "try") {
		t.Errorf("all workspaces of a bound client are %s", text)
	}
}

// toolExamples are the arguments of the examples in docs/evidence/tools.md, by tool.
func toolExamples(t *testing.T) map[string]map[string]any {
	t.Helper()
	text, err := os.ReadFile("../../../docs/evidence/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]any{}
	for _, section := range strings.Split(string(text), "\n### ")[1:] {
		name, rest, _ := strings.Cut(section, "\n")
		_, block, ok := strings.Cut(rest, "```json\n")
		if !ok {
			continue // a line of an answer
		}
		var args map[string]any
		block, _, _ = strings.Cut(block, "\n```")
		if err := json.Unmarshal([]byte(block), &args); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = args
	}
	return out
}

func decodeSchema(t *testing.T, v any) *jsonschema.Schema {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	s := new(jsonschema.Schema)
	if err := json.Unmarshal(data, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// eachText visits every argument that holds text, also within lists and objects. wrap
// makes the value of the outermost argument from a text.
func eachText(s *jsonschema.Schema, prefix string, visit func(name string, wrap func(string) any)) {
	for name, p := range s.Properties {
		if prefix == "" && name == "workspace" {
			continue
		}
		wrap := func(v any) any { return v }
		inner := p
		for inner.Items != nil || inner.AdditionalProperties != nil && inner.Properties == nil {
			outer := wrap
			if inner.Items != nil {
				wrap, inner = func(v any) any { return outer([]any{v}) }, inner.Items
			} else {
				wrap, inner = func(v any) any { return outer(map[string]any{"k": v}) }, inner.AdditionalProperties
			}
		}
		switch {
		case inner.Properties != nil:
			eachText(inner, prefix+name+".", func(sub string, subWrap func(string) any) {
				key := sub[strings.LastIndex(sub, ".")+1:]
				visit(sub, func(text string) any { return wrap(map[string]any{key: subWrap(text)}) })
			})
		case inner.Type == "string" || inner.Type == "" && len(inner.Types) == 0 || slices.Contains(inner.Types, "string"):
			visit(prefix+name, func(text string) any { return wrap(text) })
		}
	}
}

// TestNamedWorkspacesAreAll: the tools over some workspaces, as croft mcp --workspace has them,
// reach no other.
func TestNamedWorkspacesAreAll(t *testing.T) {
	n := newNeighbours(t)
	env, err := n.sys.ToolEnv(tool.Config{Workspaces: n.sys.Workspaces("mine")})
	if err != nil {
		t.Fatal(err)
	}
	if data, err := env.Resource(t.Context(), "", "other", "secret.txt"); fault.Of(err) != fault.NotFound {
		t.Errorf("a resource of another workspace is %q, %v", data, err)
	}
	for _, req := range []tool.Request{
		{Tool: "Read", Args: []byte(`{"workspace":"other","file_path":"secret.txt"}`)},
		{Tool: "apply", Args: []byte(`{"source":"other"}`)},
	} {
		if res, err := env.Run(t.Context(), req); fault.Of(err) != fault.NotFound {
			t.Errorf("%s in another workspace: %s, %v", req.Tool, res.Text, err)
		}
	}
}

// TestAttackSecretsByTheNameOfAFork: a client bound to one workspace can give a fork the
// name of another, whose secrets it does not get by that.
func TestAttackSecretsByTheNameOfAFork(t *testing.T) {
	testenv.ReportAttack(t, "secrets of another workspace by the name of a fork", "MCP", testenv.Prevented, "")
	n := newNeighbours(t)
	if err := n.sys.Registry.Destroy(t.Context(), n.other.ID()); err != nil {
		t.Fatal(err)
	}
	s := n.connect("mine")
	n.must(s, "fork", map[string]any{"name": "other"})
	if got, ok := n.call(s, "secret", map[string]any{"name": "KEY", "workspace": "other"}); ok || strings.Contains(got, marker) {
		t.Errorf("a fork named other has its secret: %s", got)
	}
}

// TestAttackEmptyWorkspaceParameter: an empty parameter, such as of an unset variable, does
// not connect a client to all workspaces.
func TestAttackEmptyWorkspaceParameter(t *testing.T) {
	testenv.ReportAttack(t, "client bound by an empty name", "MCP", testenv.Prevented, "")
	sys, url := serveWith(t, app.Config{DataDir: t.TempDir()})
	_, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: url + "/mcp?workspace=", HTTPClient: &http.Client{Transport: withToken(sys.Token)}, DisableStandaloneSSE: true,
	}, nil)
	if err == nil {
		t.Error("a client with an empty workspace parameter connected")
	}
}

// TestProtocolErrorsAreScrubbed: an error of the protocol quotes the request, without its
// secrets.
func TestProtocolErrorsAreScrubbed(t *testing.T) {
	n := newNeighbours(t)
	_, err := n.connect("").CallTool(t.Context(), &mcp.CallToolParams{Name: "no correct horse"})
	if err == nil || strings.Contains(err.Error(), "correct horse") || !strings.Contains(err.Error(), "[REDACTED:") {
		t.Errorf("an unknown tool: %v, want the secret hidden", err)
	}
}
