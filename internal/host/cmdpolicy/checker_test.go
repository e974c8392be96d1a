package cmdpolicy

import (
	"context"
	"errors"
	"flag"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares got with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", file, diff)
	}
}

// summary is a command in one line.
func summary(cmd driver.Command) string {
	if len(cmd.Argv) > 0 {
		return strings.Join(cmd.Argv, " ")
	}
	return cmd.Script
}

func TestWellFormed(t *testing.T) {
	g := mustNew(t, withoutPaths())
	tests := []struct {
		name string
		cmd  driver.Command
		want string
	}{
		{"nothing", driver.Command{}, TextEmpty},
		{"blank script", driver.Command{Script: " \n"}, TextEmpty},
		{"blank program", driver.Command{Argv: []string{" ", "x"}}, TextEmpty},
		{"NUL in an argument", driver.Command{Argv: []string{"a", "b\x00c"}}, TextNUL},
		{"NUL in a script", driver.Command{Script: "a\x00"}, TextNUL},
		{"NUL in a variable", driver.Command{Script: "a", Env: map[string]string{"A": "\x00"}}, TextNUL},
		{"NUL in a directory", driver.Command{Script: "a", Dir: "\x00"}, TextNUL},
		{"escape", driver.Command{Argv: []string{"echo", "\x1b[2J"}}, TextControl},
		{"delete", driver.Command{Script: "echo \x7f"}, TextControl},
		{"C1", driver.Command{Script: "echo \u009b"}, TextControl},
		{"tab and newline", driver.Command{Argv: []string{"echo", "a\tb\r\nc\n"}}, ""},
		{"letters", driver.Command{Script: "echo grüße 漢字 \u00a0"}, ""},
		{"not UTF-8", driver.Command{Argv: []string{"echo", "\xff\xfe"}}, ""},
	}
	for _, tt := range tests {
		r := refusal(t, g, tt.cmd)
		if got := textOf(r); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		if r != nil && r.Code != fault.InvalidArgument {
			t.Errorf("%s: code %s, want %s", tt.name, r.Code, fault.InvalidArgument)
		}
	}
	if r := refusal(t, mustNew(t, new(Options)), driver.Command{Script: "a\x00"}); textOf(r) != TextNUL {
		t.Errorf("without any rule NUL is refused with %v", r)
	}
}

func TestLimits(t *testing.T) {
	g := mustNew(t, &Options{Limits: Limits{Argv: 10, Env: 10, Script: 10}})
	ten := strings.Repeat("x", 10)
	for _, tt := range []struct {
		cmd  driver.Command
		want string
	}{
		{driver.Command{Argv: []string{"1234", "6789"}}, ""},
		{driver.Command{Argv: []string{"1234", "67890"}}, TextArgvTooLong},
		{driver.Command{Script: ten}, ""},
		{driver.Command{Script: ten + "x"}, TextScriptTooLong},
		{driver.Command{Script: "x", Env: map[string]string{"1234": "6789"}}, ""},
		{driver.Command{Script: "x", Env: map[string]string{"1234": "67890"}}, TextEnvTooLong},
	} {
		r := refusal(t, g, tt.cmd)
		if got := textOf(r); got != tt.want {
			t.Errorf("%q: %q, want %q", summary(tt.cmd), got, tt.want)
		}
		if r != nil && (r.Rule != RuleLimits || r.Code != fault.InvalidArgument || !strings.Contains(r.Error(), "at most 10")) {
			t.Errorf("%q: %v, want it to name the cap", summary(tt.cmd), r)
		}
	}
}

func TestArgvOnly(t *testing.T) {
	g, _ := workspace(t, Strict())
	if r := refusal(t, g, driver.Command{Script: "true"}); textOf(r) != TextScript || r.Code != fault.PermissionDenied {
		t.Errorf("a script: %v, want %q", r, TextScript)
	}
	for arg, want := range map[string]string{
		"plain": "", "a-b_c.d/e,f:g@h%i+j=k": "", "two words": "", "#": "", "'quoted'": "", "~x": TextHome,
		"&&": TextMetacharacter, "a;b": TextMetacharacter, "a|b": TextMetacharacter, ">x": TextMetacharacter, "<x": TextMetacharacter, "`x`": TextMetacharacter,
		"$x": TextMetacharacter, "(x)": TextMetacharacter, "{x}": TextMetacharacter, "a\\b": TextMetacharacter, "!x": TextMetacharacter, "a\nb": TextMetacharacter,
		"*.go": TextGlob, "a?": TextGlob, "[ab]": TextGlob,
	} {
		if got := textOf(refusal(t, g, driver.Command{Argv: []string{"cat", arg}})); got != want {
			t.Errorf("%q: %q, want %q", arg, got, want)
		}
	}
}

