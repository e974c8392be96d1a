package stage_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/provider/memory"
)

func TestCollectOutputs(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		odd := "out/new\nline\xff.bin"
		for name, text := range map[string]string{
			"out/a.json": `{"a":1}`, "out/sub/b.csv": "1,2", "out/sub/.hidden": "h", "out/plot.svg": "<svg/>", "work/c.md": "# c",
			"work/x[1].txt": "brackets", odd: "\x00\x01", "out/empty": "",
		} {
			r.write(t, name, text)
		}
		man, err := r.CollectOutputs(t.Context(), stage.OutputSpec{
			Globs:  []string{"${OUTPUT_DIR}/**", "out/*.json", " $WORK_DIR/*.{md,txt} ", "$WORKSPACE_DIR/out/sub/**", ""},
			Inline: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []stage.FileRef{
			{Name: "out/a.json", MIMEType: "application/json", Content: `{"a":1}`, SizeBytes: 7},
			{Name: "out/empty", MIMEType: "text/plain; charset=utf-8"},
			{Name: odd, MIMEType: "application/octet-stream", Content: "\x00\x01", SizeBytes: 2},
			{Name: "out/plot.svg", MIMEType: "image/svg+xml", Content: "<svg/>", SizeBytes: 6},
			{Name: "out/sub/.hidden", MIMEType: "text/plain; charset=utf-8", Content: "h", SizeBytes: 1},
			{Name: "out/sub/b.csv", MIMEType: "text/csv; charset=utf-8", Content: "1,2", SizeBytes: 3},
			{Name: "work/c.md", MIMEType: "text/markdown; charset=utf-8", Content: "# c", SizeBytes: 3},
			{Name: "work/x[1].txt", MIMEType: "text/plain; charset=utf-8", Content: "brackets", SizeBytes: 8},
		}
		if diff := cmp.Diff(want, man.Files); diff != "" || man.LimitsHit || len(man.Skipped) > 0 {
			t.Errorf("manifest %+v (-want +got):\n%s", man, diff)
		}
		dir, err := r.CollectOutputs(t.Context(), stage.OutputSpec{Globs: []string{"$OUTPUT_DIR"}})
		if err != nil || len(dir.Files) != 6 || dir.Files[0].Content != "" {
			t.Errorf("a directory and no content: %+v, %v", dir, err)
		}
	})
}

