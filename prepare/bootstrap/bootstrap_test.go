package bootstrap_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/prepare/bootstrap"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// apply applies a spec and returns what was done: "key action" of each step.
func (r *rig) apply(t *testing.T, spec bootstrap.Spec) []string {
	t.Helper()
	report, err := r.Apply(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return steps(report)
}

func steps(report bootstrap.Report) []string {
	list := []string{}
	for _, s := range report.Steps {
		list = append(list, s.Key+" "+string(s.Action))
	}
	return list
}

func wantSteps(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("done %q, want %q", got, want)
	}
}

func TestFilesConverge(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		spec := bootstrap.Spec{Files: []bootstrap.File{
			{Target: "work/a", Content: []byte("a"), Mode: 0o600}, {Target: "work/empty"}, {Key: "k", Target: "b", Content: []byte("b")},
		}}
		plan, err := r.Plan(t.Context(), spec)
		must(t, err)
		wantSteps(t, steps(plan), "file:work/a create", "file:work/empty create", "k create")
		wantSteps(t, r.apply(t, spec), "file:work/a create", "file:work/empty create", "k create")
		wantSteps(t, r.apply(t, spec), "file:work/a none", "file:work/empty none", "k none")
		// Drift: edited, removed, another mode.
		r.write(t, "work/a", "edited")
		must(t, r.ws.Remove(t.Context(), "work/empty", nil))
		must(t, r.ws.Chmod(t.Context(), "b", 0o755))
		wantSteps(t, r.apply(t, spec), "file:work/a repair", "file:work/empty repair", "k repair")
		r.want(t, "work/a", "a")
		r.want(t, "work/empty", "")
		if info, err := r.ws.Stat(t.Context(), "b", nil); err != nil || info.Mode != 0o644 {
			t.Errorf("mode %v, %v", info.Mode, err)
		}
		// A mode and a content that change.
		spec.Files[0].Mode, spec.Files[2].Content = 0o640, []byte("new")
		wantSteps(t, r.apply(t, spec), "file:work/a update", "file:work/empty none", "k update")
		if info, err := r.ws.Stat(t.Context(), "work/a", nil); err != nil || info.Mode != 0o640 {
			t.Errorf("mode %v, %v", info.Mode, err)
		}
		// A touch is no change.
		r.write(t, "b", "new")
		wantSteps(t, r.apply(t, spec), "file:work/a none", "file:work/empty none", "k none")
		// What is no longer wanted goes where that is asked for; what was changed stays.
		r.write(t, "work/a", "mine now")
		pruned, err := r.Apply(t.Context(), bootstrap.Spec{Files: spec.Files[1:2], Prune: true})
		must(t, err)
		wantSteps(t, steps(pruned), "file:work/empty none", "file:work/a forget", "k prune")
		if len(pruned.Warnings) != 1 {
			t.Errorf("warnings %q", pruned.Warnings)
		}
		r.want(t, "work/a", "mine now")
		if _, err := r.ws.Stat(t.Context(), "b", nil); fault.Of(err) != fault.NotFound {
			t.Errorf("b is still there: %v", err)
		}
	})
}

func TestInputsConverge(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		r.files(t, map[string]string{"data/a": "1"})
		_, err := r.store.Save(t.Context(), "m", strings.NewReader("v0"), "")
		must(t, err)
		spec := bootstrap.Spec{Files: []bootstrap.File{
			{Input: &stage.Input{From: "host://" + r.host + "/data"}}, // a directory, which trpc stages anew each time
			{Target: "work/m", Input: &stage.Input{From: "artifact://m"}},
			{Target: "work/p", Input: &stage.Input{From: "artifact://m", Pin: true}},
		}}
		wantSteps(t, r.apply(t, spec), "file:work/inputs/data create", "file:work/m create", "file:work/p create")
		wantSteps(t, r.apply(t, spec), "file:work/inputs/data none", "file:work/m none", "file:work/p none")
		r.files(t, map[string]string{"data/a": "22"})
		_, err = r.store.Save(t.Context(), "m", strings.NewReader("v1"), "")
		must(t, err)
		wantSteps(t, r.apply(t, spec), "file:work/inputs/data update", "file:work/m update", "file:work/p none")
		r.want(t, "work/inputs/data/a", "22")
		r.want(t, "work/m", "v1")
		r.want(t, "work/p", "v0")
		r.write(t, "work/inputs/data/a", "drift")
		wantSteps(t, r.apply(t, spec), "file:work/inputs/data repair", "file:work/m none", "file:work/p none")
		r.want(t, "work/inputs/data/a", "22")
	})
}

