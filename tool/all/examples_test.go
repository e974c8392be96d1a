package all_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gocloud.dev/blob/memblob"

	"github.com/croft-run/croft/internal/history"
	"github.com/croft-run/croft/internal/tool/snapshots"
	"github.com/croft-run/croft/internal/wrap/interpreters"
	"github.com/croft-run/croft/interp/isolate"
	"github.com/croft-run/croft/prepare/bootstrap"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/tool/all"
	"github.com/croft-run/croft/tool/skill"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// newEnv opens a workspace with files, and every tool over it.
func newEnv(t *testing.T, files map[string]string) *tool.Env {
	t.Helper()
	p, err := local.New(&local.Config{Root: t.TempDir(), Snapshots: snapshot.Open(snapshot.Dir(t.TempDir()), nil)})
	if err != nil {
		t.Fatal(err)
	}
	mux, set := workspace.NewMux(interpreters.Wrap(p, interpreters.Config{Engine: &engine})), new(tool.Set)
	open := func(name string, from driver.Source) (*workspace.Workspace, error) {
		if err := tool.CheckName(name); err != nil {
			return nil, err
		}
		ws, err := mux.Open(t.Context(), workspace.Spec{Kind: "local", ID: workspace.NewID(), From: from}, nil)
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() {
			if err := ws.Destroy(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
		return ws, set.Add(name, ws)
	}
	ws, err := open("app", driver.Source{})
	if err != nil {
		t.Fatal(err)
	}
	store, err := secret.New(&secret.Options{Environ: []string{"CROFT_SECRET_DB_PASSWORD=correct horse"}})
	if err != nil {
		t.Fatal(err)
	}
	edits := t.TempDir()
	env, err := tool.NewEnv(tool.Config{
		Tools: slices.Concat(all.Coding(), all.Workspace(), skillTools(t)), Sources: all.Sources(), Workspaces: set, Secrets: store,
		Around: snapshots.Around(func(context.Context, *tool.Call) (history.Limits, bool) { return history.Limits{}, false }),
		Records: func(_ context.Context, id string) (tool.Records, error) {
			return tool.Records{Edits: filepath.Join(edits, id)}, nil
		},
		Fork: func(_ context.Context, _ *tool.Call, from, name string) (string, error) {
			_, err := open(name, driver.Source{Snapshot: from})
			return name, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := env.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	for name, text := range files {
		if _, err := ws.WriteFile(t.Context(), name, []byte(text), &driver.WriteOptions{Parents: true}); err != nil {
			t.Fatal(err)
		}
	}
	return env
}

// skillTools are the tools over one skill, and a place for artifacts.
func skillTools(t *testing.T) []*tool.Tool {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"SKILL.md":         "---\nname: word-count\ndescription: Counts the words of a text.\n---\nRun scripts/count.sh FILE; docs/units.md says what a word is.\n",
		"docs/units.md":    "A word is what stands between spaces.\n",
		"scripts/count.sh": "wc -w < \"$1\" > \"$OUTPUT_DIR/count.txt\"\n",
	} {
		name = filepath.Join(root, "word-count", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	bucket := memblob.OpenBucket(nil)
	t.Cleanup(func() {
		if err := bucket.Close(); err != nil {
			t.Error(err)
		}
	})
	return skill.Tools(skill.Options{Skills: &bootstrap.Skills{Roots: []string{root}}, Artifacts: stage.NewArtifacts(bucket, "").In})
}

// website is what web_fetch finds at http://docs.example.com in an example.
func website(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "Changes in version 2\n") // the client tells
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// project is what most examples work on.
var project = map[string]string{
	"go.mod": "module example.com/calc\n\ngo 1.24\n",
	"calc.go": `package calc

// Calc adds up.
type Calc struct{ total int }

// Add adds n.
func (c *Calc) Add(n int) int {
	c.total += n
	return c.total
}

// Sum returns a plus b.
func Sum(a, b int) int { return a + b }
`,
	"main/main.go": "package main\n\nimport \"example.com/calc\"\n\nfunc main() { println(calc.Sum(1, 2)) }\n",
	"README.md":    "# calc\n\nAdds up.\n",
}

// checked is for the tools that verify.
var checked = map[string]string{
	"pyproject.toml": "[project]\nname = \"calc\"\n",
	"calc.py":        "def add(a, b):\n    return a - b\n",
	"test_calc.py":   "import unittest\nfrom calc import add\n\n\nclass CalcTest(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n\n    def test_zero(self):\n        self.assertEqual(add(1, 0), 1)\n",
}

var node = map[string]string{
	"package.json":     `{"name": "calc", "type": "module", "scripts": {"greet": "echo hello"}, "devDependencies": {"eslint": "9", "typescript": "5"}}`,
	"eslint.config.js": "export default [{ rules: { \"no-unused-vars\": \"error\" } }];\n",
	"calc.js":          "export function add(a, b) {\n  const c = 1;\n  return a + b;\n}\n",
	"calc.ts":          "export function add(a: number, b: number): string {\n  return a + b;\n}\n",
	"tsconfig.json":    `{"compilerOptions": {"strict": true, "noEmit": true, "types": [], "lib": ["es5"], "skipLibCheck": true}, "files": ["calc.ts"]}`,
}

var commit = []string{
	`Bash {"command": "git init -q -b main && git config user.name Ada && git config user.email ada@example.com && git add -A && GIT_AUTHOR_DATE=2026-01-02T03:04:05Z GIT_COMMITTER_DATE=2026-01-02T03:04:05Z git commit -qm 'the beginning' && echo '- fast' >> README.md"}`,
}

// kernel is there where Debian's python3-ipykernel is.
const kernel = "/usr/share/jupyter/kernels/python3/kernel.json"

// engine runs the scripts of all examples.
var engine isolate.Engine

// remembered is a workspace that changed since a snapshot.
var remembered = []string{
	`snapshot_create {"name": "before-rewrite"}`,
	`Bash {"command": "echo 'Adds up, quickly.' >> README.md; rm main/main.go"}`,
}

// ended waits for the end of a command in the background.
const ended = `write_stdin {"shell_id": "ID", "eof": true, "yield_time_ms": 30000}`

const read = `Read {"file_path": "calc.go"}`

// examples has one of every tool.
var examples = map[string]example{
	"Read":        {args: `{"file_path": "calc.go", "offset": 12, "limit": 2}`},
	"Write":       {args: `{"file_path": "notes/todo.md", "content": "- test Sum\n"}`},
	"Edit":        {before: []string{read}, args: `{"file_path": "calc.go", "old_string": "return a + b", "new_string": "return b + a"}`},
	"MultiEdit":   {before: []string{read}, args: `{"file_path": "calc.go", "edits": [{"old_string": "// Add adds n.", "new_string": "// Add adds n and returns the total."}, {"old_string": "a + b", "new_string": "b + a"}]}`},
	"apply_patch": {before: []string{`Read {"file_path": "README.md"}`}, args: `{"patch": "--- a/README.md\n+++ b/README.md\n@@ -1,3 +1,3 @@\n # calc\n \n-Adds up.\n+Adds up, quickly.\n"}`},
	"list":        {args: `{"depth": 2}`},
	"move":        {args: `{"from": "README.md", "to": "docs/README.md"}`},
	"delete":      {args: `{"path": "README.md"}`},
	"Glob":        {args: `{"pattern": "**/*.md"}`},
	"Grep":        {args: `{"pattern": "func .*Add", "output_mode": "content"}`},
	"search_code": {args: `{"query": "add up"}`},

	"Bash":                 {args: `{"command": "ls; exit 3", "description": "list the files"}`},
	"BashOutput":           {before: []string{`Bash {"command": "echo working", "run_in_background": true}`, ended}, args: `{"shell_id": "ID"}`},
	"KillShell":            {before: []string{`Bash {"command": "sleep 60", "run_in_background": true}`}, args: `{"shell_id": "ID"}`},
	"write_stdin":          {before: []string{`Bash {"command": "read name; echo hello $name", "run_in_background": true}`}, args: `{"shell_id": "ID", "chars": "Ada", "append_newline": true, "yield_time_ms": 30000}`},
	"watch_process":        {args: `{"command": "echo 'Error: no port' >&2; sleep 1", "description": "start the server"}`},
	"watch_process_events": {before: []string{`watch_process {"command": "echo 'Error: no port' >&2", "description": "start the server"}`, ended}, args: `{"shell_id": "ID"}`},

	"run_tests":          {files: checked, args: `{}`, needs: "python3"},
	"run_failing_tests":  {files: checked, before: []string{`run_tests {}`}, args: `{}`, needs: "python3"},
	"last_test_failures": {files: checked, before: []string{`run_tests {}`}, args: `{}`, needs: "python3"},
	"tests_covering":     {files: checked, args: `{"file": "calc.py"}`, needs: "python3"},
	"run_lint":           {files: node, args: `{}`, needs: "eslint"},
	"run_typecheck":      {files: node, args: `{}`, needs: "tsc"},
	"format":             {files: map[string]string{"go.mod": "module example.com/a\n", "a.go": "package a\n\nfunc  F( ) {}\n"}, args: `{"files": ["a.go"]}`, needs: "gofmt"},
	"install":            {files: map[string]string{"go.mod": "module example.com/a\n"}, args: `{}`, needs: "go"},
	"run_script":         {files: node, args: `{"name": "greet"}`, needs: "npm"},

	"find_definition":  {args: `{"file_path": "main/main.go", "line": 5, "col": 28}`, needs: "gopls"},
	"find_references":  {args: `{"file_path": "calc.go", "line": 13, "col": 6}`, needs: "gopls"},
	"rename_symbol":    {before: []string{read}, args: `{"file_path": "calc.go", "line": 13, "col": 6, "new_name": "Plus"}`, needs: "gopls"},
	"hover":            {args: `{"file_path": "calc.go", "line": 13, "col": 6}`, needs: "gopls"},
	"document_symbols": {args: `{"file_path": "calc.go"}`, needs: "gopls"},
	"project_symbols":  {args: `{"query": "Sum", "file_path": "calc.go"}`, needs: "gopls"},
	"diagnostics":      {before: []string{`Write {"file_path": "bad/bad.go", "content": "package bad\n\nfunc Bad() int { return \"x\" }\n"}`}, args: `{"file_path": "bad/bad.go"}`, needs: "gopls"},

	"edit_code":                 {before: []string{read}, args: `{"file_path": "calc.go", "action": "body", "name": "(*Calc).Add", "code": "c.total = c.total + n\nreturn c.total"}`},
	"symbol":                    {args: `{"ask": "definition", "file_path": "main/main.go", "line": 5, "col": 28}`, needs: "gopls"},
	"snapshot":                  {args: `{"name": "before-rewrite", "description": "all tests pass"}`},
	"check":                     {args: `{"kind": "typecheck"}`, needs: "go"},
	"edit_function_body":        {before: []string{read}, args: `{"file_path": "calc.go", "function_name": "(*Calc).Add", "new_body": "c.total = c.total + n\nreturn c.total"}`},
	"change_function_signature": {before: []string{read}, args: `{"file_path": "calc.go", "function_name": "Sum", "new_signature": "func Sum(a, b int) (total int)"}`},
	"insert_after_method":       {before: []string{read}, args: `{"file_path": "calc.go", "receiver_type": "Calc", "method_name": "Add", "new_method": "// Reset begins again.\nfunc (c *Calc) Reset() { c.total = 0 }"}`},
	"rename_in_file":            {before: []string{read}, args: `{"file_path": "calc.go", "old_name": "total", "new_name": "sum"}`},

	"render_dot":     {args: `{"source": "digraph { a -> b }", "output_path": "graph.svg"}`, needs: "dot", want: "wrote 2048 bytes to graph.svg (svg)"},
	"render_mermaid": {args: `{"source": "graph LR; a --> b", "output_path": "flow.svg"}`, needs: "mmdc", want: "wrote 2048 bytes to flow.svg (svg)"},

	"secret":            {args: `{"name": "db_password"}`},
	"secrets_available": {args: `{}`},
	"profile":           {args: `{}`},

	"workspace_read_file":      {args: `{"path": "README.md"}`},
	"workspace_write_file":     {args: `{"path": "notes/todo.md", "content": "- test Sum\n"}`},
	"workspace_edit_file":      {before: []string{`workspace_read_file {"path": "README.md"}`}, args: `{"path": "README.md", "old": "Adds up.", "new": "Adds up, quickly."}`},
	"workspace_ls":             {args: `{"path": "."}`},
	"workspace_glob":           {args: `{"pattern": "main/**"}`},
	"workspace_grep":           {args: `{"pattern": "SUM", "ignore_case": true, "include": "*.go"}`},
	"workspace_stat":           {args: `{"path": "README.md"}`},
	"workspace_rm":             {args: `{"path": "main", "recursive": true}`},
	"workspace_mkdir":          {args: `{"path": "a/b", "recursive": true}`},
	"workspace_run":            {args: `{"cmd": "wc", "args": ["-c", "README.md"]}`},
	"workspace_exec":           {args: `{"command": "echo hello", "yield_time_ms": 30000}`},
	"workspace_write_stdin":    {before: []string{`workspace_exec {"command": "read name; echo hello $name", "yield_time_ms": 10}`}, args: `{"session_id": "ID", "chars": "Ada", "append_newline": true, "yield_time_ms": 30000}`},
	"workspace_run_code":       {args: `{"code": "from collections import Counter\nCounter(open('README.md').read().split()).most_common(1)"}`, needs: kernel},
	"workspace_create_context": {args: `{"language": "python"}`, needs: kernel},
	"workspace_delete_context": {before: []string{`workspace_create_context {}`}, args: `{"context_id": "ID"}`, needs: kernel},
	"workspace_run_script":     {args: `{"language": "typescript", "code": "const files: string[] = fs.globSync('**/*.go');\nfor (const f of files) console.log(f, fs.statSync(f).size);\nfiles.length"}`},
	"workspace_kill_session":   {before: []string{`workspace_exec {"command": "sleep 60", "yield_time_ms": 10}`}, args: `{"session_id": "ID"}`},

	"snapshot_create":  {args: `{"name": "before-rewrite", "description": "all tests pass"}`},
	"snapshot_list":    {before: remembered, args: `{}`},
	"snapshot_diff":    {before: remembered, args: `{"name": "before-rewrite"}`},
	"snapshot_restore": {before: remembered, args: `{"name": "before-rewrite"}`},
	"snapshot_delete":  {before: remembered, args: `{"name": "before-rewrite"}`},
	"diff":             {before: remembered, args: `{"from": "before-rewrite", "stat": true}`},
	"undo":             {before: []string{read, `Edit {"file_path": "calc.go", "old_string": "Sum", "new_string": "Total", "replace_all": true}`}, args: `{}`},
	"fork":             {args: `{"name": "attempt"}`},
	"apply":            {before: []string{`fork {"name": "attempt", "workspace": "app"}`, `Write {"file_path": "notes.md", "content": "- faster\n", "workspace": "attempt"}`}, args: `{"source": "attempt", "workspace": "app"}`},

	"workspace_snapshot":        {args: `{"name": "before-rewrite"}`},
	"workspace_restore":         {before: remembered, args: `{"snapshot": "before-rewrite", "name": "as-it-was"}`},
	"workspace_branch":          {args: `{"name": "attempt"}`},
	"workspace_list_snapshots":  {before: remembered, args: `{}`},
	"workspace_delete_snapshot": {before: remembered, args: `{"snapshot": "before-rewrite"}`},

	"skill_load":              {args: `{"skill": "word-count", "docs": ["docs/units.md"]}`},
	"skill_list_docs":         {args: `{"skill": "word-count"}`},
	"skill_run":               {args: `{"skill": "word-count", "command": "bash scripts/count.sh ../../README.md", "outputs": {"inline": true}}`},
	"workspace_save_artifact": {before: []string{`Write {"file_path": "out/report.md", "content": "all is well\n"}`}, args: `{"path": "out/report.md"}`},

	"git_status": {before: commit, args: `{}`, needs: "git"},
	"git_diff":   {before: commit, args: `{}`, needs: "git"},
	"git_log":    {before: commit, args: `{}`, needs: "git"},
	"git_commit": {before: commit, args: `{"message": "say that it is fast", "all": true}`, needs: "git"},
	"git_branch": {before: commit, args: `{"name": "faster", "create": true}`, needs: "git"},
	"web_fetch":  {args: `{"url": "http://docs.example.com/changes"}`},
}
