package cli_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/workspace/driver"
)

// TestPrepKilledAtRandomMoments kills croft prep again and again while it brings
// one workspace to two states in turn. Whenever it gets to its end everything is
// as the file says, nothing is left aside, and nothing outside was touched.
func TestPrepKilledAtRandomMoments(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := &crash{t: t, data: filepath.Join(t.TempDir(), "data"), rng: rand.New(rand.NewPCG(seed, 0))}
	host := t.TempDir()
	for i := range 40 {
		writeFile(t, filepath.Join(host, "tree", fmt.Sprintf("d%d/f%d", i%5, i)), strings.Repeat("x", 3000))
	}
	victim := filepath.Join(host, "victim")
	writeFile(t, victim, "precious")
	prepSpec := func(version string) string {
		file := filepath.Join(host, version+".yaml")
		writeFile(t, file, fmt.Sprintf(`version: 1
files:
  - {target: work/a, content: "%[1]s"}
  - {target: work/b, content: "%[1]s", mode: "0755"}
inputs:
  - {from: "host://%[2]s/tree", to: "work/tree"}
commands:
  - {key: build, script: "cat work/a >>out/built", inputs: [work/a], observed: [out/built]}
`, version, host))
		return file
	}
	specs := []string{prepSpec("one"), prepSpec("two")}
	if out, err := c.croft(t.Context(), "ws", "open", "demo", "--provider", "local").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	whole := 0
	const rounds = 8
	for round := range rounds {
		spec := specs[round%2]
		killed := c.killedPrep(t.Context(), spec)
		if !killed {
			whole++
		}
		out, err := c.croft(t.Context(), "prep", spec, "--workspace", "demo").CombinedOutput()
		if err != nil {
			t.Fatalf("round %d: after the kill: %v: %s", round, err, out)
		}
		plan, err := c.croft(t.Context(), "prep", spec, "--workspace", "demo", "--dry-run").Output()
		if err != nil || strings.Contains(string(plan), "create") || strings.Contains(string(plan), "update") || strings.Contains(string(plan), "repair") {
			t.Fatalf("round %d: there is still something to do: %v: %s", round, err, plan)
		}
		version := strings.TrimSuffix(filepath.Base(spec), ".yaml")
		c.wantPrepared(version)
	}
	t.Logf("%d of %d were killed", rounds-whole, rounds)
	if data, err := os.ReadFile(victim); err != nil || string(data) != "precious" {
		t.Errorf("what is outside holds %q, %v", data, err)
	}
}

// killedPrep runs croft prep and kills it within some time; it reports whether that
// came before the end.
func (c *crash) killedPrep(ctx context.Context, spec string) bool {
	cmd := c.croft(ctx, "prep", spec, "--workspace", "demo")
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	const window = 250 * time.Millisecond
	timer := time.AfterFunc(time.Duration(c.rng.Int64N(int64(window))), func() { cmd.Process.Kill() })
	err := cmd.Wait()
	return !timer.Stop() && err != nil
}

func (c *crash) wantPrepared(version string) {
	c.t.Helper()
	c.with(func(_ *app.System, client *client.Client) {
		ws, _, err := client.Attach(c.t.Context(), "demo")
		if err != nil {
			c.t.Fatal(err)
		}
		for _, name := range []string{"work/a", "work/b"} {
			body, _, err := ws.FS.Read(c.t.Context(), name, &driver.ReadOptions{})
			if err != nil {
				c.t.Fatal(err)
			}
			data, err := io.ReadAll(body)
			if body.Close(); err != nil || string(data) != version {
				c.t.Errorf("%s holds %q, %v; want %q", name, data, err, version)
			}
		}
		list, err := ws.FS.List(c.t.Context(), ".", &driver.ListOptions{Depth: -1, Limit: 1000})
		if err != nil {
			c.t.Fatal(err)
		}
		files := 0
		for _, e := range list.Entries {
			if strings.Contains(e.Path, ".croft") {
				c.t.Errorf("%s was left", e.Path)
			}
			if strings.HasPrefix(e.Path, "work/tree/") && e.Type == driver.TypeFile {
				files++
			}
		}
		if files != 40 {
			c.t.Errorf("the tree has %d files, want 40", files)
		}
	})
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