func TestSkillsConverge(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		r.files(t, map[string]string{"skills/pdf/SKILL.md": "---\nname: pdf\ndescription: Reads PDFs.\n---\n# How\n", "skills/pdf/docs/more.md": "more", "skills/none/x": "", "skills/pdf/run.py": "print()"})
		skills := &bootstrap.Skills{Roots: []string{filepath.Join(r.host, "missing"), filepath.Join(r.host, "skills")}}
		list, err := skills.List(t.Context())
		must(t, err)
		if len(list) != 1 || list[0].Name != "pdf" || list[0].Description != "Reads PDFs." {
			t.Fatalf("skills %+v", list)
		}
		if body, err := list[0].Body(); err != nil || body != "# How\n" {
			t.Errorf("body %q, %v", body, err)
		}
		if docs, err := list[0].Docs(); err != nil || !slices.Equal(docs, []string{"docs/more.md"}) {
			t.Errorf("docs %q, %v", docs, err)
		}
		if _, err := list[0].Doc("../../../etc/passwd"); fault.Of(err) != fault.SandboxViolation && fault.Of(err) != fault.InvalidArgument {
			t.Errorf("a document outside: %v", err)
		}
		if _, err := skills.Find(t.Context(), "nope"); fault.Of(err) != fault.NotFound || !strings.Contains(err.Error(), "pdf") {
			t.Errorf("Find = %v", err)
		}
		spec := bootstrap.Spec{Skills: []bootstrap.Skill{list[0].Skill()}}
		wantSteps(t, r.apply(t, spec), "skill:pdf create")
		wantSteps(t, r.apply(t, spec), "skill:pdf none")
		r.write(t, "skills/pdf/cache.pyc", "a working copy may be written to")
		wantSteps(t, r.apply(t, spec), "skill:pdf none")
		r.want(t, "skills/pdf/cache.pyc", "a working copy may be written to")
		r.files(t, map[string]string{"skills/pdf/run.py": "print(2)"})
		wantSteps(t, r.apply(t, spec), "skill:pdf update")
		r.want(t, "skills/pdf/run.py", "print(2)")
		must(t, r.ws.Remove(t.Context(), "skills/pdf/SKILL.md", nil))
		wantSteps(t, r.apply(t, spec), "skill:pdf repair")
		m, err := r.st.Metadata(t.Context())
		must(t, err)
		sum, err := stage.DirDigest(t.Context(), list[0].Dir)
		must(t, err)
		if got := m.Skills["pdf"]; got.RelPath != "skills/pdf" || got.Digest != sum || got.StagedAt.IsZero() {
			t.Errorf("recorded %+v, want the digest %s", got, sum)
		}
		spec.Skills[0].ReadOnly = true
		wantSteps(t, r.apply(t, spec), "skill:pdf update")
		if info, err := r.ws.Stat(t.Context(), "skills/pdf/run.py", nil); err != nil || info.Mode != 0o444 {
			t.Errorf("mode %v, %v", info.Mode, err)
		}
		wantSteps(t, r.apply(t, bootstrap.Spec{Prune: true}), "skill:pdf prune")
		if _, err := r.ws.Stat(t.Context(), "skills/pdf", nil); fault.Of(err) != fault.NotFound {
			t.Errorf("the skill is still there: %v", err)
		}
	})
}

// shells are the kinds that run commands.
var shells = testshell.Shells

func TestCommandsConverge(t *testing.T) {
	for _, kind := range shells {
		t.Run(kind, func(t *testing.T) { commandsConverge(t, open(t, kind, stage.Options{})) })
	}
}

