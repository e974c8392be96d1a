package stage_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func TestLayoutAndEnvironment(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		dirs, err := r.EnsureLayout(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := r.names(t), []string{"out", "runs", "skills", "work"}; !slices.Equal(got, want) {
			t.Errorf("the layout is %v, want %v", got, want)
		}
		run, err := r.NewRun(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		env := r.Env(run)
		if env["OUTPUT_DIR"] != dirs["out"] || env["WORK_DIR"] != dirs["work"] || env["SKILLS_DIR"] != dirs["skills"] {
			t.Errorf("Env = %v, and the directories are %v", env, dirs)
		}
		if r.kind == memory.Kind {
			return // has no shell
		}
		res, err := r.Run(t.Context(), driver.Command{Script: `cd "$WORKSPACE_DIR" && echo x >"$RUN_DIR/a" && ls -d "$OUTPUT_DIR" "$SKILLS_DIR" && echo "$WORK_DIR"`, Env: map[string]string{"WORK_DIR": "mine"}})
		if err != nil {
			t.Fatal(err)
		}
		if want := dirs["out"] + "\n" + dirs["skills"] + "\nmine\n"; res.ExitCode != 0 || string(res.Stdout) != want {
			t.Errorf("the program said %q %q, want %q", res.Stdout, res.Stderr, want)
		}
	})
}

// TestRunsOfAProgramThatRemovesThem: the next run has a directory again; and where
// none can be made for it, nothing runs.
func TestRunsOfAProgramThatRemovesThem(t *testing.T) {
	r := open(t, local.Kind, stage.Options{})
	for _, script := range []string{`rm -r "$WORKSPACE_DIR/runs"`, `echo x >"$RUN_DIR/a" && rm -r "$WORKSPACE_DIR/runs" && echo >"$WORKSPACE_DIR/runs"`} {
		if res, err := r.Run(t.Context(), driver.Command{Script: script}); err != nil || res.ExitCode != 0 {
			t.Fatalf("%s: %d %s, %v", script, res.ExitCode, res.Stderr, err)
		}
	}
	if res, err := r.Run(t.Context(), driver.Command{Argv: []string{"touch", "ran"}}); err == nil || !strings.Contains(err.Error(), "create the run directory") {
		t.Errorf("got %+v, %v, want an error that says what could not be made", res, err)
	}
	if got, want := r.names(t), []string{"out", "runs", "skills", "work"}; !slices.Equal(got, want) {
		t.Errorf("there is %v, want %v", got, want)
	}
}

func TestNewOfWhatIsNotThere(t *testing.T) {
	if st, err := stage.New(nil, nil); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("New = %v, %v, want InvalidArgument", st, err)
	}
}

// Several stages may be made of the same options.
func TestNewLeavesTheOptions(t *testing.T) {
	roots := []string{"/data/", "/other/../in"}
	r := open(t, memory.Kind, stage.Options{})
	if _, err := stage.New(r.Workspace(), &stage.Options{HostRoots: roots}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"/data/", "/other/../in"}; !slices.Equal(roots, want) {
		t.Errorf("the caller's roots are %q, want %q", roots, want)
	}
}

// Two runs of the same moment share a directory in trpc-agent-go.
func TestRunsNeverMeet(t *testing.T) {
	now := time.Now()
	r := open(t, memory.Kind, stage.Options{Now: func() time.Time { return now }})
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			name, err := r.NewRun(t.Context())
			mu.Lock()
			defer mu.Unlock()
			if err != nil || seen[name] {
				t.Errorf("NewRun = %q, %v; it must be another one each time", name, err)
			}
			seen[name] = true
		})
	}
	wg.Wait()
}

