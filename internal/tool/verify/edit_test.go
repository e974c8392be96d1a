package verify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func detect(t *testing.T, ws *workspace.Workspace) profile.Profile {
	t.Helper()
	p, err := profile.Detect(ws.FS(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// tools is a project whose formatter and linter are scripts of the test, which
// write down what they were asked to work on.
func tools(t *testing.T, kind, formatter, linter string) (*workspace.Workspace, profile.Profile, string) {
	t.Helper()
	ws, dir := open(t, kind, map[string]string{
		"setup.py": "", "a.py": "x = 1\n", "b.py": "y = 1\n",
		"fmt": "#!/bin/sh\n" + formatter, "lint": "#!/bin/sh\n" + linter,
	})
	for _, name := range []string{"fmt", "lint"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	match := []string{"*.py"}
	p := profile.Profile{Projects: []profile.Project{{
		Dir: ".", Ecosystem: profile.Python, Proof: "setup.py",
		Format: profile.Command{Dir: ".", Argv: []string{"./fmt", profile.Files}, Whole: []string{"./fmt", "."}, Match: match},
		Lint:   profile.Command{Dir: ".", Argv: []string{"./lint", profile.Files}, Whole: []string{"./lint", "."}, Match: match},
	}}}
	return ws, p, dir
}

// late is for what is not about time.
var late = &EditOptions{Bound: 2 * time.Minute}

//croft:slow-race
func TestAfterEdit(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			ws, p, dir := tools(t, kind, "echo fmt \"$@\" >> asked\necho 'x  =  2' > a.py\n", "echo lint \"$@\" >> asked\necho a.py:1:1: error: bad\necho b.py:1:1: error: other\nexit 1\n")
			got := AfterEdit(t.Context(), ws, p, "a.py", late)
			if !got.Formatted || got.Diff != "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x  =  2\n" {
				t.Errorf("formatted %v:\n%s", got.Formatted, got.Diff)
			}
			if len(got.Diagnostics) != 1 || got.Diagnostics[0].File != "a.py" || got.Diagnostics[0].Message != "bad" {
				t.Errorf("diagnostics %+v", got.Diagnostics)
			}
			if want := "[lint: 1 findings in other files of the package]"; fmt.Sprint(got.Notes) != want {
				t.Errorf("notes %q, want %q", got.Notes, want)
			}
			asked, err := os.ReadFile(filepath.Join(dir, "asked"))
			if err != nil || string(asked) != "fmt a.py\nlint a.py\n" {
				t.Errorf("the tools were asked for %q, %v; want the edited file alone, formatted first", asked, err)
			}
			if got := AfterEdit(t.Context(), ws, p, "README.md", late); len(got.Notes)+len(got.Diagnostics) > 0 || got.Formatted {
				t.Errorf("a file that no tool is about: %+v", got)
			}
		})
	}
}

// TestAfterEditIsBounded: tools that hang are stopped, and it is told.
//
//croft:slow-race
func TestAfterEditIsBounded(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			ws, p, _ := tools(t, kind, "", "sleep 600\n")
			p.Projects[0].Format = profile.Command{} // which would take some of the time
			got := AfterEdit(t.Context(), ws, p, "a.py", &EditOptions{Bound: 400 * time.Millisecond})
			if len(got.Notes) != 1 || !tellsTime(got.Notes[0], "lint: ./lint: did not end within ") {
				t.Errorf("notes %q", got.Notes)
			}
			if list, err := ws.Sessions(t.Context()); err != nil || running(list) {
				t.Errorf("left running: %+v, %v", list, err)
			}
		})
	}
}

// tellsTime reports whether a note says what it should of a tool that was stopped, or,
// where the machine was so slow that the time was up before it ran, just that.
func tellsTime(note, want string) bool {
	what, _, _ := strings.Cut(want, ":")
	return strings.HasPrefix(note, want) ||
		strings.HasPrefix(note, what+": ") && (strings.Contains(note, "no time was left") || strings.Contains(note, "did not end in time"))
}