func TestLimitsOfOutputs(t *testing.T) {
	r := open(t, memory.Kind, stage.Options{})
	for i := range 5 {
		r.write(t, fmt.Sprintf("out/f%d", i), strings.Repeat("x", 100))
	}
	type result struct {
		Names string
		Bytes int
		Hit   bool
		Left  int
	}
	tests := map[string]struct {
		spec stage.OutputSpec
		want result
	}{
		"none hit":        {stage.OutputSpec{MaxFiles: 5}, result{"f0 f1 f2 f3 f4", 500, false, 0}},
		"files":           {stage.OutputSpec{MaxFiles: 3}, result{"f0 f1 f2", 300, true, 2}},
		"total":           {stage.OutputSpec{MaxTotalBytes: 250}, result{"f0 f1 f2!", 250, true, 2}},
		"total, 2 globs":  {stage.OutputSpec{MaxTotalBytes: 200, Globs: []string{"out/f[01]", "out/f[234]"}}, result{"f0 f1", 200, true, 3}},
		"bytes of a file": {stage.OutputSpec{MaxFileBytes: 10, MaxFiles: 2}, result{"f0! f1!", 20, true, 3}},
		"above 4 MiB":     {stage.OutputSpec{MaxFileBytes: 32 << 20}, result{"f0 f1 f2 f3 f4", 500, false, 0}},
		"as much as any":  {stage.OutputSpec{MaxFileBytes: math.MaxInt64, MaxTotalBytes: math.MaxInt64, MaxFiles: math.MaxInt}, result{"f0 f1 f2 f3 f4", 500, false, 0}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.spec.Inline = true
			man, err := r.CollectOutputs(t.Context(), test.spec)
			if err != nil {
				t.Fatal(err)
			}
			got := result{Hit: man.LimitsHit, Left: man.Left}
			var names []string
			for _, f := range man.Files {
				n := strings.TrimPrefix(f.Name, "out/")
				if f.Truncated {
					n += "!"
				}
				names = append(names, n)
				got.Bytes += len(f.Content)
			}
			got.Names = strings.Join(names, " ")
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
	man, err := r.CollectOutputs(t.Context(), stage.OutputSpec{Globs: []string{"out/f0"}, MaxFileBytes: math.MaxInt64, MaxTotalBytes: math.MaxInt64, Save: true})
	if err != nil || len(man.Files) != 1 || man.Files[0].SizeBytes != 100 || man.Files[0].SavedAs != "out/f0" {
		t.Errorf("saved with limits that are none: %+v, %v", man, err)
	}
	if _, err := r.CollectOutputs(t.Context(), stage.OutputSpec{MaxFiles: -1}); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("a negative limit: %v", err)
	}
}

// What is beyond 4 MiB can be inlined and saved.
func TestNoWallAtFourMiB(t *testing.T) {
	r := open(t, memory.Kind, stage.Options{})
	big := strings.Repeat("0123456789abcdef", 10<<16) // 10 MiB
	r.write(t, "out/big.bin", big)
	man, err := r.CollectOutputs(t.Context(), stage.OutputSpec{MaxFileBytes: 16 << 20, Save: true})
	if err != nil || len(man.Files) != 1 || man.Files[0].Truncated || man.Files[0].SavedAs != "out/big.bin" {
		t.Fatalf("CollectOutputs = %+v, %v", man, err)
	}
	body, art, err := r.store.Open(t.Context(), "out/big.bin", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if data, err := io.ReadAll(body); err != nil || string(data) != big || art.Size != int64(len(big)) {
		t.Errorf("the artifact has %d bytes, %v; want %d", len(data), err, len(big))
	}
	man, err = r.CollectOutputs(t.Context(), stage.OutputSpec{Save: true, Inline: true})
	if err != nil || !man.LimitsHit || man.Files[0].Error == "" || man.Files[0].SavedAs != "" {
		t.Errorf("what is cut must not be saved: %v, %v", man.Files[0].Error, err)
	}
	if art, err := r.SaveFile(t.Context(), "out/big.bin", "", 64<<20); err != nil || art.Version != 1 {
		t.Errorf("SaveFile = %+v, %v", art, err)
	}
}

func TestSymlinksAreNotFollowedOut(t *testing.T) {
	for _, kind := range kinds[1:] {
		t.Run(kind, func(t *testing.T) {
			r := open(t, kind, stage.Options{})
			r.files(t, map[string]string{"secret": "s3cret", "dir/secret": "s3cret"})
			r.write(t, "out/good.txt", "good")
			r.write(t, "where", r.host)
			const script = `h=$(cat where); cd out; ln -s "$h/secret" leak; ln -s "$h/dir" dirlink; ln -s nowhere broken; ln -s good.txt same; mkfifo fifo; s=$(printf '\057'); ln -s "${s}etc${s}passwd" pw; ln -s "${s}proc${s}self${s}root" root`
			if out, err := r.ws.Script(t.Context(), script).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for _, globs := range [][]string{{"out/**"}, {"out/dirlink/*", "out/good.txt"}, {"out/root/etc/*", "out/good.txt"}, {"out/leak", "out/good.txt"}} {
				man, err := r.CollectOutputs(t.Context(), stage.OutputSpec{Globs: globs, Inline: true, Save: true})
				if err != nil && fault.Of(err) != fault.SandboxViolation {
					t.Fatalf("%v: %v", globs, err)
				}
				for _, f := range man.Files {
					if f.Name != "out/good.txt" || f.Content != "good" {
						t.Errorf("%v: took %+v", globs, f)
					}
				}
				if globs[0] == "out/**" && (len(man.Files) != 1 || len(man.Skipped) < 4) {
					t.Errorf("took %v, skipped %v", man.Files, man.Skipped)
				}
			}
		})
	}
}

func TestPatternsThatLeadOut(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		r.write(t, "out/good.txt", "good")
		for _, p := range []string{"../**", "out/../../*", "/etc/*", "$OUTPUT_DIR/../../x"} {
			wantSkipped(t, r, p, fault.SandboxViolation, "leaves the workspace")
		}
		wantSkipped(t, r, "out/[a", fault.InvalidArgument, "out/[a")
		if man, err := r.CollectOutputs(t.Context(), stage.OutputSpec{Globs: []string{"nothing/here/**"}}); err != nil || len(man.Files) != 0 {
			t.Errorf("no match: %+v, %v", man, err)
		}
	})
}

