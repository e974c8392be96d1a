package bootstrap_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/prepare/bootstrap"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
)

func (r *rig) gone(t *testing.T, name string) {
	t.Helper()
	if _, err := r.ws.Stat(t.Context(), name, &workspace.StatOptions{NoFollow: true}); fault.Of(err) != fault.NotFound {
		t.Errorf("%s is still there: %v", name, err)
	}
}

// An input that is taken of a skill comes after that skill, and all else stays in
// its order.
func TestInputsOfSkills(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		r.files(t, map[string]string{"a/SKILL.md": "# A\n", "b/SKILL.md": "# B\n", "b/data.txt": "data"})
		spec := bootstrap.Spec{
			Files: []bootstrap.File{
				{Target: "first", Content: []byte("1")},
				{Target: "work/data", Input: &stage.Input{From: "skill://b/data.txt"}},
				{Target: "last", Content: []byte("2")},
			},
			Skills: []bootstrap.Skill{{Name: "a", Dir: filepath.Join(r.host, "a")}, {Name: "b", Dir: filepath.Join(r.host, "b")}},
		}
		plan, err := r.Plan(t.Context(), spec)
		must(t, err)
		wantSteps(t, steps(plan), "file:first create", "skill:b create", "file:work/data create", "file:last create", "skill:a create")
		wantSteps(t, r.apply(t, spec), "file:first create", "skill:b create", "file:work/data create", "file:last create", "skill:a create")
		r.want(t, "work/data", "data")
		r.files(t, map[string]string{"b/data.txt": "other"})
		plan, err = r.Plan(t.Context(), spec)
		must(t, err)
		wantSteps(t, steps(plan), "file:first none", "skill:b update", "file:work/data update", "file:last none", "skill:a none")
		wantSteps(t, r.apply(t, spec), "file:first none", "skill:b update", "file:work/data update", "file:last none", "skill:a none")
		r.want(t, "work/data", "other")
	})
}

// An optional skill that nobody has is a warning, and a required one an error.
func TestSkillsThatAreNotFound(t *testing.T) {
	r := open(t, memory.Kind, stage.Options{})
	find := func(name string) (bootstrap.SkillInfo, error) {
		return new(bootstrap.Skills).Find(t.Context(), name)
	}
	spec, err := bootstrap.ParseSpec([]byte("skills: [{name: nope, optional: true}]\nfiles: [{target: a}]"), "/", find)
	must(t, err)
	for range 2 {
		report, err := r.Apply(t.Context(), spec)
		must(t, err)
		if len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], `skill "nope": not found`) {
			t.Errorf("warnings %q", report.Warnings)
		}
		if got := steps(report); got[1] != "skill:nope failed" {
			t.Errorf("done %q", got)
		}
	}
	if _, err := bootstrap.ParseSpec([]byte("skills: [{name: nope}]"), "/", find); fault.Of(err) != fault.NotFound {
		t.Errorf("a required one: %v", err)
	}
}

// Prune leaves what it did not make: a directory that a command made, and a file that
// replaced a marker.
func TestPruneRemovesOnlyWhatIsOurs(t *testing.T) {
	for _, kind := range shells {
		t.Run(kind, func(t *testing.T) {
			r := open(t, kind, stage.Options{})
			sh := func(key, marker, script string) bootstrap.Command {
				return bootstrap.Command{Key: key, Cmd: "sh", Args: []string{"-c", script}, MarkerPath: marker}
			}
			r.apply(t, bootstrap.Spec{Commands: []bootstrap.Command{
				sh("dir", "work/venv", "mkdir -p work/venv; echo precious >work/venv/notes"), sh("own", "work/.done", "true"), sh("made", "work/made", "echo x >work/made"),
				sh("edited", "work/.edited", "true"), sh("link", "work/link", "ln -s made work/link"), sh("none", "", "true"),
			}})
			r.write(t, "work/.edited", "mine now")
			report, err := r.Apply(t.Context(), bootstrap.Spec{Prune: true})
			must(t, err)
			wantSteps(t, steps(report), "dir forget", "edited forget", "link forget", "made forget", "none forget", "own prune")
			if len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "work/.edited was changed") {
				t.Errorf("warnings %q", report.Warnings)
			}
			r.want(t, "work/venv/notes", "precious\n")
			r.want(t, "work/made", "x\n")
			r.want(t, "work/.edited", "mine now")
			r.gone(t, "work/.done")
		})
	}
}

