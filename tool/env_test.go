package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func TestPanicIsTheCallsError(t *testing.T) {
	boom := tool.New(tool.Spec{Name: "boom"}, func(context.Context, *tool.Call, struct{}) (tool.Message, error) { panic("oh") })
	env := newEnv(t, tool.Config{Tools: []*tool.Tool{boom}, Workspaces: newSet(t, "w")})
	if got := refused(t, env, "boom", `{}`, fault.Internal); strings.Contains(got, "oh") {
		t.Errorf("the panic reached the model: %q", got)
	}
}

func TestSecrets(t *testing.T) {
	store, err := secret.New(&secret.Options{
		Environ:   []string{"CROFT_SECRET_TOKEN=hunter2hunter2", "OWN_TOKEN=own-value-1", "CROFT_SECRET_SHARED=shared-value"},
		Workspace: func(ws string) (secret.Set, bool) { return secret.Set{Prefix: "OWN_"}, ws == "own" },
	})
	if err != nil {
		t.Fatal(err)
	}
	ring := event.NewRing(100)
	env := newEnv(t, tool.Config{Tools: tool.Coding(), Workspaces: newSet(t, "own", "plain"), Secrets: store, Events: event.NewStream(ring)})
	for args, want := range map[string]string{
		`{"name":"token","workspace":"plain"}`: "hunter2hunter2",
		`{"name":"TOKEN","workspace":"own"}`:   "own-value-1",
		`{"name":"shared","workspace":"own"}`:  "shared-value",
		`{"name":"none","workspace":"plain"}`:  "unknown secret: none (available: shared, token)",
		`{"name":"../x","workspace":"plain"}`:  "invalid secret name: ../x",
	} {
		if got, _ := call(t, env, "secret", args); got != want {
			t.Errorf("secret(%s) = %q, want %q", args, got, want)
		}
	}
	if got := ok(t, env, "secrets_available", `{"workspace":"plain"}`); got != "shared\ntoken" {
		t.Errorf("got %q", got)
	}
	env.Withheld = func(context.Context, string) ([]string, error) { return []string{"TOKEN"}, nil }
	if got := refused(t, env, "secret", `{"name":"token","workspace":"plain"}`, fault.PermissionDenied); !strings.Contains(got, "withheld") || !strings.Contains(got, "(available: shared)") {
		t.Errorf("a credential is given, or refused by %q", got)
	}
	if got := ok(t, env, "secrets_available", `{"workspace":"plain"}`); got != "shared" {
		t.Errorf("got %q", got)
	}
	// No text that goes out holds a value: not an answer, not data, not an error, not an event.
	put(t, env, "plain", "f", "x hunter2hunter2 y\n")
	res, err := env.Run(t.Context(), tool.Request{Tool: "Read", Args: json.RawMessage(`{"file_path":"f","workspace":"plain"}`)})
	if err != nil || res.Text != "1\tx [REDACTED:token] y\n" || strings.Contains(string(res.Data()), "hunter2") || !json.Valid(res.Data()) {
		t.Errorf("Read = %q, %s, %v", res.Text, res.Data(), err)
	}
	if got := refused(t, env, "Read", `{"file_path":"hunter2hunter2","workspace":"plain"}`, fault.NotFound); strings.Contains(got, "hunter2") {
		t.Errorf("got %q", got)
	}
	ok(t, env, "Bash", `{"command":"echo hunter2hunter2","workspace":"plain"}`)
	reads := 0
	for _, e := range ring.Events() {
		if strings.Contains(string(event.Marshal(e)), "hunter2") {
			t.Errorf("event %s", event.Marshal(e))
		}
		if e.Kind == event.SecretRead {
			reads++
		}
	}
	if reads != 3 {
		t.Errorf("%d secrets were audited, want 3", reads)
	}
	// The environment of a command has none.
	if got := ok(t, env, "Bash", `{"command":"env | grep -c CROFT_SECRET_; true","workspace":"plain"}`); got != "0\n" {
		t.Errorf("got %q", got)
	}
}