func TestPutFiles(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		r.write(t, "work/run.sh", "old")
		old := syscall.Umask(0o077) // which must not count
		err := r.PutFiles(t.Context(), []stage.File{
			{Path: "work/run.sh", Content: []byte("new"), Mode: 0o755},
			{Path: "work/deep/er/a", Content: []byte("a")},
			{Path: "secret", Content: nil, Mode: 0o600},
		})
		syscall.Umask(old)
		if err != nil {
			t.Fatal(err)
		}
		for name, mode := range map[string]fs.FileMode{"work/run.sh": 0o755, "work/deep/er/a": 0o644, "secret": 0o600} {
			info, err := r.ws.Stat(t.Context(), name, nil)
			if err != nil || info.Mode != mode {
				t.Errorf("%s has mode %v, %v; want %v", name, info.Mode, err, mode)
			}
		}
		r.want(t, "work/run.sh", "new")
		// A mode is honoured on a file that exists, too.
		if err := r.PutFiles(t.Context(), []stage.File{{Path: "work/run.sh", Content: []byte("x"), Mode: 0o600}}); err != nil {
			t.Fatal(err)
		}
		if info, err := r.ws.Stat(t.Context(), "work/run.sh", nil); err != nil || info.Mode != 0o600 {
			t.Errorf("mode %v, %v; want 0600", info.Mode, err)
		}
	})
}

func TestPutFilesIsAllOrNothing(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		r.write(t, "keep", "as it was")
		r.write(t, "file", "x")
		before := r.names(t)
		err := r.PutFiles(t.Context(), []stage.File{
			{Path: "keep", Content: []byte("changed")},
			{Path: "new/dir/a", Content: []byte("a")},
			{Path: "file/below", Content: []byte("a file is no directory")},
		})
		if code := fault.Of(err); code != fault.InvalidArgument && code != fault.AlreadyExists {
			t.Fatalf("PutFiles = %v, want a coded error", err)
		}
		r.want(t, "keep", "as it was")
		if diff := cmp.Diff(before, without(r.names(t), stage.MetaFile)); diff != "" {
			t.Errorf("something stayed (-before +after):\n%s", diff)
		}
	})
}

func without(list []string, name string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return s == name })
}

func TestTargetsStayInside(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		victim := filepath.Join(r.host, "victim")
		if err := os.Mkdir(victim, 0o755); err != nil {
			t.Fatal(err)
		}
		r.files(t, map[string]string{"victim/file": "precious", "src/a": "a"})
		for _, to := range []string{"../../host/victim", "../victim", victim, "a/../../victim", "", "."} {
			calls := map[string]func() error{
				"PutFiles": func() error { return r.PutFiles(t.Context(), []stage.File{{Path: to, Content: []byte("x")}}) },
				"StageDirectory": func() error {
					_, err := r.StageDirectory(t.Context(), filepath.Join(r.host, "src"), to, nil)
					return err
				},
				"StageInputs": func() error {
					if to == "" {
						return fault.InvalidArgument // which is the default
					}
					_, err := r.StageInputs(t.Context(), []stage.Input{{From: "host://" + r.host + "/src", To: to, Mode: stage.ModeLink}})
					return err
				},
				"StageInputs from": func() error {
					_, err := r.StageInputs(t.Context(), []stage.Input{{From: "workspace://" + to}})
					return err
				},
			}
			for name, call := range calls {
				if code := fault.Of(call()); code != fault.SandboxViolation && code != fault.InvalidArgument {
					t.Errorf("%s to %q: %v, want it refused", name, to, code)
				}
			}
		}
		if data, err := os.ReadFile(filepath.Join(victim, "file")); err != nil || string(data) != "precious" {
			t.Errorf("the victim holds %q, %v", data, err)
		}
	})
}

// A symlink that a program planted must not lead a write out.
func TestPlantedSymlinks(t *testing.T) {
	for _, kind := range kinds[1:] {
		t.Run(kind, func(t *testing.T) {
			r := open(t, kind, stage.Options{})
			r.files(t, map[string]string{"victim": "precious", "dir/file": "precious"})
			r.write(t, "where", r.host) // so that no rule for commands sees it
			const script = `mkdir -p work out; h=$(cat where); ln -s "$h/victim" work/file; ln -s "$h/dir" work/dir; ln -s "$h/victim" metadata.json`
			if out, err := r.ws.Script(t.Context(), script).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if err := r.PutFiles(t.Context(), []stage.File{{Path: "work/file", Content: []byte("x")}}); err != nil {
				t.Errorf("PutFiles over a symlink: %v", err) // the link is replaced
			}
			err := r.PutFiles(t.Context(), []stage.File{{Path: "work/dir/file", Content: []byte("x")}, {Path: "a"}})
			if fault.Of(err) != fault.SandboxViolation {
				t.Errorf("PutFiles behind a symlink: %v, want SandboxViolation", err)
			}
			if _, err := r.CollectOutputs(t.Context(), stage.OutputSpec{}); err != nil { // writes metadata.json
				t.Error(err)
			}
			for _, name := range []string{"victim", "dir/file"} {
				if data, err := os.ReadFile(filepath.Join(r.host, name)); err != nil || string(data) != "precious" {
					t.Errorf("%s holds %q, %v", name, data, err)
				}
			}
			r.want(t, "work/file", "x")
		})
	}
}