func commandsConverge(t *testing.T, r *rig) {
	count := func() string {
		t.Helper()
		data, err := r.ws.ReadFile(t.Context(), "work/count")
		must(t, err)
		return string(data)
	}
	sh := func(script string) bootstrap.Command {
		return bootstrap.Command{Cmd: "sh", Args: []string{"-c", script}}
	}
	install := sh(`mkdir -p env; printf i >>work/count`)
	install.Key, install.MarkerPath, install.ObservedPaths = "install", "work/.done", []string{"env"}
	install.FingerprintInputs = []string{"work/reqs"}
	plain := sh(`printf p >>"$WORK_DIR/count"`)
	again := plain
	again.Env = map[string]string{"OTHER": "1"} // which trpc takes for the same
	spec := bootstrap.Spec{
		Files:    []bootstrap.File{{Target: "work/reqs", Content: []byte("1")}},
		Commands: []bootstrap.Command{install, plain, again},
	}
	if got := r.apply(t, spec); len(got) != 4 || got[1] != "install create" || count() != "ipp" {
		t.Fatalf("done %q, count %q", got, count())
	}
	r.apply(t, spec)
	if count() != "ipp" {
		t.Errorf("nothing was to be done, and %q", count())
	}
	must(t, r.ws.Remove(t.Context(), "work/.done", nil))
	r.apply(t, spec)
	must(t, r.ws.Remove(t.Context(), "env", nil)) // a directory
	r.apply(t, spec)
	if count() != "ippii" {
		t.Errorf("after its marker and its directory went: %q", count())
	}
	spec.Files[0].Content = []byte("2")
	r.apply(t, spec)
	spec.Commands[1].FingerprintSalt = "v2"
	r.apply(t, spec)
	if count() != "ippiiip" {
		t.Errorf("after its input and a salt changed: %q", count())
	}
	if data, err := r.ws.ReadFile(t.Context(), "work/.done"); err != nil || !strings.HasPrefix(string(data), "reconciled at ") {
		t.Errorf("the marker holds %q, %v", data, err)
	}
}

func TestCommandsThatFail(t *testing.T) {
	for _, kind := range shells {
		t.Run(kind, func(t *testing.T) {
			r := open(t, kind, stage.Options{})
			bad := bootstrap.Command{Key: "bad", Cmd: "sh", Args: []string{"-c", "echo x >>n; echo out; echo the reason >&2; exit 3"}}
			first := bootstrap.File{Target: "first", Content: []byte("1")}
			report, err := r.Apply(t.Context(), bootstrap.Spec{Files: []bootstrap.File{first}, Commands: []bootstrap.Command{bad}})
			if fault.Of(err) != fault.Failed || !strings.Contains(err.Error(), "exited 3") || !strings.Contains(err.Error(), "the reason") {
				t.Errorf("Apply = %v, want the output of the command", err)
			}
			if len(report.Steps) != 2 {
				t.Errorf("report %+v", report)
			}
			// What was done is remembered.
			plan, err := r.Plan(t.Context(), bootstrap.Spec{Files: []bootstrap.File{first}, Commands: []bootstrap.Command{bad}})
			must(t, err)
			wantSteps(t, steps(plan), "file:first none", "bad create")

			bad.Optional = true
			for i := range 3 {
				report, err := r.Apply(t.Context(), bootstrap.Spec{Commands: []bootstrap.Command{bad, {Key: "good", Cmd: "true"}}})
				if err != nil || len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "the reason") {
					t.Fatalf("round %d: %+v, %v", i, report, err)
				}
			}
			r.want(t, "n", "x\nx\n") // once required, once optional, and then not again
			bad.FingerprintSalt = "changed"
			r.apply(t, bootstrap.Spec{Commands: []bootstrap.Command{bad}})
			r.want(t, "n", "x\nx\nx\n")

			_, err = r.Apply(t.Context(), bootstrap.Spec{Commands: []bootstrap.Command{{Cmd: "no-such-program"}}})
			if code := fault.Of(err); code == "" || !strings.Contains(err.Error(), "no-such-program") {
				t.Errorf("a program that is missing: %v", err)
			}
			_, err = r.Apply(t.Context(), bootstrap.Spec{Commands: []bootstrap.Command{{Cmd: "sleep", Args: []string{"60"}, Timeout: 50 * time.Millisecond}}})
			if fault.Of(err) != fault.DeadlineExceeded {
				t.Errorf("a time-out: %v", err)
			}
		})
	}
}