func running(list []workspace.SessionInfo) bool {
	for _, s := range list {
		if s.Running {
			return true
		}
	}
	return false
}

//croft:slow-race
func TestAfterEditSilencesNothing(t *testing.T) {
	ws, p, dir := tools(t, local.Kind, "echo broken >&2\nexit 3\n", "echo what >&2\nexit 2\n")
	got := AfterEdit(t.Context(), ws, p, "a.py", late)
	want := []string{"format: ./fmt: exit status 3: broken", "lint: ./lint: exit status 2: what"}
	if fmt.Sprint(got.Notes) != fmt.Sprint(want) {
		t.Errorf("notes %q, want %q", got.Notes, want)
	}
	for _, name := range []string{"fmt", "lint"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	want = []string{"format: ./fmt", "lint: ./lint"}
	if got := AfterEdit(t.Context(), ws, p, "a.py", late); fmt.Sprint(got.Missing) != fmt.Sprint(want) || len(got.Notes) > 0 {
		t.Errorf("missing %q, want %q; notes %q", got.Missing, want, got.Notes)
	}
	whole := p.Projects[0]
	whole.Lint.Argv, whole.Format = []string{"./lint"}, profile.Command{}
	got = AfterEdit(t.Context(), ws, profile.Profile{Projects: []profile.Project{whole}}, "a.py", late)
	if want := "[lint: ./lint works on the whole project only; it was not run]"; fmt.Sprint(got.Notes) != want {
		t.Errorf("notes %q, want %q", got.Notes, want)
	}
}

// TestNoFormatterRuinsAFile: whatever a formatter does to a file that is no
// formatting, the edit stays, and it is told.
func TestNoFormatterRuinsAFile(t *testing.T) {
	const back = "it left a.py incomplete, and the file was restored"
	soon := &EditOptions{Bound: 600 * time.Millisecond}
	for name, tt := range map[string]struct {
		formatter, want string
		opts            *EditOptions
	}{
		"stopped":  {": > a.py; sleep 600\n", "format: ./fmt: it was cut short: ", soon},
		"stubborn": {"trap '' TERM INT HUP; sleep 600; sleep 600\n", "format: ./fmt: it was cut short: ", soon},
		"emptied":  {"echo > a.py\n", "format: ./fmt: " + back, late},
		"removed":  {"rm a.py\n", "format: ./fmt: " + back, late},
		"failed":   {": > a.py; echo no >&2; exit 4\n", "format: ./fmt: exit status 4: no; " + back, late},
		"lingers":  {"sleep 600 & exit 0\n", "", late},
		"nonsense": {"head -c 3000000 /dev/urandom; exit 0\n", "", late},
	} {
		for _, kind := range kinds {
			t.Run(name+"/"+kind, func(t *testing.T) {
				ws, p, dir := tools(t, kind, tt.formatter, "exit 0\n")
				if err := os.Chmod(filepath.Join(dir, "a.py"), 0o755); err != nil {
					t.Fatal(err)
				}
				got := AfterEdit(t.Context(), ws, p, "a.py", tt.opts)
				first := strings.Join(got.Notes[:min(1, len(got.Notes))], "")
				told := strings.HasPrefix(first, tt.want) && (first == "") == (tt.want == "")
				if tt.opts == soon {
					told = tellsTime(first, tt.want)
				}
				if !told || got.Formatted {
					t.Errorf("notes %q, formatted %v; want %q", got.Notes, got.Formatted, tt.want)
				}
				data, err := os.ReadFile(filepath.Join(dir, "a.py"))
				if err != nil || string(data) != "x = 1\n" {
					t.Fatalf("the file is %q, %v", data, err)
				}
				if info, err := os.Stat(filepath.Join(dir, "a.py")); err != nil || info.Mode().Perm() != 0o755 {
					t.Errorf("its mode is %v, %v", info.Mode(), err)
				}
				if list, err := ws.Sessions(t.Context()); err != nil || running(list) {
					t.Errorf("left running: %+v, %v", list, err)
				}
			})
		}
	}
}

// server is a language server that knows one file.
type server struct {
	warm bool
	err  error
}

func (s server) Diagnose(_ context.Context, path string) ([]Diagnostic, bool, error) {
	return []Diagnostic{{File: path, Line: 1, Message: "of the server"}}, s.warm, s.err
}

//croft:slow-race
func TestAfterEditAsksAWarmServer(t *testing.T) {
	ws, p, _ := tools(t, local.Kind, "", "echo a.py:1:1: error: of the linter\nexit 1\n")
	for _, tt := range []struct {
		server server
		want   string
		notes  int
	}{
		{server{warm: true}, "of the server", 0},
		{server{}, "of the linter", 0},
		{server{warm: true, err: fault.Unavailable}, "of the linter", 1},
	} {
		got := AfterEdit(t.Context(), ws, p, "a.py", &EditOptions{Server: tt.server, Bound: late.Bound})
		if len(got.Diagnostics) != 1 || got.Diagnostics[0].Message != tt.want || len(got.Notes) != tt.notes {
			t.Errorf("%+v: %+v", tt.server, got)
		}
	}
}

func TestCheckOnly(t *testing.T) {
	ws, dir := open(t, local.Kind, map[string]string{"go.mod": "module m\n\ngo 1.24\n", "a.go": "package m\nfunc F() {}\n"})
	got := AfterEdit(t.Context(), ws, detect(t, ws), "a.go", &EditOptions{Check: true, Bound: late.Bound})
	if !got.Unformatted || got.Formatted || !strings.Contains(got.Diff, "+\n func F() {}") {
		t.Errorf("got %+v", got)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "a.go")); err != nil || string(b) != "package m\nfunc F() {}\n" {
		t.Errorf("the file is %q, %v", b, err)
	}
}