// wantSkipped checks that a pattern is skipped with a reason, and does not cost the files
// of another pattern.
func wantSkipped(t *testing.T, r *rig, pattern string, code fault.Code, reason string) {
	t.Helper()
	man, err := r.CollectOutputs(t.Context(), stage.OutputSpec{Globs: []string{pattern, "out/good.txt"}})
	if err != nil || len(man.Files) != 1 || len(man.Skipped) != 1 {
		t.Errorf("%s: %+v, %v, want one file and one skipped pattern", pattern, man, err)
	} else if s := man.Skipped[0]; s.Name != pattern || s.Code != code || !strings.Contains(s.Reason, reason) {
		t.Errorf("%s: skipped %+v, want %v: ... %s ...", pattern, s, code, reason)
	}
}

func TestRunDirOfOutputs(t *testing.T) {
	r := open(t, memory.Kind, stage.Options{})
	r.write(t, "out/good.txt", "good")
	wantSkipped(t, r, "$RUN_DIR/r", fault.NotFound, "there was no run yet")
	for i := range 2 {
		run, err := r.NewRun(t.Context())
		must(t, err)
		r.write(t, run+"/r", fmt.Sprint(i))
	}
	man, err := r.CollectOutputs(t.Context(), stage.OutputSpec{Globs: []string{"$RUN_DIR/r"}, Inline: true})
	if err != nil || len(man.Files) != 1 {
		t.Errorf("%+v, %v", man, err)
	}
}

func TestNormalizeGlobs(t *testing.T) {
	got := stage.NormalizeGlobs([]string{
		" $OUTPUT_DIR/a.txt ", "${WORK_DIR}/x/**", "$WORKSPACE_DIR/out", "$WORKSPACE_DIR", "$SKILLS_DIR", "", "$OUTPUT_DIRx/a", "$HOME/a", "out/a.txt", "$OUTPUT_DIR/a.txt",
	})
	want := []string{"out/a.txt", "work/x/**", "out", ".", "skills", "$OUTPUT_DIRx/a", "$HOME/a"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNaming(t *testing.T) {
	r := open(t, memory.Kind, stage.Options{})
	r.write(t, "out/plots/My Plot.PNG", "x")
	for template, want := range map[string]string{
		"":          "out/plots/My Plot.PNG",
		"run-7/":    "run-7/out/plots/My Plot.PNG",
		"{{.ID}}/x": r.ws.ID() + "/x",
		"r/{{.Index}}-{{slug .Stem}}{{lower .Ext}}": "r/0-my-plot.png",
		"{{.Base}}/./{{.Index}}":                    "My Plot.PNG/0",
		"{{.Stem | upper}}@{{.Index}}":              "MY PLOT_0",
	} {
		man, err := r.CollectOutputs(t.Context(), stage.OutputSpec{Save: true, NameTemplate: template})
		if err != nil || man.Files[0].SavedAs != want {
			t.Errorf("%q saves as %v, %v; want %q", template, man.Files, err, want)
		}
	}
	for _, bad := range []string{
		"../../{{.Base}}", "../", "a/../{{.Base}}", "{{.Dir}}/..", "{{.Nope}}", "{{", "{{range 1000000000}}{{end}}", `{{printf "%1000000d" 1}}`, `{{define "x"}}{{template "x"}}{{end}}{{template "x"}}`,
		"{{if true}}a{{end}}", "{{$x := .Name}}{{$x}}", strings.Repeat("a", 2000), "{{.Index}}" + strings.Repeat("x", 600), "{{call .Name}}",
	} {
		if _, err := r.CollectOutputs(t.Context(), stage.OutputSpec{Save: true, NameTemplate: bad}); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%.40q: %v, want InvalidArgument", bad, err)
		}
	}
}

func FuzzNaming(f *testing.F) {
	for _, seed := range []string{"", "a/", "{{.Name}}", "{{slug .Base | upper}}", "{{range .Name}}{{end}}", "{{"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := stage.ParseNaming(text)
		if err != nil {
			if fault.Of(err) != fault.InvalidArgument {
				t.Fatal(err)
			}
			return
		}
		if name, err := n.Name(stage.OutputName{Name: "../\x00/a@1", Base: "\xff"}); err == nil && stage.CheckName(name) != nil {
			t.Fatalf("%q gives %q", text, name)
		}
	})
}