func TestSpecsThatAreRefused(t *testing.T) {
	r := open(t, memory.Kind, stage.Options{})
	missing := filepath.Join(t.TempDir(), "missing")
	for name, spec := range map[string]bootstrap.Spec{
		"no target":     {Files: []bootstrap.File{{Content: []byte("x")}}},
		"outside":       {Files: []bootstrap.File{{Target: "../x"}}},
		"twice":         {Files: []bootstrap.File{{Target: "a"}, {Target: "./a"}}},
		"two sources":   {Files: []bootstrap.File{{Target: "a", Content: []byte("x"), Input: &stage.Input{From: "workspace://b"}}}},
		"no command":    {Commands: []bootstrap.Command{{}}},
		"same key":      {Commands: []bootstrap.Command{{Key: "a", Cmd: "x"}, {Key: "a", Cmd: "y"}}},
		"skill name":    {Skills: []bootstrap.Skill{{Name: "../x", Dir: "/tmp"}}},
		"skill missing": {Skills: []bootstrap.Skill{{Name: "x", Dir: missing}}},
		"template":      {Template: missing},
	} {
		if _, err := r.Apply(t.Context(), spec); fault.Of(err) == "" || fault.Of(err) == fault.Internal {
			t.Errorf("%s: %v, want a coded error", name, err)
		}
	}
}

// Nothing to do means no process, no read, no change.
func TestNoOpTouchesNothing(t *testing.T) {
	events := &recorder{}
	r := openWith(t, local.Kind, stage.Options{}, &workspace.Options{Events: events})
	files := map[string]string{"s/SKILL.md": "x"}
	for i := range 50 {
		files[fmt.Sprintf("s/f%d", i)] = "x"
	}
	r.files(t, files)
	spec := bootstrap.Spec{
		Files:    []bootstrap.File{{Target: "work/a", Content: []byte("a")}, {Input: &stage.Input{From: "host://" + r.host + "/s"}}},
		Skills:   []bootstrap.Skill{{Name: "s", Dir: filepath.Join(r.host, "s")}},
		Commands: []bootstrap.Command{{Cmd: "true", MarkerPath: "work/.m", FingerprintInputs: []string{"work/a"}}},
	}
	r.apply(t, spec)
	r.apply(t, spec)
	events.reset()
	r.apply(t, spec)
	for verb := range events.verbs() {
		if verb != "stat" && verb != "list" && verb != "glob" {
			t.Errorf("a reconcile with nothing to do called %s", verb)
		}
	}
}

// recorder keeps the verbs of operations.
type recorder struct {
	mu   sync.Mutex
	seen map[string]int
}

func (r *recorder) Emit(e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = map[string]int{}
	}
	if verb, ok := e.Fields[event.FieldVerb].(string); ok {
		r.seen[verb]++
	}
}

func (r *recorder) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = nil
}

func (r *recorder) verbs() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

// Two that prepare one workspace at once do each thing once.
func TestTwoAtOnce(t *testing.T) {
	state, err := stage.NewDirState(t.TempDir())
	must(t, err)
	r := open(t, local.Kind, stage.Options{State: state})
	other, err := stage.New(r.ws, &stage.Options{State: state})
	must(t, err)
	spec := bootstrap.Spec{
		Files:    []bootstrap.File{{Target: "work/a", Content: []byte("a")}},
		Commands: []bootstrap.Command{{Cmd: "sh", Args: []string{"-c", "printf x >>work/n; sleep 0.05"}}},
	}
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			rec := r.Reconciler
			if i%2 == 1 {
				rec = bootstrap.New(other, nil)
			}
			if _, err := rec.Apply(t.Context(), spec); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	r.want(t, "work/n", "x")
}