// TestRealLinters runs what a Node project has.
func TestRealLinters(t *testing.T) {
	eslint := testenv.NeedsProgram(t, "eslint")
	ws, dir := open(t, sandbox.Kind, map[string]string{
		"package.json":      `{"name":"m","devDependencies":{"eslint":"*"}}`,
		"eslint.config.mjs": "export default [{ rules: { 'no-undef': 'error' } }];\n",
		"a.js":              "foo();\n", "b.js": "bar();\n",
	})
	link(t, dir, eslint)
	got := AfterEdit(t.Context(), ws, detect(t, ws), "a.js", late)
	if len(got.Diagnostics) != 1 || got.Diagnostics[0] != (Diagnostic{File: "a.js", Line: 1, Column: 1, Severity: Error, Rule: "no-undef", Message: "'foo' is not defined."}) {
		t.Errorf("got %+v", got)
	}
	f, err := Lint(t.Context(), ws, project(t, ws), nil)
	if err != nil || len(f.Diagnostics) != 2 {
		t.Errorf("the whole project: %+v, %v", f, err)
	}
}

// TestCutShort: a run that is given up leaves nothing running, nothing in the
// tree and nothing among the throw-away files.
//
//croft:slow-race
func TestCutShort(t *testing.T) {
	testenv.NeedsProgram(t, "pytest")
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			ws, dir := open(t, kind, map[string]string{
				"pytest.ini": "[pytest]\n", "setup.py": "",
				"test_slow.py": "import time\n\n\ndef test_slow():\n    open('begun', 'w').close()\n    time.sleep(600)\n",
			})
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			defer wg.Wait()
			defer cancel()
			wg.Go(func() {
				for ctx.Err() == nil {
					if _, err := os.Stat(filepath.Join(dir, "begun")); err == nil {
						cancel()
					}
					time.Sleep(20 * time.Millisecond)
				}
			})
			r, err := Test(ctx, ws, project(t, ws), nil)
			if err != nil || r.Cause != driver.CauseCanceled || r.OK() || r.Failures[len(r.Failures)-1].Kind != KindCut {
				t.Fatalf("report %+v, %v", r, err)
			}
			if list, err := ws.Sessions(t.Context()); err != nil || running(list) {
				t.Errorf("left running: %+v, %v", list, err)
			}
			res, err := ws.Script(t.Context(), `ls -d "${TMPDIR:-/tmp}"/croft-verify-*`).Output()
			if err == nil {
				t.Errorf("left among the throw-away files: %s", res)
			}
		})
	}
}

