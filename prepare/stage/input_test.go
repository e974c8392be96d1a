package stage_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace/driver"
)

func TestStageInputs(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		r.files(t, map[string]string{"data/a": "host a", "data/sub/b": "host b", "single.csv": "1,2"})
		r.write(t, "skills/pdf/scripts/run.py", "print()")
		r.write(t, "work/dir/x", "x")
		for i := range 3 {
			if _, err := r.store.Save(t.Context(), "team/model.bin", strings.NewReader(fmt.Sprintf("v%d", i)), ""); err != nil {
				t.Fatal(err)
			}
		}
		recs, err := r.StageInputs(t.Context(), []stage.Input{
			{From: "host://" + r.host + "/data"},
			{From: "host://" + r.host + "/single.csv", To: "work/in.csv", Mode: "link"},
			{From: "artifact://team/model.bin"},
			{From: "artifact://team/model.bin@1", To: "work/old.bin"},
			{From: "skill://pdf/scripts/run.py", Mode: "copy"},
			{From: "workspace://work/dir", To: "work/linked/dir", Mode: "LINK"},
		})
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"work/inputs/data/a": "host a", "work/inputs/data/sub/b": "host b", "work/in.csv": "1,2",
			"work/inputs/model.bin": "v2", "work/old.bin": "v1", "work/inputs/run.py": "print()", "work/linked/dir/x": "x",
		} {
			r.want(t, name, text)
		}
		info, err := r.ws.Stat(t.Context(), "work/linked/dir", &driver.StatOptions{NoFollow: true})
		if err != nil || info.Target != "../dir" {
			t.Errorf("the link is %+v, %v", info, err)
		}
		got := []string{}
		for _, rec := range recs {
			got = append(got, rec.Mode)
		}
		if want := []string{"copy", "copy", "copy", "copy", "copy", "link"}; !slices.Equal(got, want) {
			t.Errorf("the modes are %v, want %v", got, want)
		}
		if *recs[2].Version != 2 || recs[2].Resolved != "artifact://team/model.bin@2" {
			t.Errorf("record %+v", recs[2])
		}
		m, err := r.Metadata(t.Context())
		if err != nil || len(m.Inputs) != len(recs) {
			t.Errorf("%d inputs are remembered, %v", len(m.Inputs), err)
		}
	})
}

func TestPinnedInputs(t *testing.T) {
	r := open(t, memory.Kind, stage.Options{})
	save := func(text string) {
		t.Helper()
		if _, err := r.store.Save(t.Context(), "m", strings.NewReader(text), ""); err != nil {
			t.Fatal(err)
		}
	}
	pinned, loose := stage.Input{From: "artifact://m", To: "p", Pin: true}, stage.Input{From: "artifact://m", To: "l"}
	for _, text := range []string{"zero", "one"} {
		save(text)
		if _, err := r.StageInputs(t.Context(), []stage.Input{pinned, loose}); err != nil {
			t.Fatal(err)
		}
		r.want(t, "p", "zero")
		r.want(t, "l", text)
	}
}

func TestInputsAreAllOrNothing(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		r.write(t, "src", "new")
		r.write(t, "dst", "old")
		r.write(t, "dir/a", "old")
		before := r.names(t)
		for _, bad := range []stage.Input{
			{From: "artifact://missing"}, {From: "workspace://missing"}, {From: "host://" + r.host + "/missing"},
			{From: "host:///etc/passwd"}, {From: "skill://none/x"},
		} {
			_, err := r.StageInputs(t.Context(), []stage.Input{{From: "workspace://src", To: "dst"}, {From: "workspace://src", To: "dir"}, {From: "workspace://src", To: "deep/er"}, bad})
			if code := fault.Of(err); code != fault.NotFound && code != fault.PermissionDenied {
				t.Errorf("%s: %v, want a coded error", bad.From, err)
			}
			r.want(t, "dst", "old")
			r.want(t, "dir/a", "old")
			got := slices.DeleteFunc(r.names(t), func(n string) bool {
				return n == stage.MetaFile || slices.Contains([]string{"skills", "work", "runs", "out"}, n)
			})
			if !slices.Equal(got, before) {
				t.Errorf("%s: there is %v, want %v", bad.From, got, before)
			}
		}
		if m, err := r.Metadata(t.Context()); err != nil || len(m.Inputs) != 0 {
			t.Errorf("recorded %v, %v", m.Inputs, err)
		}
	})
}