func TestStageDirectory(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		src := filepath.Join(r.host, "src")
		r.files(t, map[string]string{"src/a": "a", "src/sub/b": "b", "src/.hidden/.git/c": "c", "src/run.sh": "#!/bin/sh\n"})
		must(t, os.Chmod(filepath.Join(src, "run.sh"), 0o755))
		must(t, os.Mkdir(filepath.Join(src, "empty"), 0o700))
		must(t, os.Symlink("../a", filepath.Join(src, "sub/link")))
		must(t, os.Symlink("sub", filepath.Join(src, "dirlink")))
		must(t, os.Symlink("nowhere", filepath.Join(src, "dangling")))
		must(t, os.Symlink("/etc/passwd", filepath.Join(src, "leaves")))
		must(t, os.Symlink("../../../../etc/passwd", filepath.Join(src, "climbs")))
		must(t, syscall.Mkfifo(filepath.Join(src, "fifo"), 0o644))
		odd := "new\nline\xff"
		must(t, os.WriteFile(filepath.Join(src, odd), []byte("odd"), 0o600))
		r.write(t, "work/dst/stale", "stale")

		res, err := r.StageDirectory(t.Context(), src, "work/dst", nil)
		if err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, s := range res.Skipped {
			left = append(left, s.Path)
		}
		slices.Sort(left)
		if want := []string{"climbs", "fifo", "leaves"}; !slices.Equal(left, want) {
			t.Errorf("left out %v, want %v", left, want)
		}
		if res.Files != 5 || res.Symlinks != 3 || res.Method == "" {
			t.Errorf("result %+v", res)
		}
		for name, text := range map[string]string{"a": "a", "sub/b": "b", ".hidden/.git/c": "c", "sub/link": "a", "dirlink/b": "b", odd: "odd"} {
			r.want(t, "work/dst/"+name, text)
		}
		if _, err := r.ws.Stat(t.Context(), "work/dst/stale", nil); fault.Of(err) != fault.NotFound {
			t.Errorf("what was there before is still there: %v", err)
		}
		for name, mode := range map[string]fs.FileMode{"run.sh": 0o755, odd: 0o600, "empty": 0o700} {
			if info, err := r.ws.Stat(t.Context(), "work/dst/"+name, nil); err != nil || info.Mode != mode {
				t.Errorf("%q has mode %v, %v; want %v", name, info.Mode, err, mode)
			}
		}
		if slices.ContainsFunc(r.names(t), func(n string) bool { return strings.Contains(n, ".croft-") }) {
			t.Errorf("something stayed aside: %v", r.names(t))
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A read-only tree can be staged again and cleaned up, and a program of another
// user can't write to it.
func TestReadOnlyDirectory(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		src := filepath.Join(r.files(t, map[string]string{"src/sub/a": "1"}), "src")
		method := driver.ImportCopy
		for range 2 {
			res, err := r.StageDirectory(t.Context(), src, "skills/s", &stage.DirectoryOptions{ReadOnly: true, AllowMount: true})
			if err != nil {
				t.Fatal(err)
			}
			method = res.Method
		}
		if method == driver.ImportMount { // which has the modes of the source
			if out, err := r.ws.Script(t.Context(), "chmod u+w skills/s/sub/a; echo x >skills/s/sub/a").CombinedOutput(); err == nil {
				t.Errorf("a program wrote: %s", out)
			}
			r.want(t, "skills/s/sub/a", "1")
			return
		}
		for name, mode := range map[string]fs.FileMode{"skills/s": 0o555, "skills/s/sub": 0o555, "skills/s/sub/a": 0o444} {
			if info, err := r.ws.Stat(t.Context(), name, nil); err != nil || info.Mode != mode {
				t.Errorf("%s has mode %v, %v; want %v", name, info.Mode, err, mode)
			}
		}
	})
}