// TestLongOutput: what a runner writes beyond the bound is dropped from the
// middle and counted, and the failure is found all the same.
func TestLongOutput(t *testing.T) {
	testenv.NeedsProgram(t, "python3")
	ws, _ := open(t, local.Kind, map[string]string{
		"setup.py":     "",
		"test_loud.py": "import sys, unittest\n\n\nclass Loud(unittest.TestCase):\n    def test_loud(self):\n        for i in range(200000):\n            print('noise', i)\n        self.fail('quiet')\n",
	})
	r, err := Test(t.Context(), ws, project(t, ws), &Options{MaxOutput: 4 << 10})
	if err != nil {
		t.Fatal(err)
	}
	if names(r.Failures) != "test test_loud.Loud/test_loud" || r.Dropped < 1<<20 || len(r.Stdout) > 5<<10 || !strings.Contains(r.Stdout, "bytes dropped") {
		t.Errorf("%s, %d dropped, %d kept", names(r.Failures), r.Dropped, len(r.Stdout))
	}
	if r.Session == "" {
		t.Fatal("there is no handle to the whole")
	}
	s, err := ws.Attach(t.Context(), r.Session)
	if err != nil {
		t.Fatal(err)
	}
	chunk, err := s.Log(t.Context(), driver.Stdout, 1<<20, 100)
	if err != nil || !strings.Contains(string(chunk.Data), "noise") {
		t.Errorf("the log at 1 MiB: %q, %v", chunk.Data, err)
	}
}

func TestNoProgram(t *testing.T) {
	ws, _ := open(t, local.Kind, map[string]string{"Cargo.toml": "[package]\nname = \"m\"\n"})
	p := project(t, ws)
	p.Test.Argv = []string{"no-such-cargo", "test"}
	_, err := Test(t.Context(), ws, p, nil)
	if !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "unsupported: no-such-cargo: not found on PATH") {
		t.Errorf("got %v", err)
	}
	p.Test.Argv = []string{"./pytest"} // one that is started by a script
	if _, err := Test(t.Context(), ws, p, nil); !errors.Is(err, fault.Unsupported) {
		t.Errorf("got %v", err)
	}
}

func TestPytestCoverage(t *testing.T) {
	testenv.NeedsProgram(t, "pytest")
	ws, _ := open(t, local.Kind, map[string]string{
		"pytest.ini": "[pytest]\n", "setup.py": "", "conftest.py": "",
		"calc.py":      "def add(a, b):\n    return a + b\n\n\ndef neg(a):\n    return -a\n",
		"test_calc.py": "from calc import add, neg\n\n\ndef test_add():\n    add(1, 2)\n\n\ndef test_neg():\n    neg(1)\n",
	})
	p := project(t, ws)
	c, err := Cover(t.Context(), ws, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.Tests("calc.py", 6)); got != "[{test_calc.py test_neg}]" {
		t.Errorf("line 6 is covered by %s", got)
	}
	refs, err := Importing(t.Context(), ws, profile.Profile{}, p, "calc.py")
	if err != nil || fmt.Sprint(refs) != "[{test_calc.py }]" {
		t.Errorf("by imports: %v, %v", refs, err)
	}
}
