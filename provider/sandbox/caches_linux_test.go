package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// TestCaches shows caches of the host at each level. Where there are layers, the workload
// reads and writes them, and the layer lives as long as the workspace; elsewhere a
// read-only cache is read-only and another one is left out. The host's files stay as they
// are, and a hidden file is not read.
func TestCaches(t *testing.T) {
	atEachLevel(t, func(t *testing.T, p *Provider, level driver.Isolation) {
		home := t.TempDir()
		files := map[string]string{"npm/entry": "warm", "npm/token": "planted", "cargo/registry/entry": "crate", "cargo/credentials.toml": "planted"}
		for name, text := range files {
			path := filepath.Join(home, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		ws := open(t, p, config(fmt.Sprintf(`{"caches": [{"dir": "%[1]s/npm", "var": "npm_config_cache", "hide": ["token"]},
			{"dir": "%[1]s/cargo/registry", "home": "%[1]s/cargo", "var": "CARGO_HOME", "readOnly": true}, {"dir": "%[1]s/missing"}]}`, home)))
		layers := level == driver.IsolationNamespaces || level == driver.IsolationGVisor
		got := output(t, ws, fmt.Sprintf(`cd %s 2> /dev/null || exit 0
cat npm/entry cargo/registry/entry npm/token cargo/credentials.toml 2> /dev/null; echo
echo more 2> /dev/null >> npm/entry && echo "$npm_config_cache"; echo more 2> /dev/null >> cargo/registry/entry && echo "$CARGO_HOME"; true`, home))
		want := map[driver.Isolation]string{driver.IsolationBubblewrap: "crate"}[level]
		if layers {
			want = fmt.Sprintf("warmcrate\n%[1]s/npm\n%[1]s/cargo", home)
		}
		if got != want {
			t.Errorf("inside %q, want %q", got, want)
		}
		if layers {
			if got := output(t, ws, "cat "+home+"/npm/entry"); got != "warmmore" {
				t.Errorf("the next command reads %q", got)
			}
		}
		for name, want := range files {
			if got, err := os.ReadFile(filepath.Join(home, name)); string(got) != want {
				t.Errorf("%s of the host is %q, %v", name, got, err)
			}
		}
		if entries, err := os.ReadDir(filepath.Join(home, "npm")); len(entries) != 2 {
			t.Errorf("the cache of the host has %v, %v", entries, err)
		}
	})
}

// TestCachesUnprivileged is TestCaches as an ordinary user.
func TestCachesUnprivileged(t *testing.T) { asNobody(t, "^TestCaches$") }

// TestInvalidCaches refuses caches that would show or hide more than a cache.
func TestInvalidCaches(t *testing.T) {
	p, dir := newProvider(t, t.TempDir()), t.TempDir()
	for _, text := range []string{
		`{"caches": [{"dir": "relative"}]}`,
		`{"caches": [{"dir": "/etc"}]}`,
		`{"caches": [{"dir": "/home/croft/.npm"}]}`,
		fmt.Sprintf(`{"caches": [{"dir": %q, "var": "LD_PRELOAD"}]}`, dir),
		fmt.Sprintf(`{"caches": [{"dir": %q, "hide": ["../x"]}]}`, dir),
		fmt.Sprintf(`{"caches": [{"dir": %q, "home": %[1]q}]}`, dir),
		fmt.Sprintf(`{"caches": [{"dir": %q}], "binds": [{"dir": %[1]q}]}`, dir),
	} {
		ws, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind, Config: []byte(text)})
		if fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%s: %v", text, err)
		}
		if err == nil {
			ws.Life.Destroy(t.Context())
		}
	}
}