// A template goes file by file, and what was changed stays.
func TestPruneOfATemplate(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		r.files(t, map[string]string{"t/a": "a", "t/src/b": "b", "t/src/c": "c", "t/only/d": "d"})
		r.apply(t, bootstrap.Spec{Template: filepath.Join(r.host, "t")})
		r.write(t, "src/b", "edited")
		r.write(t, "src/new", "mine")
		must(t, os.RemoveAll(filepath.Join(r.host, "t"))) // the record knows
		plan, err := r.Plan(t.Context(), bootstrap.Spec{Prune: true})
		must(t, err)
		wantSteps(t, steps(plan), "template prune")
		report, err := r.Apply(t.Context(), bootstrap.Spec{Prune: true, Files: []bootstrap.File{{Target: "x"}}})
		must(t, err)
		wantSteps(t, steps(report), "file:x create", "template prune")
		if len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "src/b") {
			t.Errorf("warnings %q", report.Warnings)
		}
		r.want(t, "src/b", "edited")
		r.want(t, "src/new", "mine")
		for _, name := range []string{"a", "src/c", "only"} {
			r.gone(t, name)
		}
		if got := r.apply(t, bootstrap.Spec{Prune: true, Files: []bootstrap.File{{Target: "x"}}}); len(got) != 1 {
			t.Errorf("pruned again: %q", got)
		}
	})
}

// Changes of a template are copied, and files that are gone are restored. Files that
// were changed or added in the workspace stay.
func TestTemplateDrift(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		r.files(t, map[string]string{"t/a": "a", "t/src/b": "b", "t/src/c": "c", "t/src/deep/d": "d", "t/e": "e"})
		spec := bootstrap.Spec{Template: filepath.Join(r.host, "t")}
		wantSteps(t, r.apply(t, spec), "template create")
		wantSteps(t, r.apply(t, spec), "template none")
		r.write(t, "src/b", "edited")
		r.write(t, "src/new", "mine")
		must(t, r.ws.Remove(t.Context(), "a", nil))
		must(t, r.ws.Remove(t.Context(), "src/deep", &workspace.RemoveOptions{Recursive: true}))
		wantSteps(t, r.apply(t, spec), "template repair")
		r.want(t, "a", "a")
		r.want(t, "src/deep/d", "d")
		r.want(t, "src/b", "edited")
		for range 2 {
			report, err := r.Apply(t.Context(), spec)
			must(t, err)
			wantSteps(t, steps(report), "template none")
			if len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "src/b was changed since, and stays") {
				t.Errorf("warnings %q", report.Warnings)
			}
		}
		r.write(t, "e", "e") // a touch
		wantSteps(t, r.apply(t, spec), "template none")
		r.files(t, map[string]string{"t/src/c": "newer", "t/src/f": "f", "t/src/b": "newer, too"})
		must(t, os.Remove(filepath.Join(r.host, "t/e")))
		wantSteps(t, r.apply(t, spec), "template update")
		r.want(t, "src/c", "newer")
		r.want(t, "src/f", "f")
		r.want(t, "src/b", "edited")
		r.want(t, "src/new", "mine")
		r.want(t, "e", "e")
		// What it no longer has goes where that is asked for.
		spec.Prune = true
		must(t, os.Remove(filepath.Join(r.host, "t/src/f")))
		wantSteps(t, r.apply(t, spec), "template update")
		r.gone(t, "src/f")
		// A file that is removed comes back as the template has it.
		must(t, r.ws.Remove(t.Context(), "src/b", nil))
		wantSteps(t, r.apply(t, spec), "template repair")
		r.want(t, "src/b", "newer, too")
	})
}