// Where a mount is allowed and the provider can, nothing is copied: it is said, a
// program's changes stay in the workspace, and it is staged again over itself.
func TestStageByMount(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		src := filepath.Join(r.files(t, map[string]string{"src/a": "1", "src/b": "2"}), "src")
		want := driver.ImportCopy
		if r.kind == sandbox.Kind && os.Getuid() == 0 && r.ws.Traits().Isolation == driver.IsolationNamespaces {
			want = driver.ImportMount
		}
		for range 2 {
			res, err := r.StageDirectory(t.Context(), src, "work/lib", &stage.DirectoryOptions{AllowMount: true})
			if err != nil || res.Method != want || res.Files != 2 {
				t.Fatalf("StageDirectory = %+v, %v; want %s", res, err, want)
			}
			r.want(t, "work/lib/a", "1")
			r.write(t, "work/lib/a", "changed")
			must(t, r.ws.Remove(t.Context(), "work/lib/b", nil))
			r.want(t, "work/lib/a", "changed")
		}
		if err := r.PutFiles(t.Context(), []stage.File{{Path: "work/lib/a", Content: []byte("x")}, {Path: "work/lib/new/c", Content: []byte("y")}}); err != nil {
			t.Error(err)
		}
		man, err := r.CollectOutputs(t.Context(), stage.OutputSpec{Globs: []string{"work/lib/**"}, Inline: true})
		if err != nil || len(man.Files) != 2 || man.Files[0].Content != "x" {
			t.Errorf("collected %+v, %v", man, err)
		}
		must(t, r.Remove(t.Context(), "work/lib"))
		if got := without(r.names(t), stage.MetaFile); !slices.Equal(got, []string{"work"}) {
			t.Errorf("there is %v", got)
		}
		for name, text := range map[string]string{"a": "1", "b": "2"} {
			if data, err := os.ReadFile(filepath.Join(src, name)); err != nil || string(data) != text {
				t.Errorf("the source holds %q, %v at %s", data, err, name)
			}
		}
	})
}

// A directory above the workspace may be called anything.
func TestRootWithPatternCharacters(t *testing.T) {
	p, err := local.New(&local.Config{Root: filepath.Join(t.TempDir(), "a[b]{c,d}*?")})
	must(t, err)
	ws, err := workspace.NewMux(p).Open(t.Context(), workspace.Spec{Kind: local.Kind, ID: workspace.NewID()}, nil)
	must(t, err)
	defer ws.Destroy(context.WithoutCancel(t.Context()))
	st, err := stage.New(ws, nil)
	must(t, err)
	must(t, st.PutFiles(t.Context(), []stage.File{{Path: "out/x[1].txt", Content: []byte("x")}}))
	man, err := st.CollectOutputs(t.Context(), stage.OutputSpec{Globs: []string{"out/*.{txt,md}"}})
	if err != nil || len(man.Files) != 1 {
		t.Errorf("%+v, %v", man, err)
	}
}

// A template that is itself a symlink is what it points to.
func TestDirectoryBehindASymlink(t *testing.T) {
	r := open(t, "local", stage.Options{})
	r.files(t, map[string]string{"real/a": "1"})
	must(t, os.Symlink("real", filepath.Join(r.host, "link")))
	if _, err := r.StageDirectory(t.Context(), filepath.Join(r.host, "link"), "w", nil); err != nil {
		t.Fatal(err)
	}
	r.write(t, "w/a", "changed inside")
	if data, err := os.ReadFile(filepath.Join(r.host, "real/a")); err != nil || string(data) != "1" {
		t.Errorf("the source holds %q, %v", data, err)
	}
}