func TestApproval(t *testing.T) {
	var rules []tool.Rule
	for _, s := range []string{"deny:Bash(rm *)", "ask:Bash(git push*)", "deny:Write(secret/*)", "allow:*"} {
		r, err := tool.ParseRule(s)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	ring := event.NewRing(100)
	env := newEnv(t, tool.Config{Tools: tool.Coding(), Workspaces: newSet(t, "w"), Approval: &tool.Approval{Rules: rules}, Events: event.NewStream(ring)})
	answers := map[string]error{"yes": nil, "no": nil, "error": errors.New("gone")}
	run := func(name, args, answer string) fault.Code {
		req := tool.Request{Tool: name, Args: json.RawMessage(args)}
		if answer != "" {
			req.Ask = func(context.Context, string) (bool, error) { return answer == "yes", answers[answer] }
		}
		_, err := env.Run(t.Context(), req)
		return fault.Of(err)
	}
	for _, tt := range []struct {
		tool, args, answer string
		want               fault.Code
	}{
		{"Bash", `{"command":"rm -rf x"}`, "yes", fault.PermissionDenied},
		{"Bash", `{"command":"echo rm"}`, "", ""},
		{"Bash", `{"command":"git push || true"}`, "", fault.PermissionDenied},
		{"Bash", `{"command":"git push || true"}`, "no", fault.PermissionDenied},
		{"Bash", `{"command":"git push || true"}`, "yes", ""},
		{"Bash", `{"command":"git push || true"}`, "error", fault.Internal},
		{"Write", `{"file_path":"secret/x","content":""}`, "", fault.PermissionDenied},
		{"Write", `{"file_path":"a/../secret/x","content":""}`, "", fault.PermissionDenied},
		{"Write", `{"file_path":"x","content":""}`, "", ""},
	} {
		if got := run(tt.tool, tt.args, tt.answer); got != tt.want {
			t.Errorf("%s(%s) answered %q: code %q, want %q", tt.tool, tt.args, tt.answer, got, tt.want)
		}
	}
	decisions := slices.DeleteFunc(ring.Events(), func(e event.Event) bool { return e.Kind != event.ToolApproval })
	if len(decisions) != 9 {
		t.Errorf("%d decisions were told, want 9", len(decisions))
	}
	for _, bad := range []string{"Bash", "maybe:Bash", "allow:", "deny:Bash(", "deny:Bash(rm", "deny:(rm)", "deny:Bash (rm)", "deny:Bash)"} {
		if _, err := tool.ParseRule(bad); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("ParseRule(%q) = %v", bad, err)
		}
	}
}

