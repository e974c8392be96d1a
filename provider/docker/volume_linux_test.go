package docker

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// far makes the engine one that is reached over a network.
func far(c *Config) { c.Host = os.Getenv(farVar) }

// wholeVar makes TestSuiteOnVolumes run the whole suite, which takes minutes.
const wholeVar = "CROFT_TEST_VOLUMES"

// onVolumes are the areas of the suite in which it matters where the files are.
var onVolumes = []string{"Resolve", "Sweep", "Read", "Watch", "Durability", "Cancelled"}

// TestSuiteOnVolumes runs the suite against an engine that is reached over a
// network: the files of workspaces are on its volumes.
//
//croft:slow
func TestSuiteOnVolumes(t *testing.T) {
	if os.Getenv(wholeVar) == "" {
		all := workspacetest.Checks
		t.Cleanup(func() { workspacetest.Checks = all })
		workspacetest.Checks = slices.DeleteFunc(slices.Clone(all), func(c workspacetest.Check) bool {
			area, _, _ := strings.Cut(c.Name, "/")
			return !slices.Contains(onVolumes, area)
		})
	}
	h := harness
	h.Provider = func(t testing.TB, dir string) driver.Provider { return newProvider(t, dir, far) }
	workspacetest.Run(t, h)
}

// TestFilesOfAFarEngine is the shortest way through: nothing of the files is on this
// host, and what the guest keeps is not to be found inside.
func TestFilesOfAFarEngine(t *testing.T) {
	dir := t.TempDir()
	p := newProvider(t, dir, far)
	ws := open(t, p)
	write(t, ws, "from-host", "hello")
	res := script(t, ws, "cat from-host; echo more >> from-host; echo made > from-inside; id -un; pwd")
	if got, want := string(res.Stdout), "hellocroft\n/workspace\n"; got != want || res.ExitCode != 0 {
		t.Fatalf("got %q (%+v), want %q", got, res, want)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "ws", "*", "files", "*")); err != nil || len(left) > 0 {
		t.Errorf("on this host there are %v, %v", left, err)
	}
	res = script(t, ws, "find /.croft 2>/dev/null; ls -l /proc/self/fd /proc/1/fd 2>&1 | grep -o '/.croft.*'; true")
	if got := string(res.Stdout); got != "/.croft\n" {
		t.Errorf("of what the guest keeps there is to be found: %q", got)
	}
	again, err := newProvider(t, dir, far).Resolve(t.Context(), ws.Ref)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(script(t, again, "cat from-host from-inside").Stdout); got != "hellomore\nmade\n" {
		t.Errorf("another process reads %q", got)
	}
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestVolumeIsRemoved takes the files away: a container must not get empty ones
// instead.
func TestVolumeIsRemoved(t *testing.T) {
	p := newProvider(t, t.TempDir(), far)
	id := driver.NewID()
	ws := open(t, p, func(s *driver.Spec) { s.ID = id })
	write(t, ws, "kept", "acknowledged")
	if err := p.engine.Remove(t.Context(), containerName(id)); err != nil {
		t.Fatal(err)
	}
	if err := p.engine.RemoveVolume(t.Context(), containerName(id)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a call is told that the guest is gone", func() bool {
		_, err := ws.FS.Stat(t.Context(), "kept", &driver.StatOptions{})
		if code := fault.Of(err); code != fault.Evicted && code != fault.Unavailable { // which is one that began before that was known
			t.Fatalf("the next call gives %v, want %v", err, fault.Evicted)
		}
		return fault.Of(err) == fault.Evicted
	})
	for what, err := range map[string]error{
		"a call":  func() error { _, err := ws.FS.Stat(t.Context(), "kept", &driver.StatOptions{}); return err }(),
		"Resolve": func() error { _, err := p.Resolve(t.Context(), ws.Ref); return err }(),
	} {
		if fault.Of(err) != fault.Failed || fault.CauseOf(err) != fault.CauseGone || fault.IsTransient(err) {
			t.Errorf("%s gives %v, want %v with the cause %q", what, err, fault.Failed, fault.CauseGone)
		}
	}
}

// TestVolumeThatADeadProcessHeld: a process that died while it filled a volume left a
// container that uses it. The volume is removed all the same.
func TestVolumeThatADeadProcessHeld(t *testing.T) {
	dir := t.TempDir()
	p := newProvider(t, dir, far)
	id := driver.NewID()
	ws := open(t, p, func(s *driver.Spec) { s.ID = id })
	left, err := os.MkdirTemp(p.cfg.Cache, probePrefix) //nolint:usetesting // where the provider looks
	if err != nil {
		t.Fatal(err)
	}
	labels, err := p.objectLabels(t.Context(), probeID, probeID)
	if err != nil {
		t.Fatal(err)
	}
	u := ContainerSpec{Name: namePrefix + filepath.Base(left), Image: p.cfg.Image, Labels: labels, Command: []string{guestInside}, Mounts: []Mount{{Source: containerName(id), Target: guestWorkspaceDir, Volume: true}}}
	if _, err := p.engine.Create(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestEngineThatDoesNotSeeThisHost is one whose mounts of this host's directories are
// refused, as one in a virtual machine does: it is told by trying.
func TestEngineThatDoesNotSeeThisHost(t *testing.T) {
	var engine *fake
	p := newProvider(t, t.TempDir(), func(c *Config) {
		c.Cache = t.TempDir() // what is known of the engine of other tests is not true of this
		inner, err := Connect(c.Host)
		if err != nil {
			t.Fatal(err)
		}
		engine = newFake(blind{inner})
		c.Engine = engine
	})
	ws := open(t, p)
	write(t, ws, "file", "written")
	if got := string(script(t, ws, "cat file").Stdout); got != "written" {
		t.Errorf("the file holds %q", got)
	}
	if list, err := engine.Volumes(t.Context(), map[string]string{LabelRoot: p.cfg.Root}); err != nil || len(list) != 1 {
		t.Errorf("there are the volumes %v, %v", list, err)
	}
	_, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind, Config: []byte(`{"files":"directory"}`)})
	if fault.Of(err) != fault.Unsupported {
		t.Errorf("a directory that is asked for is answered with %v, want %v", err, fault.Unsupported)
	}
	_, err = p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind, Config: []byte(`{"files":"tape"}`)})
	if fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), FilesVolume) {
		t.Errorf("an unknown place is answered with %v", err)
	}
}

// blind is an engine that finds no directory of this host.
type blind struct{ Engine }

func (b blind) Create(ctx context.Context, u ContainerSpec) (string, error) {
	for i, m := range u.Mounts {
		if !m.Volume {
			u.Mounts = slices.Clone(u.Mounts)
			u.Mounts[i].Source = m.Source + ".missing"
		}
	}
	return b.Engine.Create(ctx, u)
}

// TestWhatAVolumeCantDoIsRefused asks for what only a directory gives.
func TestWhatAVolumeCantDoIsRefused(t *testing.T) {
	p := newProvider(t, t.TempDir(), far)
	for what, policy := range map[string]driver.Policy{
		"network": {Network: driver.Network{Open: true}},
		"durable": {Durable: true},
		"disk":    {Limits: driver.Limits{driver.ResourceDisk: {Max: 1 << 20}}},
	} {
		_, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind, Policy: policy})
		if fault.Of(err) != fault.Unsupported {
			t.Errorf("%s is answered with %v, want %v", what, err, fault.Unsupported)
		}
	}
}