func TestEnv(t *testing.T) {
	env := map[string]string{
		"PATH": "/bin", "HOME": "/x", "CI": "1", "EDITOR": "vi", "TOKENS": "3", "GIT_AUTHOR_NAME": "a", "PYTHONPATH": "src", "ALIAS": "x", "ENVIRONMENT": "prod", "KEY": "x",
		"OPENAI_API_KEY": "s", "MY_TOKEN": "s", "TOKEN": "s", "github_token": "s", "CLIENT_SECRET": "s", "DB_PASSWORD": "s", "AWS_REGION": "s", "ALIYUN_X": "s", "ALI_ID": "s",
		"K8S_X": "s", "KUBECONFIG": "s", "LD_PRELOAD": "s", "LD_LIBRARY_PATH": "s", "DYLD_INSERT_LIBRARIES": "s", "NODE_OPTIONS": "s", "PYTHONSTARTUP": "s", "BASH_ENV": "s",
		"ENV": "s", "GIT_SSH_COMMAND": "s", "GIT_CONFIG_COUNT": "s", "GIT_DIR": "s", "BASH_FUNC_ls%%": "s",
	}
	allowed := []string{"PATH", "HOME", "CI", "EDITOR", "TOKENS", "GIT_AUTHOR_NAME", "PYTHONPATH", "ALIAS", "ENVIRONMENT", "KEY"}
	g := mustNew(t, withoutPaths())
	for name, value := range env {
		want := TextVariable + " " + strconv.Quote(name)
		if slices.Contains(allowed, name) {
			want = ""
		}
		if got := textOf(refusal(t, g, driver.Command{Script: "env", Env: map[string]string{name: value}})); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	allow := mustNew(t, &Options{Env: Env{Allow: []string{"PATH", "LC_*", "MY_TOKEN"}, Deny: []string{"*TOKEN"}}})
	if r := refusal(t, allow, driver.Command{Script: "env", Env: map[string]string{"PATH": "p", "LC_ALL": "C"}}); r != nil {
		t.Errorf("allowed variables are refused: %v", r)
	}
	for _, name := range []string{"MY_TOKEN", "X"} {
		if got, want := textOf(refusal(t, allow, driver.Command{Script: "env", Env: map[string]string{name: "s"}})), TextVariable+" "+strconv.Quote(name); got != want {
			t.Errorf("with an allow list, %s: %q, want %q", name, got, want)
		}
	}
	r := refusal(t, g, driver.Command{Script: "env", Env: map[string]string{"LD_PRELOAD": "x", "B": "y", "AWS_X": "hunter2"}})
	if want := TextVariable + ` "AWS_X", "LD_PRELOAD"`; textOf(r) != want || r.Code != fault.PermissionDenied {
		t.Errorf("refused with %v, want %q", r, want)
	}
	if strings.Contains(r.Error(), "hunter2") {
		t.Errorf("the refusal tells the value: %v", r)
	}
}

// TestFixedVariables: a command has the values of a policy, also in a clean environment.
func TestFixedVariables(t *testing.T) {
	c := mustNew(t, &Options{Env: Env{Fixed: map[string][]string{"CI": {"1"}, "MODE": {"a", "b"}}}})
	for _, tt := range []struct {
		env   map[string]string
		clean bool
		want  string
	}{
		{nil, false, ""},
		{map[string]string{"MODE": "b"}, false, ""},
		{map[string]string{"MODE": "c"}, false, TextVariable + ` "MODE"`},
		{nil, true, TextMissingVariable + ` "CI", "MODE"`},
		{map[string]string{"CI": "1"}, true, TextMissingVariable + ` "MODE"`},
		{map[string]string{"CI": "0", "MODE": "a"}, true, TextVariable + ` "CI"`},
		{map[string]string{"CI": "1", "MODE": "a", "MORE": "x"}, true, ""},
	} {
		if got := textOf(refusal(t, c, driver.Command{Argv: []string{"env"}, Env: tt.env, Clean: tt.clean})); got != tt.want {
			t.Errorf("%v, clean %v: got %q, want %q", tt.env, tt.clean, got, tt.want)
		}
	}
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]*Options{
		"paths without a boundary": Local(),
		"bad pattern":              {Commands: Commands{Deny: []string{"["}}},
		"empty pattern":            {Env: Env{Allow: []string{""}}},
		"relative path":            {Paths: Paths{Allow: []string{"dev/null"}}},
		"negative cap":             {Limits: Limits{Env: -1}},
	} {
		if _, err := New(o); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%s: New = %v, want %s", name, err, fault.InvalidArgument)
		}
	}
	if r := refusal(t, mustNew(t, nil), driver.Command{Script: "sudo id"}); r == nil {
		t.Error("New(nil) has no deny list")
	}
}