// Who puts the time back and keeps the size does not hide a change.
func TestDriftBehindTheSameSizeAndTime(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		r.files(t, map[string]string{"s/SKILL.md": "# S\n", "s/run.sh": "good", "t/tmpl": "good"})
		spec := bootstrap.Spec{
			Template: filepath.Join(r.host, "t"),
			Files:    []bootstrap.File{{Target: "work/a", Content: []byte("good")}},
			Skills:   []bootstrap.Skill{{Name: "s", Dir: filepath.Join(r.host, "s"), ReadOnly: true}},
		}
		r.apply(t, spec)
		time.Sleep(25 * time.Millisecond) // the clock of a file system moves in steps
		for _, name := range []string{"work/a", "tmpl"} {
			info, err := r.ws.Stat(t.Context(), name, nil)
			must(t, err)
			_, err = r.ws.WriteFile(t.Context(), name, []byte("evil"), &workspace.WriteOptions{ModTime: info.ModTime, InPlace: true})
			must(t, err)
			if now, err := r.ws.Stat(t.Context(), name, nil); err != nil || !now.ModTime.Equal(info.ModTime) || now.Size != info.Size {
				t.Fatalf("%s looks as %+v, want %+v", name, now, info)
			}
		}
		report, err := r.Apply(t.Context(), spec)
		must(t, err)
		wantSteps(t, steps(report), "template none", "file:work/a repair", "skill:s none")
		if len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "tmpl was changed") {
			t.Errorf("warnings %q", report.Warnings)
		}
		r.want(t, "work/a", "good")
	})
}

// Of a skill, all files are looked after.
func TestDriftInASkill(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		r.files(t, map[string]string{"s/SKILL.md": "# S\n", "s/scripts/run.sh": "good"})
		spec := bootstrap.Spec{Skills: []bootstrap.Skill{{Name: "s", Dir: filepath.Join(r.host, "s")}}}
		r.apply(t, spec)
		must(t, r.ws.Remove(t.Context(), "skills/s/scripts", &workspace.RemoveOptions{Recursive: true}))
		wantSteps(t, r.apply(t, spec), "skill:s repair")
		r.want(t, "skills/s/scripts/run.sh", "good")
		r.write(t, "skills/s/scripts/run.sh", "worked on")
		wantSteps(t, r.apply(t, spec), "skill:s none")
		spec.Skills[0].ReadOnly = true
		wantSteps(t, r.apply(t, spec), "skill:s update")
		wantSteps(t, r.apply(t, spec), "skill:s none")
		if r.kind != local.Kind && r.kind != memory.Kind {
			return // there it is a mount, or its modes count
		}
		must(t, r.ws.Chmod(t.Context(), "skills/s/scripts/run.sh", 0o644))
		r.write(t, "skills/s/scripts/run.sh", "evil")
		must(t, r.ws.Chmod(t.Context(), "skills/s/scripts/run.sh", 0o444))
		wantSteps(t, r.apply(t, spec), "skill:s repair")
		r.want(t, "skills/s/scripts/run.sh", "good")
	})
}

// Markers and observed paths that are symlinks, or nothing that can be one.
func TestOddMarkers(t *testing.T) {
	r := open(t, local.Kind, stage.Options{})
	out := filepath.Join(r.host, "outside")
	must(t, os.WriteFile(out, nil, 0o600))
	must(t, os.Mkdir(filepath.Join(rootOf(t, r), "bin"), 0o755))
	for _, name := range []string{"marker", "bin/python"} {
		must(t, os.Symlink(out, filepath.Join(rootOf(t, r), name)))
	}
	count := bootstrap.Command{
		Key: "c", Cmd: "sh", Args: []string{"-c", "printf x >>n"}, MarkerPath: "marker", ObservedPaths: []string{"bin/python"},
	}
	spec := bootstrap.Spec{Commands: []bootstrap.Command{count}}
	wantSteps(t, r.apply(t, spec), "c create")
	wantSteps(t, r.apply(t, spec), "c none")
	r.want(t, "n", "x")
	wantSteps(t, r.apply(t, bootstrap.Spec{Prune: true}), "c forget")
	if _, err := os.Stat(out); err != nil {
		t.Errorf("what is outside: %v", err)
	}
	must(t, os.Symlink("/etc", filepath.Join(rootOf(t, r), "etc")))
	for name, c := range map[string]bootstrap.Command{
		".": {MarkerPath: "."}, "./x/..": {MarkerPath: "./x/.."}, "../out": {MarkerPath: "../out"}, "etc/marker": {MarkerPath: "etc/marker"}, "../seen": {ObservedPaths: []string{"../seen"}},
	} {
		c.Key, c.Cmd = "odd", "true"
		_, err := r.Apply(t.Context(), bootstrap.Spec{Commands: []bootstrap.Command{c}})
		if code := fault.Of(err); code != fault.InvalidArgument && code != fault.SandboxViolation || !strings.Contains(err.Error(), name) {
			t.Errorf("marker %q: %v, want a coded error that names it", name, err)
		}
	}
}