// What was done before a crash is not done again, and what was under way is.
func TestGoesOnAfterACrash(t *testing.T) {
	state, err := stage.NewDirState(t.TempDir())
	must(t, err)
	r := open(t, local.Kind, stage.Options{State: state})
	step := func(n string) bootstrap.Command {
		return bootstrap.Command{Cmd: "sh", Args: []string{"-c", "printf " + n + " >>n; [ ! -e block ] || sleep 1000"}, Key: n}
	}
	spec := bootstrap.Spec{Commands: []bootstrap.Command{step("1"), step("2"), step("3")}}
	// The second is cut short: its context ends while it runs, as with a process that dies.
	spec.Commands[0].Args[1] += "; touch block"
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := r.Apply(ctx, spec)
		done <- err
	}()
	for till := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		data, err := r.ws.ReadFile(t.Context(), "n")
		if err == nil && string(data) == "12" {
			break
		}
		if time.Now().After(till) {
			t.Fatalf("the second command never ran: there is %q, %v", data, err)
		}
	}
	cancel()
	if err := <-done; err == nil {
		t.Fatal("what was cut short succeeded")
	}
	must(t, r.ws.Remove(t.Context(), "block", nil))
	wantSteps(t, r.apply(t, spec), "1 none", "2 create", "3 create")
	r.want(t, "n", "1223")
}

func TestTemplateOfASpec(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		r.files(t, map[string]string{"t/a": "a", "t/.git/HEAD": "h"})
		spec := bootstrap.Spec{Template: filepath.Join(r.host, "t"), Files: []bootstrap.File{{Target: "a2"}}}
		wantSteps(t, r.apply(t, spec), "template create", "file:a2 create")
		r.write(t, "a", "worked on")
		wantSteps(t, r.apply(t, spec), "template none", "file:a2 none")
		r.want(t, "a", "worked on")
		r.want(t, ".git/HEAD", "h")
		must(t, os.Symlink("/etc/passwd", filepath.Join(r.host, "t/leak")))
		must(t, syscall.Mkfifo(filepath.Join(r.host, "t/fifo"), 0o600))
		report, err := r.Apply(t.Context(), spec)
		must(t, err)
		if got := strings.Join(report.Warnings, "\n"); len(report.Warnings) != 3 || !strings.Contains(got, `template: "leak" stays out`) ||
			!strings.Contains(got, `template: "fifo" stays out`) || !strings.Contains(got, "template: a was changed since, and stays") {
			t.Errorf("the warnings are %q", report.Warnings)
		}
		r.want(t, "a", "worked on")
	})
}

// bomb is a few lines that mean a hundred million.
const bomb = `a: &a [x,x,x,x,x,x,x,x,x,x]
b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]
c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]
d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]
e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]
f: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]
g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f,*f]
files: [*g,*g,*g,*g,*g,*g,*g,*g,*g,*g]
`

func TestParseSpec(t *testing.T) {
	const text = `
version: 1
template: ./base
files:
  - {target: work/a, content: "hello\n", mode: "0755"}
inputs:
  - {from: "artifact://model@3", to: work/model, pin: true}
skills:
  - {name: pdf}
  - {dir: ./my-skill, readOnly: true, optional: true}
commands:
  - {run: [pip, install, -r, reqs.txt], inputs: [reqs.txt], observed: [.venv], timeout: 10m}
  - {key: s, script: "make && make test", env: {A: b}, cwd: work, marker: .done, salt: v1, optional: true}
prune: true
`
	find := func(name string) (bootstrap.SkillInfo, error) {
		return bootstrap.SkillInfo{Name: name, Dir: "/skills/" + name}, nil
	}
	got, err := bootstrap.ParseSpec([]byte(text), "/base", find)
	must(t, err)
	want := bootstrap.Spec{
		Template: "/base/base",
		Files: []bootstrap.File{
			{Target: "work/a", Content: []byte("hello\n"), Mode: 0o755},
			{Input: &stage.Input{From: "artifact://model@3", To: "work/model", Pin: true}},
		},
		Skills: []bootstrap.Skill{{Name: "pdf", Dir: "/skills/pdf"}, {Name: "my-skill", Dir: "/base/my-skill", ReadOnly: true, Optional: true}},
		Commands: []bootstrap.Command{
			{Cmd: "pip", Args: []string{"install", "-r", "reqs.txt"}, FingerprintInputs: []string{"reqs.txt"}, ObservedPaths: []string{".venv"}, Timeout: 10 * time.Minute},
			{Key: "s", Cmd: "bash", Args: []string{"-c", "make && make test"}, Env: map[string]string{"A": "b"}, Cwd: "work", MarkerPath: ".done", FingerprintSalt: "v1", Optional: true},
		},
		Prune: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, bad := range []string{
		"", "[]", "unknown: 1", "version: 2", "files: [{target: a, mode: 9}]", "files: [{target: a, mode: \"7777\"}]", "commands: [{}]",
		"commands: [{run: [a], script: b}]", "commands: [{run: [a], timeout: soon}]", "files: {", "template: a\ntemplate: b", "skills: [{name: x}]",
		"files: &a [{target: b}]", "files: !x []", bomb, "files: " + strings.Repeat("[", 900_000),
	} {
		if _, err := bootstrap.ParseSpec([]byte(bad), "/", nil); fault.Of(err) != fault.InvalidArgument && fault.Of(err) != fault.NotFound {
			t.Errorf("%q: %v, want InvalidArgument", bad, err)
		}
	}
}

func FuzzParseSpec(f *testing.F) {
	f.Add(bomb)
	f.Add("version: 1\nfiles: [{target: a}]")
	f.Add("commands: [{run: [a]}]\ninputs: [{from: x}]")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := bootstrap.ParseSpec([]byte(text), "/", nil); err != nil && fault.Of(err) == fault.Internal {
			t.Fatal(err)
		}
	})
}