// 5 GiB are neither read into memory nor copied where they are too many, and a
// sparse file stays one.
func TestHugeFiles(t *testing.T) {
	const huge = 5 << 30
	r := open(t, "local", stage.Options{})
	src := filepath.Join(r.files(t, map[string]string{"src/a": "a"}), "src")
	f, err := os.Create(filepath.Join(src, "huge"))
	must(t, err)
	must(t, f.Truncate(huge))
	must(t, f.Close())
	_, err = r.StageDirectory(t.Context(), src, "out/x", &stage.DirectoryOptions{MaxBytes: 1 << 30})
	if fault.Of(err) != fault.ResourceExhausted {
		t.Errorf("StageDirectory = %v, want ResourceExhausted", err)
	}
	if _, err := r.ws.Stat(t.Context(), "out/x", nil); fault.Of(err) != fault.NotFound {
		t.Errorf("something stayed: %v", err)
	}
	if _, err := r.StageDirectory(t.Context(), src, "out/x", nil); err != nil {
		t.Fatal(err)
	}
	man, err := r.CollectOutputs(t.Context(), stage.OutputSpec{Inline: true, MaxFileBytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	want := []stage.FileRef{
		{Name: "out/x/a", MIMEType: "text/plain; charset=utf-8", Content: "a", SizeBytes: 1},
		{Name: "out/x/huge", MIMEType: "application/octet-stream", Content: strings.Repeat("\x00", 1000), SizeBytes: huge, Truncated: true},
	}
	if diff := cmp.Diff(want, man.Files); diff != "" || !man.LimitsHit {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
}

func TestDirectoryThatIsCutShort(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		src := filepath.Join(r.files(t, map[string]string{"src/a": "new", "src/b": "new"}), "src")
		r.write(t, "work/d/a", "old")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.StageDirectory(ctx, src, "work/d", nil); fault.Of(err) != fault.Canceled {
			t.Errorf("StageDirectory = %v, want Canceled", err)
		}
		if _, err := r.StageDirectory(t.Context(), src, "work/d", &stage.DirectoryOptions{MaxFiles: 1}); fault.Of(err) != fault.ResourceExhausted {
			t.Errorf("StageDirectory = %v, want ResourceExhausted", err)
		}
		r.want(t, "work/d/a", "old")
		if got := without(r.names(t), stage.MetaFile); !slices.Equal(got, []string{"work", "work/d", "work/d/a"}) {
			t.Errorf("there is %v", got)
		}
	})
}

func (r *rig) fill(t *testing.T, src string, opts *stage.DirectoryOptions) error {
	t.Helper()
	h, err := r.Begin(t.Context())
	must(t, err)
	defer h.End()
	_, err = h.FillWorkspace(t.Context(), src, opts)
	return err
}

func TestFillWorkspace(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		src := filepath.Join(r.files(t, map[string]string{"t/a": "a", "t/.git/config": "c", "t/out/keep": "k", "t/results/x": "x"}), "t")
		r.write(t, "a", "old")
		must(t, r.fill(t, src, &stage.DirectoryOptions{Exclude: []string{"results"}}))
		want := []string{".git", ".git/config", "a", "out", "out/keep"}
		if got := without(r.names(t), stage.MetaFile); !slices.Equal(got, want) {
			t.Errorf("there is %v, want %v", got, want)
		}
		r.want(t, "a", "a")
	})
}

// A transaction that could not be cleaned up is by the next one of the session.
func TestLeftoverOfTheSameSession(t *testing.T) {
	r := open(t, memory.Kind, stage.Options{})
	r.write(t, "left", "of an earlier one")
	r.write(t, "dir/old", "1")
	h, err := r.Begin(t.Context())
	must(t, err)
	defer h.End()
	h.Pending = []stage.TempPath{{Path: "left", Target: "x", Old: true, Done: true}}
	must(t, h.PutFile(t.Context(), stage.File{Path: "dir", Content: []byte("2")}))
	if diff := cmp.Diff([]string{"dir", "metadata.json"}, r.names(t)); diff != "" || len(h.Pending) > 0 {
		t.Errorf("%v is pending; (-want +got):\n%s", h.Pending, diff)
	}
}