func TestCheckEnds(t *testing.T) {
	g, _ := workspace(t, Local())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Check(ctx, driver.Command{Script: "true"}); !errors.Is(err, fault.Canceled) && fault.Of(err) != fault.Canceled {
		t.Errorf("Check with a context that ended = %v", err)
	}
}

// recorder is a Starter that keeps what it is given.
type recorder struct {
	mu   sync.Mutex
	cmds []driver.Command
}

func (r *recorder) Start(_ context.Context, cmd driver.Command) (*driver.Session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cmds = append(r.cmds, cmd)
	return new(driver.Session), nil
}

func TestModule(t *testing.T) {
	g := mustNew(t, withoutPaths())
	rec := new(recorder)
	inner := &driver.Shell{
		Starter: rec,
		Run: func(ctx context.Context, cmd driver.Command) (driver.Result, error) {
			_, err := rec.Start(ctx, cmd)
			return driver.Result{ExitCode: 7}, err
		},
		Sessions: func(context.Context) ([]driver.SessionInfo, error) { return []driver.SessionInfo{{ID: "x"}}, nil },
		Attach:   func(context.Context, string) (*driver.Session, error) { return nil, fault.NotFound },
		Dial:     func(context.Context, int) (net.Conn, error) { return nil, fault.NotFound },
	}
	m := g.Module(inner)
	for i := range reflect.TypeFor[driver.Shell]().NumField() {
		if reflect.ValueOf(*m).Field(i).IsZero() {
			t.Errorf("field %s is lost", reflect.TypeFor[driver.Shell]().Field(i).Name)
		}
	}
	env := map[string]string{"A": "b"}
	if _, err := m.Start(t.Context(), driver.Command{Script: "true", Env: env}); err != nil {
		t.Fatal(err)
	}
	if res, err := m.Run(t.Context(), driver.Command{Argv: []string{"true"}, Env: env}); err != nil || res.ExitCode != 7 {
		t.Fatalf("Run = %v, %v", res, err)
	}
	if _, err := m.Run(t.Context(), driver.Command{Script: "true", Env: map[string]string{"LD_PRELOAD": "x"}}); fault.Of(err) != fault.PermissionDenied {
		t.Errorf("Run with a denied variable = %v", err)
	}
	if _, err := m.Start(t.Context(), driver.Command{Script: "sudo id"}); fault.Of(err) != fault.SandboxViolation {
		t.Errorf("Start of a denied program = %v", err)
	}
	if _, err := m.Run(t.Context(), driver.Command{Script: "sudo id"}); fault.Of(err) != fault.SandboxViolation {
		t.Errorf("Run of a denied program = %v", err)
	}
	want := []driver.Command{{Script: "true", Env: map[string]string{"A": "b"}}, {Argv: []string{"true"}, Env: map[string]string{"A": "b"}}}
	if diff := cmp.Diff(want, rec.cmds); diff != "" {
		t.Errorf("what was started differs (-want +got):\n%s", diff)
	}
	if _, err := m.Attach(t.Context(), "x"); err == nil {
		t.Error("Attach is not the module's own")
	}
	if g.Module(nil) != nil {
		t.Error("Module(nil) is not nil")
	}
	if m := g.Module(new(driver.Shell)); m.Starter != nil || m.Run != nil {
		t.Error("an empty module has grown parts")
	}
	if inner.Starter != driver.Starter(rec) {
		t.Error("the module that was wrapped has changed")
	}
}

func BenchmarkCheck(b *testing.B) {
	g := mustNew(b, withoutPaths())
	for name, cmd := range map[string]driver.Command{
		"argv":   {Argv: []string{"go", "test", "./..."}},
		"script": {Script: "set -e; cd sub && for f in *.go; do gofmt -l \"$f\" | grep -q . && echo \"$f\"; done"},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := g.Check(b.Context(), cmd); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