func TestOutputSpecInBothStyles(t *testing.T) {
	want := stage.OutputSpec{Globs: []string{"a"}, MaxFiles: 2, MaxFileBytes: 3, MaxTotalBytes: 4, Save: true, NameTemplate: "n", Inline: true}
	for _, in := range []string{
		`{"globs":["a"],"max_files":2,"max_file_bytes":3,"max_total_bytes":4,"save":true,"name_template":"n","inline":true}`,
		`{"Globs":["a"],"MaxFiles":2,"MaxFileBytes":3,"MaxTotalBytes":4,"Save":true,"NameTemplate":"n","Inline":true}`,
		`{"Globs":["a"],"MaxFiles":9,"max_files":2,"MaxFileBytes":3,"max_total_bytes":4,"Save":true,"name_template":"n","NameTemplate":"x","Inline":true}`,
	} {
		var got stage.OutputSpec
		if err := json.Unmarshal([]byte(in), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", in, diff)
		}
	}
}

func TestManifestAsJSON(t *testing.T) {
	for _, content := range []string{"text", "\xff\x00"} {
		data, err := json.Marshal(stage.FileRef{Name: "a", Content: content})
		must(t, err)
		var back stage.FileRef
		must(t, json.Unmarshal(data, &back))
		if back.Content != content {
			t.Errorf("%s comes back as %q", data, back.Content)
		}
	}
}

func TestArtifacts(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		b := bucket(t)
		testArtifacts(t, stage.NewArtifacts(b, "mine"), stage.NewArtifacts(b, "mine2"))
	})
	t.Run("files", func(t *testing.T) {
		a, b, err := stage.OpenArtifacts(t.TempDir(), "mine")
		must(t, err)
		defer b.Close()
		testArtifacts(t, a, a.In("mine2"))
	})
}