func TestHooks(t *testing.T) {
	for _, kind := range shells {
		t.Run(kind, func(t *testing.T) {
			r := open(t, kind, stage.Options{})
			r.write(t, "src", "x")
			good := bootstrap.NewHook(bootstrap.Spec{
				Files:    []bootstrap.File{{Input: &stage.Input{From: "workspace://src", To: "work/in"}}},
				Commands: []bootstrap.Command{{Cmd: "sh", Args: []string{"-c", `cat work/in - >"$OUTPUT_DIR/o"`}, Stdin: "stdin"}},
			})
			must(t, bootstrap.RunHooks(t.Context(), r.st, nil, good))
			r.want(t, "out/o", "xstdin")
			cleaned := 0
			bad := bootstrap.NewHook(bootstrap.Spec{Commands: []bootstrap.Command{{Cmd: "true"}, {Key: "deps", Cmd: "sh", Args: []string{"-c", "echo why >&2; exit 7"}}}})
			err := bootstrap.RunHooks(t.Context(), r.st, func(context.Context) error { cleaned++; return nil }, good, bad, good)
			if err == nil || cleaned != 1 || !strings.Contains(err.Error(), "workspace init hook 1: bootstrap: deps") || !strings.Contains(err.Error(), "exited 7") || !strings.Contains(err.Error(), "why") {
				t.Errorf("RunHooks = %v, cleaned up %d times", err, cleaned)
			}
			if err := bootstrap.RunHooks(t.Context(), r.st, nil, nil); fault.Of(err) != fault.InvalidArgument {
				t.Errorf("a nil hook: %v", err)
			}
		})
	}
}

// A working copy of a skill that was changed stays when its entry is removed.
func TestPruneKeepsASkillThatWasWorkedOn(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		r.files(t, map[string]string{"skills/a/SKILL.md": "# A\n", "skills/b/SKILL.md": "# B\n"})
		var spec bootstrap.Spec
		for _, name := range []string{"a", "b"} {
			spec.Skills = append(spec.Skills, bootstrap.Skill{Name: name, Dir: filepath.Join(r.host, "skills", name)})
		}
		r.apply(t, spec)
		r.write(t, "skills/b/notes", "mine")
		report, err := r.Apply(t.Context(), bootstrap.Spec{Prune: true})
		must(t, err)
		wantSteps(t, steps(report), "skill:a prune", "skill:b forget")
		if len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "skills/b") {
			t.Errorf("warnings %q", report.Warnings)
		}
		r.want(t, "skills/b/notes", "mine")
		if _, err := r.ws.Stat(t.Context(), "skills/a", nil); fault.Of(err) != fault.NotFound {
			t.Errorf("the other is still there: %v", err)
		}
	})
}