// rootOf is where a local workspace is.
func rootOf(t *testing.T, r *rig) string {
	t.Helper()
	return r.ws.Traits().Root
}

// A command that does not make what is observed is run each time, and says so.
func TestObservedPathsThatAreNeverMade(t *testing.T) {
	r := open(t, local.Kind, stage.Options{})
	spec := bootstrap.Spec{Commands: []bootstrap.Command{{Key: "c", Cmd: "true", ObservedPaths: []string{"typo"}}}}
	for _, want := range []string{"c create", "c repair"} {
		report, err := r.Apply(t.Context(), spec)
		must(t, err)
		wantSteps(t, steps(report), want)
		if len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], `did not make "typo"`) {
			t.Errorf("warnings %q", report.Warnings)
		}
	}
}

// A plan knows what follows from its own steps, and what can't be done at all.
func TestPlanForesees(t *testing.T) {
	r := open(t, local.Kind, stage.Options{})
	spec := bootstrap.Spec{
		Files:    []bootstrap.File{{Target: "work/reqs", Content: []byte("1")}, {Target: "copy", Input: &stage.Input{From: "workspace://work/reqs"}}},
		Commands: []bootstrap.Command{{Key: "install", Cmd: "true", FingerprintInputs: []string{"work/reqs"}}, {Key: "other", Cmd: "true"}},
	}
	r.apply(t, spec)
	spec.Files[0].Content = []byte("2")
	plan, err := r.Plan(t.Context(), spec)
	must(t, err)
	wantSteps(t, steps(plan), "file:work/reqs update", "file:copy update", "install update", "other none")
	wantSteps(t, r.apply(t, spec), steps(plan)...)
	m := open(t, memory.Kind, stage.Options{})
	if _, err := m.Plan(t.Context(), bootstrap.Spec{Commands: []bootstrap.Command{{Cmd: "true"}}}); fault.Of(err) != fault.Unsupported {
		t.Errorf("a command where there is no shell: %v", err)
	}
}

// A report of a failure has what was done, and what failed.
func TestReportOfAFailure(t *testing.T) {
	r := open(t, local.Kind, stage.Options{})
	report, err := r.Apply(t.Context(), bootstrap.Spec{
		Files:    []bootstrap.File{{Target: "a"}},
		Commands: []bootstrap.Command{{Key: "bad", Cmd: "false"}, {Key: "never", Cmd: "true"}},
	})
	if fault.Of(err) != fault.Failed {
		t.Errorf("Apply = %v", err)
	}
	wantSteps(t, steps(report), "file:a create", "bad failed")
}

func TestSpecsThatMeanNothing(t *testing.T) {
	for _, text := range []string{
		`template: ""`, "skills: [{}]", "skills: [{readOnly: true}]", "files: [{target: a}]\n---\nfiles: [{target: b}]", "skills: [{name: ../x}]",
	} {
		if _, err := bootstrap.ParseSpec([]byte(text), "/", nil); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%q: %v, want InvalidArgument", text, err)
		}
	}
	for _, text := range []string{"---\nfiles: [{target: a}]\n", "files: [{target: a}]\n...\n", "# c\n---\nfiles: [{target: a}]\n---\n"} {
		if spec, err := bootstrap.ParseSpec([]byte(text), "/", nil); err != nil || len(spec.Files) != 1 {
			t.Errorf("%q: %+v, %v", text, spec, err)
		}
	}
}

func TestFrontMatterOfSkills(t *testing.T) {
	dir := t.TempDir()
	for name, front := range map[string]string{
		"lines": "name: lines\ndescription: |\n  one\n  two\n\n  three\n", "long": "description: " + strings.Repeat("x", 5000) + "\n", "bomb": bomb + "description: d\n",
	} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name, bootstrap.SkillFile), []byte("---\n"+front+"---\nbody"), 0o600))
	}
	start := time.Now()
	list, err := (&bootstrap.Skills{Roots: []string{dir}}).List(t.Context())
	must(t, err)
	got := map[string]string{}
	for _, s := range list {
		got[s.Name] = s.Description
	}
	if got["lines"] != "one two three" || len(got["long"]) > 1100 || got["bomb"] != "" || len(got) != 3 {
		t.Errorf("skills %.300q after %v", fmt.Sprint(got), time.Since(start))
	}
}