func testArtifacts(t *testing.T, mine, others *stage.Artifacts) {
	ctx := t.Context()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var got []int
	for i := range 20 {
		wg.Go(func() {
			a, err := mine.Save(ctx, "a b/ü@x", strings.NewReader(fmt.Sprint(i)), "text/plain")
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			got = append(got, a.Version)
		})
	}
	wg.Wait()
	slices.Sort(got)
	list, err := mine.Versions(ctx, "a b/ü@x")
	if err != nil || !slices.Equal(list, got) || len(slices.Compact(got)) != 20 || got[0] != 0 || got[19] != 19 {
		t.Fatalf("saved %v; there are %v, %v", got, list, err)
	}
	body, art, err := mine.Open(ctx, "a b/ü@x", stage.Latest)
	must(t, err)
	body.Close()
	if art.Version != 19 || art.MIME != "text/plain" || art.Ref() != "artifact://a b/ü@x@19" {
		t.Errorf("latest is %+v", art)
	}
	if _, _, err := mine.Open(ctx, "a b/ü@x", 20); err == nil || err.Error() != `stage: artifact "a b/ü@x": not found: version 20 does not exist` {
		t.Errorf("a version that there is not: %v", err)
	}
	if _, err := mine.Save(ctx, "a b", strings.NewReader("x"), ""); err != nil { // a name that is the directory of another
		t.Fatal(err)
	}
	all, err := mine.List(ctx)
	if err != nil || len(all) != 2 || all[0].Name != "a b" || all[1].Version != 19 {
		t.Errorf("List = %+v, %v", all, err)
	}
	if all, err := others.List(ctx); err != nil || len(all) != 0 {
		t.Errorf("others have %+v, %v", all, err)
	}
	// A body that fails leaves no version, and a number that was used does not come back.
	if _, err := mine.Save(ctx, "a b", io.MultiReader(strings.NewReader("half"), failing{}), ""); fault.Of(err) != fault.Unavailable {
		t.Errorf("a body that fails: %v, want its code", err)
	}
	if list, err := mine.Versions(ctx, "a b"); err != nil || !slices.Equal(list, []int{0}) {
		t.Errorf("versions %v, %v", list, err)
	}
	must(t, mine.Delete(ctx, "a b", stage.Latest))
	must(t, mine.Delete(ctx, "a b", 0))
	if _, _, err := mine.Open(ctx, "a b", stage.Latest); fault.Of(err) != fault.NotFound {
		t.Errorf("after Delete: %v, want NotFound", err)
	}
	if a, err := mine.Save(ctx, "a b", strings.NewReader("x"), ""); err != nil || a.Version != 2 {
		t.Errorf("the next version is %+v, %v; want 2", a, err)
	}
	for _, bad := range []string{"", " ", "/a", "a/", "a//b", "../a", "a/..", "a\x00", "a\nb", "\xff", `a\b`, "a@7", strings.Repeat("x", 600)} {
		if _, err := mine.Save(ctx, bad, strings.NewReader("x"), ""); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("Save(%.20q) = %v, want InvalidArgument", bad, err)
		}
		if safe := stage.SafeName(bad); strings.Trim(bad, " /") != "" && len(bad) < 512 && stage.CheckName(safe) != nil {
			t.Errorf("SafeName(%q) = %q, which is refused", bad, safe)
		}
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, fmt.Errorf("gone: %w", fault.Unavailable) }

// A store that fails half-way: what was saved is reported, what was not has its
// error, and the call has a code.
func TestStoreThatFailsHalfWay(t *testing.T) {
	everywhere(t, stage.Options{}, func(t *testing.T, r *rig) {
		for i := range 4 {
			r.write(t, fmt.Sprintf("out/f%d", i), "x")
		}
		ctx := stage.WithArtifacts(t.Context(), &halfStore{Artifacts: r.store, left: 2})
		man, err := r.CollectOutputs(ctx, stage.OutputSpec{Save: true, Inline: true})
		if fault.Of(err) != fault.Unavailable {
			t.Fatalf("CollectOutputs = %v, want Unavailable", err)
		}
		var saved, failed []string
		for _, f := range man.Files {
			if f.SavedAs != "" {
				saved = append(saved, f.SavedAs)
			}
			if f.Error != "" {
				failed = append(failed, f.Name)
			}
		}
		if !slices.Equal(saved, []string{"out/f0", "out/f1"}) || !slices.Equal(failed, []string{"out/f2", "out/f3"}) {
			t.Errorf("saved %v, failed %v", saved, failed)
		}
		m, err := r.Metadata(t.Context())
		if err != nil || len(m.Outputs) != 1 || !slices.Equal(m.Outputs[0].SavedAs, saved) {
			t.Errorf("recorded %+v, %v", m.Outputs, err)
		}
	})
}

type halfStore struct {
	*stage.Artifacts
	left int
}

func (s *halfStore) Save(ctx context.Context, name string, body io.Reader, mime string) (stage.Artifact, error) {
	if s.left--; s.left < 0 {
		return stage.Artifact{}, errors.Join(fault.Unavailable, errors.New("the bucket is gone"))
	}
	return s.Artifacts.Save(ctx, name, body, mime)
}
