package docker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// TestOpenNeedsTheImage: an image that is neither there nor to be had is found by Open,
// and leaves nothing; one that is there starts no container before it is needed; and a
// workspace that is there opens also without its image.
func TestOpenNeedsTheImage(t *testing.T) {
	dir := t.TempDir()
	engine := newFake(newProvider(t, t.TempDir()).engine)
	engine.on("Pull", func(context.Context) error { return fmt.Errorf("fake: pull: %w: no such image", fault.NotFound) })
	p := newProvider(t, dir, func(c *Config) { c.Engine = engine })
	const name = "croft-test/missing:1"
	spec := driver.Spec{ID: driver.NewID(), Kind: Kind, Config: []byte(`{"image":"` + name + `"}`)}
	_, err := p.Open(t.Context(), spec)
	if fault.Of(err) != fault.Failed || fault.IsTransient(err) || !strings.Contains(err.Error(), "image "+name+" is not in the engine, and can't be pulled") {
		t.Errorf("open: %v, want that it failed for good, with the image", err)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	engine.on("Pull", func(context.Context) error { return fmt.Errorf("fake: pull: %w: no answer", fault.Unavailable) })
	if _, err := p.Open(t.Context(), spec); fault.Of(err) != fault.Failed || !fault.IsTransient(err) {
		t.Errorf("open while the registry does not answer: %v, want that it may be tried again", err)
	}

	bringFile(t, p, "FROM "+DefaultImage+"\n", name)
	made := len(engine.called("Create"))
	ws, err := p.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Life.Destroy(context.WithoutCancel(t.Context())) })
	if got := len(engine.called("Create")); got != made {
		t.Errorf("to open it made %d containers", got-made)
	}
	if err := p.engine.RemoveImage(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Open(t.Context(), spec); err != nil {
		t.Errorf("open what is there: %v", err)
	}
}

// bringFile makes an image by a Dockerfile.
func bringFile(t *testing.T, p *Provider, text, name string) {
	t.Helper()
	if _, err := p.ensureImage(t.Context(), DefaultImage); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "Dockerfile")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (Images{p.engine}).Import(t.Context(), file, name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.engine.RemoveImage(context.WithoutCancel(t.Context()), name) })
}

// TestVolumesOfAnImage: what an image declares as a volume can be written to, up to a
// limit, and is gone with the container; the rest of the image can't be, and nothing is
// left on the engine's disk.
func TestVolumesOfAnImage(t *testing.T) {
	anywhere(t, func(t *testing.T, p *Provider, dir string) {
		const name = "croft-test/volumes:1"
		bringFile(t, p, "FROM "+DefaultImage+"\nVOLUME /data\nVOLUME [\"/var/cache/one\", \"/tmp\", \"/workspace\", \"/home\"]\n", name)
		ws := open(t, p, func(s *driver.Spec) {
			s.Config = []byte(`{"image":"` + name + `"}`)
			s.Policy.Limits = driver.Limits{driver.ResourceMemory: {Max: 128 << 20}}
		})
		write(t, ws, "kept", "kept\n")
		res := script(t, ws, `cat kept; echo home > ~/x && cat ~/x
for d in /data /var/cache/one; do
	grep -q " $d tmpfs " /proc/mounts && echo small > $d/x && cat $d/x
	head -c 40000000 /dev/zero > $d/large 2>/dev/null && echo too large
	rm -f $d/large
done
echo x > /usr/x; echo x > /var/x`)
		if got, want := string(res.Stdout), "kept\nhome\nsmall\nsmall\n"; got != want || strings.Count(string(res.Stderr), "Read-only file system") != 2 {
			t.Errorf("got %q (%s), want %q and a root that can't be written", got, res.Stderr, want)
		}
		if _, err := ws.FS.Stat(t.Context(), "kept", &driver.StatOptions{}); err != nil {
			t.Error(err)
		}
		if err := ws.Life.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := leftovers(t, dir); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		bringFile(t, p, "FROM "+DefaultImage+"\nVOLUME /workspace/data\n", "croft-test/volumes:2")
		ws = open(t, p, func(s *driver.Spec) { s.Config = []byte(`{"image":"croft-test/volumes:2"}`) })
		if _, err := ws.Shell.Run(t.Context(), driver.Command{Script: "true"}); err == nil || !strings.Contains(err.Error(), "declares the volume /workspace/data") {
			t.Errorf("a volume in the workspace: %v, want it to be refused", err)
		}
	})
}