func TestMetadataCannotBeForged(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		if _, err := r.store.Save(t.Context(), "model", strings.NewReader("zero"), ""); err != nil {
			t.Fatal(err)
		}
		in := []stage.Input{{From: "artifact://model", To: "work/model", Pin: true}}
		if _, err := r.StageInputs(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		data, err := r.ws.ReadFile(t.Context(), stage.MetaFile)
		if err != nil {
			t.Fatal(err)
		}
		var shown stage.Metadata
		if err := json.Unmarshal(data, &shown); err != nil || len(shown.Inputs) != 1 || shown.Version != 1 {
			t.Fatalf("the copy inside is %s, %v", data, err)
		}
		for _, forged := range []string{`{"version":1,"inputs":[{"from":"artifact://model","to":"work/model","version":7}]}`, "no JSON", ""} {
			r.write(t, stage.MetaFile, forged)
			recs, err := r.StageInputs(t.Context(), in)
			if err != nil || *recs[0].Version != 0 {
				t.Errorf("with %q inside: %+v, %v", forged, recs, err)
			}
		}
		must(t, r.ws.Remove(t.Context(), stage.MetaFile, nil))
		must(t, r.ws.Mkdir(t.Context(), stage.MetaFile, nil)) // in the way of the copy
		if _, err := r.StageInputs(t.Context(), in); err != nil {
			t.Error(err)
		}
	})
}

func TestHistoryIsBounded(t *testing.T) {
	r := open(t, memory.Kind, stage.Options{History: 3})
	r.write(t, "src", "x")
	for range 10 {
		if _, err := r.StageInputs(t.Context(), []stage.Input{{From: "workspace://src"}}); err != nil {
			t.Fatal(err)
		}
	}
	m, err := r.Metadata(t.Context())
	if err != nil || len(m.Inputs) != 3 {
		t.Errorf("%d inputs are remembered, %v; want 3", len(m.Inputs), err)
	}
}

func TestDirState(t *testing.T) {
	dir := t.TempDir()
	one, err := stage.NewDirState(dir)
	must(t, err)
	two, err := stage.NewDirState(dir)
	must(t, err)
	id := driver.NewID()
	if m, err := one.Load(t.Context(), id); m != nil || err != nil {
		t.Errorf("Load of nothing = %v, %v", m, err)
	}
	unlock, err := one.Lock(t.Context(), id)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := two.Lock(ctx, id); fault.Of(err) != fault.DeadlineExceeded {
		t.Errorf("a second lock: %v, want DeadlineExceeded", err)
	}
	must(t, one.Save(t.Context(), id, &stage.Metadata{Version: 1, Skills: map[string]stage.SkillMeta{"a": {Name: "a"}}}))
	unlock()
	unlock, err = two.Lock(t.Context(), id)
	must(t, err)
	unlock()
	if m, err := two.Load(t.Context(), id); err != nil || m.Skills["a"].Name != "a" {
		t.Errorf("Load = %+v, %v", m, err)
	}
	file := filepath.Join(dir, id+".json")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	for _, bad := range []string{"", "{", `{"version":2}`, `{"version":1,"unknown":2}`} {
		must(t, os.WriteFile(file, []byte(bad), 0o600))
		if _, err := two.Load(t.Context(), id); fault.Of(err) != fault.Failed {
			t.Errorf("Load of %q = %v, want Failed: damage is not nothing", bad, err)
		}
	}
	if _, err := two.Load(t.Context(), "../../etc/passwd"); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("Load of a path: %v", err)
	}
	must(t, two.Sweep(t.Context(), nil))
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("Sweep left %v, %v", left, err)
	}
}

// A state that can't remember undoes what was staged.
func TestNothingIsHalfRecorded(t *testing.T) {
	state := &failingState{MemoryState: stage.NewMemoryState()}
	r := open(t, memory.Kind, stage.Options{State: state})
	r.write(t, "src", "new")
	r.write(t, "dst", "old")
	state.left = 1 // of two saves
	_, err := r.StageInputs(t.Context(), []stage.Input{{From: "workspace://src", To: "dst"}, {From: "workspace://src", To: "fresh/a"}})
	if fault.Of(err) != fault.Unavailable {
		t.Fatalf("StageInputs = %v, want Unavailable", err)
	}
	r.want(t, "dst", "old")
	if got := without(r.names(t), stage.MetaFile); !slices.Equal(got, []string{"dst", "out", "runs", "skills", "src", "work"}) {
		t.Errorf("there is %v", got)
	}
	state.left = 100
	m, err := r.Metadata(t.Context())
	if err != nil || len(m.Inputs) != 0 {
		t.Errorf("recorded %v, %v", m.Inputs, err)
	}
}

type failingState struct {
	*stage.MemoryState
	left int
}

func (s *failingState) Save(ctx context.Context, id string, m *stage.Metadata) error {
	if s.left--; s.left < 0 {
		return errors.Join(fault.Unavailable, errors.New("the disk is gone"))
	}
	return s.MemoryState.Save(ctx, id, m)
}

