package stage_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/provider/docker"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// TestCollectFromContainers takes files out of containers, where they are in a
// directory of the host or are reached through the guest, also under a kernel in user
// space.
//
//croft:slow
func TestCollectFromContainers(t *testing.T) {
	testenv.NeedsDocker(t)
	d, err := testenv.StartDockerd(t.Context())
	must(t, err)
	t.Cleanup(func() { must(t, d.Stop()) })
	for name, spec := range map[string]struct {
		files     string
		isolation driver.Isolation
	}{
		"directory":        {docker.FilesDirectory, ""},
		"volume":           {docker.FilesVolume, ""},
		"gvisor":           {docker.FilesDirectory, driver.IsolationGVisor},
		"gvisor, a volume": {docker.FilesVolume, driver.IsolationGVisor},
	} {
		t.Run(name, func(t *testing.T) {
			if spec.isolation != "" {
				testenv.NeedsProgram(t, "runsc")
			}
			p, err := docker.New(&docker.Config{Root: filepath.Join(t.TempDir(), "ws"), Host: d.Host(), Guest: testshell.Guest(t), Files: spec.files})
			must(t, err)
			t.Cleanup(func() { must(t, p.Close()) })
			fromContainer(t, p, spec.isolation)
		})
	}
}

func fromContainer(t *testing.T, p driver.Provider, isolation driver.Isolation) {
	ws, err := workspace.NewMux(p).Open(t.Context(), workspace.Spec{Kind: docker.Kind, ID: workspace.NewID(), Policy: workspace.Policy{Isolation: isolation}}, nil)
	must(t, err)
	t.Cleanup(func() { must(t, ws.Destroy(context.WithoutCancel(t.Context()))) })
	st, err := stage.New(ws, nil)
	must(t, err)
	r := &rig{Stage: st, ws: ws}
	t.Run("in the way", func(t *testing.T) { throughWhatIsInTheWay(t, r) })
	t.Run("absolute links", func(t *testing.T) {
		r.sh(t, "rm -r out")
		absoluteLinksInside(t, r)
	})
	t.Run("what nobody may list", func(t *testing.T) {
		r.sh(t, "rm -rf out; mkdir -p out/closed out/open; echo x > out/closed/a; echo y > out/open/b; echo z > out/unreadable; chmod 000 out/closed out/unreadable")
		man, err := r.CollectOutputs(t.Context(), stage.OutputSpec{Inline: true})
		must(t, err)
		r.sh(t, "chmod 700 out/closed out/unreadable")
		if len(man.Files)+len(man.Skipped) != 3 {
			t.Errorf("took %v, told %+v", namesOf(man.Files), man.Skipped)
		}
	})
	t.Run("while it changes", func(t *testing.T) {
		r.sh(t, "rm -rf out; mkdir out; echo stays > out/stays")
		s, err := ws.Start(t.Context(), driver.Command{Script: "while :; do echo $RANDOM > out/a; mkdir -p out/d; mv out/a out/d/b; rm -r out/d; ln -s d/b out/l; rm out/l; done"})
		must(t, err)
		for range 20 {
			man, err := r.CollectOutputs(t.Context(), stage.OutputSpec{Inline: true})
			must(t, err)
			if diff := cmp.Diff("stays\n", contentOf(man, "out/stays")); diff != "" {
				t.Fatal(diff)
			}
		}
		must(t, s.Kill(t.Context(), 0))
	})
}

func contentOf(man stage.Manifest, name string) string {
	for _, f := range man.Files {
		if f.Name == name {
			return f.Content
		}
	}
	return ""
}
