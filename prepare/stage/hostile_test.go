package stage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func (r *rig) sh(t *testing.T, script string) {
	t.Helper()
	if out, err := r.ws.Script(t.Context(), script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func namesOf(files []stage.FileRef) []string {
	list := []string{}
	for _, f := range files {
		list = append(list, f.Name)
	}
	return list
}

// What a program puts in the way of a pattern is told, and never fails the others.
func TestPatternsThroughWhatIsInTheWay(t *testing.T) {
	for _, kind := range kinds[1:] {
		t.Run(kind, func(t *testing.T) { throughWhatIsInTheWay(t, open(t, kind, stage.Options{})) })
	}
}

func throughWhatIsInTheWay(t *testing.T, r *rig) {
	r.write(t, "out/good.txt", "good")
	r.sh(t, `cd out; ln -s loop loop; ln -s a b; ln -s b a; ln -s nowhere dangling; s=$(printf '\057'); d=..$s..; ln -s "$d$s$d$s$d" up; ln -s "${s}etc" etc; ln -s "${s}proc${s}self${s}root" magic; ln -s good.txt file`)
	told := []string{"out/loop/**", "out/a/*", "out/up/*", "out/etc/*", "out/magic/**", "out/good.txt/*", "out/file/**", "out/etc/passwd", "out/" + strings.Repeat("x", 300) + "/*"}
	man, err := r.CollectOutputs(t.Context(), stage.OutputSpec{Globs: append(slices.Clone(told), "out/dangling/**", "out/good.txt"), Inline: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"out/good.txt"}, namesOf(man.Files)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	got := []string{}
	for _, s := range man.Skipped {
		got = append(got, s.Name)
		if s.Code == fault.Internal || s.Reason == "" {
			t.Errorf("%+v", s)
		}
	}
	if diff := cmp.Diff(told, got); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// An absolute symlink to a file of the workspace leads nowhere else.
func TestAbsoluteLinksInside(t *testing.T) {
	for _, kind := range kinds[1:] {
		t.Run(kind, func(t *testing.T) { absoluteLinksInside(t, open(t, kind, stage.Options{})) })
	}
}

func absoluteLinksInside(t *testing.T, r *rig) {
	r.write(t, "work/real.txt", "real")
	r.write(t, "work/sub/deep.txt", "deep")
	r.write(t, ".hidden", "h")
	r.sh(t, `mkdir -p out; w=$PWD; ln -s "$w/work/real.txt" out/abs.txt; ln -s abs.txt out/again.txt; ln -s "$w/work" out/dir; ln -s "$w/../../etc/passwd" out/leak; ln -s "$w" out/top`)
	man, err := r.CollectOutputs(t.Context(), stage.OutputSpec{Globs: []string{"out/*", "out/dir/**", "out/top/.h*"}, Inline: true})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range man.Files {
		got[f.Name] = f.Content
	}
	want := map[string]string{"out/abs.txt": "real", "out/again.txt": "real", "out/dir/real.txt": "real", "out/dir/sub/deep.txt": "deep", "out/top/.hidden": "h"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(man.Skipped) != 1 || man.Skipped[0].Name != "out/leak" || man.Skipped[0].Code != fault.SandboxViolation {
		t.Errorf("skipped %+v", man.Skipped)
	}
}

func TestUnknownVariable(t *testing.T) {
	r := open(t, memory.Kind, stage.Options{})
	r.write(t, "$HOME", "a name")
	r.write(t, "out/good.txt", "good")
	for _, p := range []string{"$FOO/**", "${HOME}/x", "$OUTPUT_DIRx/a", "$_"} {
		wantSkipped(t, r, p, fault.InvalidArgument, "begins with a variable other than $OUTPUT_DIR")
	}
	man, err := r.CollectOutputs(t.Context(), stage.OutputSpec{Globs: []string{`\$HOME`}})
	if err != nil || len(man.Files) != 1 {
		t.Errorf("a name that begins with $: %+v, %v", man, err)
	}
}

// What is only listed or written has the limits that are given, and no others.
func TestLimitsWithoutContent(t *testing.T) {
	r := open(t, memory.Kind, stage.Options{})
	r.write(t, "out/a.txt", strings.Repeat("a", 100))
	r.write(t, "out/b", strings.Repeat("b", 5<<20))
	r.write(t, "out/c.txt", strings.Repeat("c", 100))
	for name, test := range map[string]struct {
		spec  stage.OutputSpec
		want  string // ! is beyond the limits
		hit   bool
		bytes int
	}{
		"none":     {stage.OutputSpec{}, "out/a.txt out/b out/c.txt", false, 5<<20 + 200},
		"of each":  {stage.OutputSpec{MaxFileBytes: 100}, "out/a.txt out/b! out/c.txt", true, 200},
		"of all":   {stage.OutputSpec{MaxTotalBytes: 150}, "out/a.txt out/b!", true, 100},
		"of files": {stage.OutputSpec{MaxFiles: 1}, "out/a.txt", true, 100},
	} {
		t.Run(name, func(t *testing.T) {
			written := 0
			sink := func(_ stage.FileRef, _ workspace.Info, body io.Reader) error {
				n, err := io.Copy(io.Discard, body)
				written += int(n)
				return err
			}
			for _, to := range []stage.Sink{nil, sink} {
				man, err := r.CollectTo(t.Context(), test.spec, to)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, f := range man.Files {
					mark := ""
					if f.Truncated {
						mark = "!"
					}
					got = append(got, f.Name+mark)
					if (f.Error != "") != (f.Truncated && to != nil) {
						t.Errorf("%+v", f)
					}
				}
				if strings.Join(got, " ") != test.want || man.LimitsHit != test.hit {
					t.Errorf("got %v, hit %v; want %s, %v", got, man.LimitsHit, test.want, test.hit)
				}
			}
			if written != test.bytes {
				t.Errorf("wrote %d bytes, want %d", written, test.bytes)
			}
		})
	}
	t.Run("a sink that fails", func(t *testing.T) {
		man, err := r.CollectTo(t.Context(), stage.OutputSpec{}, func(ref stage.FileRef, _ workspace.Info, _ io.Reader) error {
			if ref.Name == "out/b" {
				return fmt.Errorf("disk: %w", fault.ResourceExhausted)
			}
			return nil
		})
		if fault.Of(err) != fault.ResourceExhausted || len(man.Files) != 3 || man.Files[1].Error == "" || man.Files[0].Error != "" {
			t.Errorf("%+v, %v", man, err)
		}
	})
	t.Run("content in the manifest, too", func(t *testing.T) {
		var got []string
		man, err := r.CollectTo(t.Context(), stage.OutputSpec{Inline: true, MaxFileBytes: 100}, func(ref stage.FileRef, _ workspace.Info, body io.Reader) error {
			data, err := io.ReadAll(body)
			got = append(got, fmt.Sprint(ref.Name, len(data)))
			return err
		})
		if err != nil || len(man.Files[1].Content) != 100 || man.Files[1].Error == "" || !slices.Equal(got, []string{"out/a.txt100", "out/c.txt100"}) {
			t.Errorf("%v %+v %v", got, man.Files[1].Error, err)
		}
	})
}

// Only what calls that are under way put aside is hidden, whatever names programs use.
func TestAsides(t *testing.T) {
	state := stage.NewMemoryState()
	r := open(t, memory.Kind, stage.Options{State: state})
	r.write(t, "out/.croft-aside-mine", "a program's")
	r.write(t, "out/.croft-aside-abcdefghijklmnop", "a program's")
	r.write(t, "out/.croft-aside-ponmlkjihgfedcba/in", "a call's")
	m, err := r.Metadata(t.Context())
	must(t, err)
	m.Pending = []stage.TempPath{{Path: "out/.croft-aside-ponmlkjihgfedcba", Target: "out/x"}}
	must(t, state.Save(t.Context(), r.ws.ID(), &m))
	man, err := r.Collect(t.Context(), []string{"out/**"})
	must(t, err)
	if diff := cmp.Diff([]string{"out/.croft-aside-abcdefghijklmnop", "out/.croft-aside-mine"}, namesOf(man.Files)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A collection waits for nobody who prepares the workspace, and is recorded all the
// same.
func TestCollectWhileOthersPrepare(t *testing.T) {
	dir, err := stage.NewDirState(t.TempDir())
	must(t, err)
	for name, state := range map[string]stage.State{"memory": stage.NewMemoryState(), "directory": dir} {
		t.Run(name, func(t *testing.T) {
			r := open(t, memory.Kind, stage.Options{State: state, History: 3})
			r.write(t, "out/a", "x")
			h, err := r.Begin(t.Context())
			must(t, err)
			for i := range 4 {
				if _, err := r.CollectOutputs(t.Context(), stage.OutputSpec{Globs: []string{fmt.Sprintf("out/%d*", i)}}); err != nil {
					t.Fatal(err)
				}
			}
			h.Prepared["k"] = stage.PreparedRecord{Key: "k"}
			must(t, h.Save(t.Context())) // what was loaded before must not win
			h.End()
			m, err := r.Metadata(t.Context())
			must(t, err)
			if len(m.Outputs) != 3 || m.Outputs[2].Globs[0] != "out/3*" || m.Prepared["k"].Key != "k" {
				t.Errorf("got %+v", m)
			}
			if _, err := r.CollectOutputs(t.Context(), stage.OutputSpec{Globs: []string{"out/last"}}); err != nil {
				t.Fatal(err)
			}
			data, err := r.ws.ReadFile(t.Context(), stage.MetaFile)
			if err != nil || !bytes.Contains(data, []byte("out/last")) {
				t.Errorf("the copy has %s, %v", data, err)
			}
			must(t, state.Delete(t.Context(), r.ws.ID()))
			if m, err := state.Load(t.Context(), r.ws.ID()); err != nil || m != nil {
				t.Errorf("after Delete: %+v, %v", m, err)
			}
		})
	}
}

// shifting files change between the moment that they are listed and that they are
// read.
type shifting struct{ driver.Files }

func (s shifting) Read(ctx context.Context, name string, opts *driver.ReadOptions) (io.ReadCloser, driver.Info, error) {
	body, info, err := s.Files.Read(ctx, name, opts)
	if err != nil {
		return nil, info, err
	}
	switch data, _ := io.ReadAll(body); {
	case strings.Contains(name, "gone"):
		return nil, info, fmt.Errorf("read %s: %w", name, fault.NotFound)
	case strings.Contains(name, "shrinks"):
		return io.NopCloser(bytes.NewReader(data[:5])), info, nil
	case strings.Contains(name, "grows"):
		return io.NopCloser(io.MultiReader(bytes.NewReader(data), strings.NewReader(strings.Repeat("y", 1000)))), info, nil
	case strings.Contains(name, "breaks"):
		return io.NopCloser(io.MultiReader(bytes.NewReader(data[:5]), failing{})), info, nil
	default:
		return io.NopCloser(bytes.NewReader(data)), info, nil
	}
}

type shiftingProvider struct{ driver.Provider }

func (p shiftingProvider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	ws, err := p.Provider.Open(ctx, spec)
	if err == nil {
		files := *ws.FS
		files.Files = shifting{files.Files}
		ws.FS = &files
	}
	return ws, err
}

func TestFilesThatChangeMeanwhile(t *testing.T) {
	ws, err := workspace.NewMux(shiftingProvider{new(memory.Provider)}).Open(t.Context(), workspace.Spec{Kind: memory.Kind, ID: workspace.NewID()}, nil)
	must(t, err)
	store := stage.NewArtifacts(bucket(t), "s")
	st, err := stage.New(ws, &stage.Options{Artifacts: store})
	must(t, err)
	for _, name := range []string{"breaks", "gone", "grows", "shrinks", "stays"} {
		_, err := ws.WriteFile(t.Context(), "out/"+name, []byte(strings.Repeat("x", 50)), &workspace.WriteOptions{Parents: true})
		must(t, err)
	}
	man, err := st.CollectOutputs(t.Context(), stage.OutputSpec{Inline: true, MaxFileBytes: 100})
	must(t, err)
	var got []string
	for _, f := range man.Files {
		got = append(got, fmt.Sprint(f.Name, " ", f.SizeBytes, " ", len(f.Content), " ", f.Truncated))
	}
	if diff := cmp.Diff([]string{"out/grows 101 100 true", "out/shrinks 5 5 false", "out/stays 50 50 false"}, got); diff != "" {
		t.Errorf("inline (-want +got):\n%s", diff)
	}
	if len(man.Skipped) != 2 || man.Skipped[0].Code != fault.Unavailable || man.Skipped[1].Code != fault.NotFound {
		t.Errorf("skipped %+v", man.Skipped)
	}
	man, err = st.CollectOutputs(t.Context(), stage.OutputSpec{Save: true, MaxFileBytes: 100})
	if err == nil {
		t.Errorf("a file that grows beyond the limit was saved: %+v", man)
	}
	for _, f := range man.Files {
		saved := f.Name == "out/shrinks" || f.Name == "out/stays"
		if (f.SavedAs != "") != saved || (f.Error == "") != saved {
			t.Errorf("%+v", f)
		}
	}
	if list, err := store.List(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("artifacts %+v, %v", list, err)
	}
	var whole []string
	man, err = st.CollectTo(t.Context(), stage.OutputSpec{MaxFileBytes: 100}, func(ref stage.FileRef, _ workspace.Info, body io.Reader) error {
		if _, err := io.ReadAll(body); err != nil {
			return err
		}
		whole = append(whole, ref.Name)
		return nil
	})
	if err == nil || errors.Is(err, fault.Internal) || !slices.Equal(whole, []string{"out/shrinks", "out/stays"}) {
		t.Errorf("wrote %v, %v, %+v", whole, err, man)
	}
}