func TestDigests(t *testing.T) {
	ctx := t.Context()
	sum := func(make func(dir string)) string {
		dir := t.TempDir()
		make(dir)
		s, err := stage.DirDigest(ctx, dir)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	file := func(name, text string, mode os.FileMode) func(string) {
		return func(dir string) {
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
			must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), mode))
		}
	}
	trees := map[string]func(string){
		"one file with NULs":  file("a", "x\x00b\x00y", 0o644),
		"two files":           func(d string) { file("a", "x", 0o644)(d); file("b", "y", 0o644)(d) },
		"another mode":        func(d string) { file("a", "x", 0o755)(d); file("b", "y", 0o644)(d) },
		"an empty directory":  func(d string) { file("a", "x", 0o644)(d); file("b", "y", 0o644)(d); must(t, os.Mkdir(d+"/c", 0o755)) },
		"a symlink, not file": func(d string) { file("b", "y", 0o644)(d); must(t, os.Symlink("b", d+"/a")) },
		"another symlink":     func(d string) { file("b", "y", 0o644)(d); must(t, os.Symlink("c", d+"/a")) },
		"empty":               func(string) {},
	}
	seen := map[string]string{}
	for name, tree := range trees {
		s := sum(tree)
		if other, dup := seen[s]; dup {
			t.Errorf("%q and %q have one digest", name, other)
		}
		seen[s] = name
	}
	r := open(t, "local", stage.Options{})
	src := r.files(t, map[string]string{"a": "1", "b/c": "2"})
	if _, err := r.StageDirectory(ctx, src, "copy", nil); err != nil {
		t.Fatal(err)
	}
	inside, err := r.ws.Digest(ctx, "copy")
	must(t, err)
	outside, err := stage.DirDigest(ctx, src)
	must(t, err)
	if inside != outside {
		t.Errorf("a tree and its copy have the digests %s and %s", outside, inside)
	}
}

// A flood of what can't be collected neither fills a manifest nor hides the rest.
func TestCollectOfManyThatCannotBeTaken(t *testing.T) {
	r := open(t, memory.Kind, stage.Options{})
	must(t, r.ws.Mkdir(t.Context(), "out", nil))
	for i := range 3 * stage.MaxSkipped {
		must(t, r.ws.Symlink(t.Context(), "nowhere", fmt.Sprintf("out/%04d", i)))
	}
	r.write(t, "out/z", "last")
	man, err := r.CollectOutputs(t.Context(), stage.OutputSpec{Inline: true})
	must(t, err)
	if len(man.Files) != 1 || man.Files[0].Content != "last" || len(man.Skipped) != stage.MaxSkipped || man.Skips != 3*stage.MaxSkipped {
		t.Errorf("%d files, %d of %d left out are listed", len(man.Files), len(man.Skipped), man.Skips)
	}
}

// metadata.json is a name that others use, too. A file of theirs is not replaced by
// our copy, whether it was there before or is brought in later.
func TestMetadataOfSomebodyElseStays(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		put := func(name, text string) {
			t.Helper()
			must(t, r.PutFiles(t.Context(), []stage.File{{Path: name, Content: []byte(text)}}))
		}
		record := func() {
			t.Helper()
			r.write(t, "src", "x")
			_, err := r.StageInputs(t.Context(), []stage.Input{{From: "workspace://src"}})
			must(t, err)
		}
		r.write(t, stage.MetaFile, "of the project")
		record()
		r.want(t, stage.MetaFile, "of the project")
		must(t, r.ws.Remove(t.Context(), stage.MetaFile, nil))
		record()
		if data, err := r.ws.ReadFile(t.Context(), stage.MetaFile); err != nil || !strings.Contains(string(data), "workspace://src") {
			t.Fatalf("the copy is %q, %v", data, err)
		}
		put(stage.MetaFile, "put there")
		record()
		r.want(t, stage.MetaFile, "put there")
		r.files(t, map[string]string{"tmpl/metadata.json": "of the template"})
		must(t, r.fill(t, filepath.Join(r.host, "tmpl"), nil))
		record()
		r.want(t, stage.MetaFile, "of the template")
	})
}