func TestReadOnlyOffersWhatChangesNothing(t *testing.T) {
	env := newEnv(t, tool.Config{Tools: append(tool.Coding(), tool.Workspace()...), Workspaces: newSet(t, "w"), ReadOnly: true})
	list, err := env.Available(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, tl := range list {
		if !tl.ReadOnly {
			t.Errorf("%s is offered", tl.Name)
		}
	}
	refused(t, env, "Bash", `{"command":"true"}`, fault.PermissionDenied)
	refused(t, env, "Write", `{"file_path":"x","content":""}`, fault.PermissionDenied)
}

// weather is an extra capability that brings tools.
type weather struct{ names []string }

func (w weather) Tools() []driver.Tool {
	var out []driver.Tool
	for _, name := range w.names {
		out = append(out, driver.Tool{
			Name: name, Description: "The weather.", ReadOnly: true,
			Input: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}`),
			Call: func(_ context.Context, args json.RawMessage) (driver.ToolResult, error) {
				return driver.ToolResult{Text: "fine: " + string(args)}, nil
			},
		})
	}
	return out
}

func TestToolSource(t *testing.T) {
	source := func(*workspace.Workspace) driver.ToolSource {
		return weather{[]string{"weather", "workspace_evil", "Read"}}
	}
	env := newEnv(t, tool.Config{Tools: tool.Coding(), Workspaces: newSet(t, "a", "b"), Sources: []tool.Source{source}})
	if got, want := ok(t, env, "weather", `{"city":"Oslo","workspace":"a"}`), `fine: {"city":"Oslo"}`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	refused(t, env, "weather", `{"city":"Oslo"}`, fault.InvalidArgument)
	refused(t, env, "weather", `{"workspace":"a"}`, fault.InvalidArgument)
	refused(t, env, "weather", `{"city":7,"workspace":"a"}`, fault.InvalidArgument)
	refused(t, env, "workspace_evil", `{"city":"Oslo","workspace":"a"}`, fault.NotFound)
	list, err := env.Available(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, tl := range list {
		if tl.Name == "weather" || tl.Name == "workspace_evil" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d foreign tools are offered, want weather alone", n)
	}
}

func TestEveryToolTakesAWorkspace(t *testing.T) {
	seen := map[string]bool{}
	for _, tl := range append(tool.Coding(), tool.Workspace()...) {
		if tl.Input.Properties["workspace"] == nil {
			t.Errorf("%s takes no workspace", tl.Name)
		}
		if seen[tl.Name] || tl.Description == "" || tl.Family == "" {
			t.Errorf("%s: twice, or without a description or family", tl.Name)
		}
		if tl.ReadOnly && tl.Destructive {
			t.Errorf("%s changes nothing and destroys", tl.Name)
		}
		seen[tl.Name] = true
	}
}

func TestEffects(t *testing.T) {
	effect := func(ctx context.Context, c *tool.Call, paths []string) (string, error) {
		ctx = context.WithoutCancel(ctx) // how long it may take is not the question here
		if strings.HasSuffix(paths[0], ".bad") {
			return "", tool.Errorf(fault.Unavailable, "the linter is missing")
		}
		// A formatter that adds a line.
		data, err := c.Workspace.ReadFile(ctx, paths[0])
		if err != nil {
			return "", err
		}
		_, err = c.Workspace.WriteFile(ctx, paths[0], append(data, "formatted\n"...), nil)
		c.Refresh(ctx, paths[0])
		return "formatted " + paths[0], err
	}
	env := newEnv(t, tool.Config{Tools: tool.Coding(), Workspaces: newSet(t, "w"), Effects: []tool.Effect{effect}})
	if got, want := ok(t, env, "Write", `{"file_path":"f","content":"a\n"}`), "wrote 2 bytes to f\n\nformatted f\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	ok(t, env, "Edit", `{"file_path":"f","old_string":"a\n","new_string":"b\n"}`) // what the formatter did does not make it stale
	if got, want := ok(t, env, "Write", `{"file_path":"f.bad","content":"a\n"}`), "wrote 2 bytes to f.bad\n\nafter the edit: the linter is missing\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestSecretsAtTheEdgeOfAPart: a part of an output that begins or ends within a secret has
// no piece of it.
func TestSecretsAtTheEdgeOfAPart(t *testing.T) {
	store, err := secret.New(&secret.Options{Environ: []string{"CROFT_SECRET_TOKEN=hunter2hunter2"}})
	if err != nil {
		t.Fatal(err)
	}
	env := newEnv(t, tool.Config{Tools: tool.Coding(), Workspaces: newSet(t, "w"), Secrets: store, Finders: []secret.Finder{secret.Known()}})
	shaped := "ghp_" + strings.Repeat("q7RkZ2mXv9Tb", 3)
	id := start(t, env, "Bash", args(t, "command", "printf '%s' 'abcd hunter2hunter2 efgh "+shaped+" ijkl'", "run_in_background", true))
	wait(t, env, id)
	const text = "abcd [REDACTED:token] efgh [REDACTED:github-pat] ijkl"
	for offset := range 70 {
		for _, limit := range []int{1, 5, 9, 100} {
			got := ok(t, env, "BashOutput", args(t, "shell_id", id, "offset", offset, "limit", limit))
			part, _, _ := strings.Cut(got, "\n...")
			if !strings.Contains(text, part) {
				t.Errorf("%d bytes from %d on are %q", limit, offset, got)
			}
		}
	}
	if got := ok(t, env, "BashOutput", args(t, "shell_id", id, "offset", 0)); got != text {
		t.Errorf("got %q, want %q", got, text)
	}
}

// TestSecretsOfSeveralLines: neither the text of an answer of Grep nor its data has a line of a
// private key, whatever the path is.
func TestSecretsOfSeveralLines(t *testing.T) {
	env := newEnv(t, tool.Config{Tools: tool.Coding(), Workspaces: newSet(t, "w"), Finders: []secret.Finder{secret.Known()}})
	const body = "q7RkZ2mXv9TbW4nLcJ8sHdPyG3fUeKaVxQ0iB6oM5tYzR1wS"
	key := "-----BEGIN OPENSSH PRIVATE " + "KEY-----\n" + body + "\n" + body[:30] + "\n-----END OPENSSH PRIVATE " + "KEY-----\n"
	ok(t, env, "Bash", args(t, "command", "mkdir keys_; printf -- '"+strings.ReplaceAll(key, "\n", "\\n")+"' | tee id_rsa > keys_/tls-2_key.pem"))
	for _, context := range []int{0, 2} {
		res, err := env.Run(t.Context(), tool.Request{Tool: "Grep", Args: json.RawMessage(args(t, "pattern", ".", "context", context))})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(res.Text, "id_rsa:2:[REDACTED:") || strings.Contains(res.Text+string(res.Structured), body[8:24]) {
			t.Errorf("the answer is\n%s\n%s", res.Text, res.Structured)
		}
	}
}

// TestALineOfASecretOfSeveralLines: an answer that has one line of a manifest or of a key hides what Read of the whole file hides.
func TestALineOfASecretOfSeveralLines(t *testing.T) {
	env := newEnv(t, tool.Config{Tools: slices.Concat(tool.Coding(), tool.Workspace()), Workspaces: newSet(t, "w"), Finders: []secret.Finder{secret.Known()}})
	const line = "q7RkZ2mXv9TbW4nLcJ8sHdPyG3fUeKaVxQ0iB6oM5tYzR1wS"
	const manifest = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\ndata:\n  user: YWRtaW5pc3RyYXRvcg==\nstringData:\n  pw: tr0ub4dor\n"
	put(t, env, "w", "db.yaml", manifest)
	put(t, env, "w", "id_rsa", "-----BEGIN OPENSSH PRIVATE "+"KEY-----\n"+line+"\n-----END OPENSSH PRIVATE "+"KEY-----\n")
	put(t, env, "w", "plain.yaml", "kind: ConfigMap\ndata:\n  user: c29tZWJvZHktZWxzZQ==\n")
	for _, one := range []struct{ tool, args string }{
		{"Grep", `{"pattern":"user:|pw:|q7R"}`},
		{"Grep", `{"pattern":"stringData","path":"db.yaml","context":1}`},
		{"Grep", `{"pattern":"user:.*\\n.*\\n.*pw:.*","multiline":true}`},
		{"workspace_grep", `{"pattern":"user:|pw:|q7R"}`},
		{"Read", `{"file_path":"db.yaml","offset":6,"limit":1}`},
		{"Read", `{"file_path":"db.yaml","offset":8}`},
		{"workspace_read_file", `{"path":"id_rsa","offset":2,"limit":1}`},
	} {
		res, err := env.Run(t.Context(), tool.Request{Tool: one.tool, Args: json.RawMessage(one.args)})
		if err != nil {
			t.Fatal(err)
		}
		text := res.Text + string(res.Structured)
		if !strings.Contains(text, "[REDACTED:") || strings.Contains(text, "YWRtaW5") || strings.Contains(text, "tr0ub") || strings.Contains(text, line[8:24]) {
			t.Errorf("%s %s: %s", one.tool, one.args, text)
		}
		if one.args == `{"pattern":"user:|pw:|q7R"}` && !strings.Contains(text, "c29tZWJvZHktZWxzZQ==") {
			t.Errorf("%s hides what is no secret: %s", one.tool, text)
		}
	}

	ok(t, env, "Read", `{"file_path":"db.yaml"}`)
	put(t, env, "w", "db.yaml", strings.Replace(manifest, "tr0ub4dor", "c0rrecth0rse", 1))
	edit := args(t, "file_path", "db.yaml", "old_string", "db", "new_string", "other")
	if got := refused(t, env, "Edit", edit, fault.Conflict); strings.Contains(got, "c0rrecth0rse") || !strings.Contains(got, "[REDACTED:") {
		t.Errorf("the error is %q", got)
	}
}

// TestSecretsInTwoAnswers: a secret of which a command prints one half before an answer and the
// other half after it is in neither.
func TestSecretsInTwoAnswers(t *testing.T) {
	store, err := secret.New(&secret.Options{Environ: []string{"CROFT_SECRET_TOKEN=correct-horse-battery"}})
	if err != nil {
		t.Fatal(err)
	}
	env := newEnv(t, tool.Config{Tools: tool.Coding(), Workspaces: newSet(t, "w"), Secrets: store})
	const command = "printf 'begin correct-hor'; read x; echo 'se-battery end'"
	halves := func(first, second string) {
		t.Helper()
		if strings.Contains(first, "correct") || strings.Contains(second, "battery") || !strings.Contains(first, "begin") || !strings.Contains(second, "[REDACTED:token] end") {
			t.Errorf("the answers are %q and %q", first, second)
		}
	}
	printed := func(id string) string { // waits until the first half is in the log; with an offset, the answer has no command
		t.Helper()
		for {
			if got := ok(t, env, "BashOutput", args(t, "shell_id", id, "offset", 0)); strings.Contains(got, "begin") {
				return got
			}
		}
	}

	id := start(t, env, "Bash", args(t, "command", command, "run_in_background", true))
	printed(id)
	first := ok(t, env, "write_stdin", args(t, "shell_id", id))
	halves(first, ok(t, env, "write_stdin", args(t, "shell_id", id, "eof", true, "yield_time_ms", 30000)))

	id = start(t, env, "Bash", args(t, "command", command, "run_in_background", true))
	printed(id)
	first = ok(t, env, "BashOutput", args(t, "shell_id", id, "offset", 0))
	ok(t, env, "write_stdin", args(t, "shell_id", id, "eof", true, "yield_time_ms", 30000))
	halves(first, ok(t, env, "BashOutput", args(t, "shell_id", id, "offset", len("begin "))))

	if got := printed(start(t, env, "Bash", args(t, "command", "printf 'begin corr'; sleep 60", "run_in_background", true))); strings.Contains(got, "corr") {
		t.Errorf("the beginning of a secret is in %q", got)
	}
}

// TestSecretsInKeys: a key of an answer's data may be a file name.
func TestSecretsInKeys(t *testing.T) {
	store, err := secret.New(&secret.Options{Environ: []string{"CROFT_SECRET_TOKEN=hunter2hunter2"}})
	if err != nil {
		t.Fatal(err)
	}
	list := tool.New(tool.Spec{Name: "list"}, func(context.Context, *tool.Call, struct{}) (map[string]int, error) {
		return map[string]int{"a/hunter2hunter2": 1, "b": 2, "hunter2hunter2": 3, "%68unter2hunter2": 4}, nil
	})
	env := newEnv(t, tool.Config{Tools: []*tool.Tool{list}, Workspaces: newSet(t, "w"), Secrets: store})
	res, err := env.Run(t.Context(), tool.Request{Tool: "list", Args: json.RawMessage(`{}`)})
	var got map[string]int
	if err != nil || json.Unmarshal(res.Data(), &got) != nil || len(got) != 4 || strings.Contains(string(res.Data()), "unter2") || strings.Contains(res.Text, "unter2") {
		t.Errorf("got %s, %v", res.Data(), err)
	}
}

// TestSecretsBesideTheAnswer: what is told while a call runs, and what is added to
// its answer afterwards, holds no value either.
func TestSecretsBesideTheAnswer(t *testing.T) {
	store, err := secret.New(&secret.Options{Environ: []string{"CROFT_SECRET_TOKEN=hunter2hunter2"}})
	if err != nil {
		t.Fatal(err)
	}
	tell := tool.New(tool.Spec{Name: "tell"}, func(_ context.Context, c *tool.Call, _ struct{}) (tool.Message, error) {
		c.Progress(tool.Progress{Done: 1, Message: "TestX/hunter2hunter2"})
		return tool.Message{}, nil
	})
	env := newEnv(t, tool.Config{Tools: []*tool.Tool{tell}, Workspaces: newSet(t, "w"), Secrets: store, Around: func(context.Context, *tool.Call, *tool.Tool, string) (func(context.Context) error, error) {
		return func(context.Context) error { return errors.New("at hunter2hunter2") }, nil
	}})
	var told string
	res, err := env.Run(t.Context(), tool.Request{Tool: "tell", Args: json.RawMessage(`{}`), Progress: func(p tool.Progress) { told = p.Message }})
	if err != nil {
		t.Fatal(err)
	}
	if want := "TestX/[REDACTED:token]"; told != want {
		t.Errorf("progress is %q, want %q", told, want)
	}
	if !strings.Contains(res.Text, "after the call: ") || strings.Contains(res.Text, "hunter2") {
		t.Errorf("the answer is %q", res.Text)
	}
}