func TestInputsThatAreRefused(t *testing.T) {
	r := open(t, memory.Kind, stage.Options{})
	r.write(t, "src/a", "x")
	tests := map[string]struct {
		in   stage.Input
		code fault.Code
	}{
		"no scheme":         {stage.Input{From: "/etc/passwd"}, fault.InvalidArgument},
		"another scheme":    {stage.Input{From: "https://example.com/x"}, fault.InvalidArgument},
		"empty":             {stage.Input{From: "host://"}, fault.InvalidArgument},
		"unknown mode":      {stage.Input{From: "workspace://src", Mode: "move"}, fault.InvalidArgument},
		"relative host":     {stage.Input{From: "host://etc/passwd"}, fault.InvalidArgument},
		"host elsewhere":    {stage.Input{From: "host:///etc/passwd"}, fault.PermissionDenied},
		"host dot dot":      {stage.Input{From: "host://" + r.host + "/../../../etc/passwd"}, fault.PermissionDenied},
		"host prefix":       {stage.Input{From: "host://" + r.host + "x/a"}, fault.PermissionDenied},
		"version too large": {stage.Input{From: "artifact://a@99999999999999999999999"}, fault.InvalidArgument},
		"artifact dot dot":  {stage.Input{From: "artifact://../../x"}, fault.InvalidArgument},
		"skill dot dot":     {stage.Input{From: "skill://a/../../../x"}, fault.SandboxViolation},
		"skill name":        {stage.Input{From: "skill://../x"}, fault.InvalidArgument},
		"pinned host":       {stage.Input{From: "host://" + r.host, Pin: true}, fault.InvalidArgument},
		"into itself":       {stage.Input{From: "workspace://src", To: "src/b"}, fault.InvalidArgument},
		"onto itself":       {stage.Input{From: "workspace://src", To: "src"}, fault.InvalidArgument},
		"above itself":      {stage.Input{From: "workspace://src/a", To: "src"}, fault.InvalidArgument},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := r.StageInputs(t.Context(), []stage.Input{test.in})
			if fault.Of(err) != test.code {
				t.Errorf("%+v: %v, want %s", test.in, err, test.code)
			}
		})
	}
	_, err := r.StageInputs(t.Context(), []stage.Input{{From: "workspace://src", To: "a"}, {From: "workspace://src", To: "a/b"}})
	if fault.Of(err) != fault.InvalidArgument {
		t.Errorf("one inside the other: %v", err)
	}
	none := open(t, memory.Kind, stage.Options{HostRoots: []string{}})
	if _, err := none.StageInputs(t.Context(), []stage.Input{{From: "host://" + none.host}}); fault.Of(err) != fault.PermissionDenied {
		t.Errorf("host:// without roots: %v, want PermissionDenied", err)
	}
	r.want(t, "src/a", "x")
}

// A symlink or a FIFO of the host is no way out, and nothing to wait for.
func TestHostileHostTree(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		must(t, os.Symlink("/etc", filepath.Join(r.host, "etc")))
		must(t, syscall.Mkfifo(filepath.Join(r.host, "fifo"), 0o644))
		for from, code := range map[string]fault.Code{"etc/passwd": fault.SandboxViolation, "etc": fault.SandboxViolation, "fifo": fault.InvalidArgument} {
			_, err := r.StageInputs(t.Context(), []stage.Input{{From: "host://" + r.host + "/" + from}})
			if fault.Of(err) != code {
				t.Errorf("%s: %v, want %s", from, err, code)
			}
		}
	})
}

func FuzzParseRef(f *testing.F) {
	for _, seed := range []string{"a", "a@1", "a@", "@1", "a@99999999999999", "a/b@3", "a@b@2", "../x", "a\n", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, ref string) {
		name, version, err := stage.ParseRef(ref)
		if err != nil {
			if fault.Of(err) != fault.InvalidArgument {
				t.Fatalf("ParseRef(%q) = %v", ref, err)
			}
			return
		}
		again := name
		if version != stage.Latest {
			again = fmt.Sprintf("%s@%d", name, version)
		}
		n, v, err := stage.ParseRef(again)
		if n != name || v != version || err != nil {
			t.Fatalf("ParseRef(%q) = %q, %d; and of %q: %q, %d, %v", ref, name, version, again, n, v, err)
		}
	})
}
