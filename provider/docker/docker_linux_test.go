package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// guestVar tells processes that a test starts where croft-guest is.
const guestVar = "CROFT_TEST_GUEST"

// farVar tells processes that a test starts where the engine listens on a network.
const farVar = "CROFT_TEST_DOCKER_TCP"

// daemon is the engine of this program; nil where there is none, or where it is
// another's, who has started this program.
var daemon *testenv.Dockerd

func TestMain(m *testing.M) {
	if os.Getenv(racerVar) != "" {
		os.Exit(race())
	}
	if os.Getenv(rollerVar) != "" {
		os.Exit(roll())
	}
	if os.Getenv(guestVar) != "" {
		os.Exit(m.Run())
	}
	os.Exit(withEngine(m))
}

func withEngine(m *testing.M) int {
	dir, err := os.MkdirTemp("", "croft-docker-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	os.Setenv(guestVar, testenv.BuildGuest(dir))
	if testenv.DockerMissing() == "" {
		address, err := testenv.Loopback()
		if err != nil {
			panic(err)
		}
		far := "tcp://" + address
		if daemon, err = testenv.StartDockerd(context.Background(), "-H", far); err != nil {
			panic(err)
		}
		os.Setenv(testenv.DockerVar, daemon.Host())
		os.Setenv(farVar, far)
		defer func() {
			if err := daemon.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "stop dockerd:", err)
			}
		}()
	}
	return m.Run()
}

// lease is how long guests of tests live without an owner. Some tests come back to
// one that had none, on a machine that may do nothing for seconds.
const lease = 2 * time.Minute

// cacheVar says where processes that a test starts have what workspaces share.
const cacheVar = "CROFT_TEST_CACHE"

func cache() string {
	if dir := os.Getenv(cacheVar); dir != "" {
		return dir
	}
	return filepath.Join(filepath.Dir(os.Getenv(guestVar)), "cache")
}

func config(dir string) *Config {
	return &Config{
		Root: filepath.Join(dir, "ws"), Cache: cache(), Host: os.Getenv(testenv.DockerVar), Guest: os.Getenv(guestVar), Lease: lease,
		Snapshots: snapshot.Open(snapshot.Dir(filepath.Join(dir, "store")), &snapshot.Options{CacheDir: filepath.Join(dir, "cache")}),
	}
}

func newProvider(t testing.TB, dir string, mods ...func(*Config)) *Provider {
	t.Helper()
	testenv.NeedsDocker(t)
	cfg := config(dir)
	for _, mod := range mods {
		mod(cfg)
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// leftovers lists what is left of workspaces below dir, and in the engine.
func leftovers(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "ws"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != wsdir.LockName(Kind) && e.Name() != rootIDName {
			names = append(names, e.Name())
		}
	}
	for _, c := range containers(t, dir) {
		names = append(names, "container "+c.Name)
	}
	for _, v := range volumes(t, dir) {
		names = append(names, "volume "+v.Name)
	}
	return names
}

// containers lists those of the data directory dir.
func containers(t testing.TB, dir string) []State {
	t.Helper()
	p := newProvider(t, dir)
	defer p.Close()
	list, err := p.engine.List(t.Context(), map[string]string{LabelRoot: filepath.Join(dir, "ws")})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// volumes lists those of the data directory dir.
func volumes(t testing.TB, dir string) []Volume {
	t.Helper()
	p := newProvider(t, dir)
	defer p.Close()
	list, err := p.engine.Volumes(t.Context(), map[string]string{LabelRoot: filepath.Join(dir, "ws")})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

var harness = workspacetest.Harness{
	Provider:  func(t testing.TB, dir string) driver.Provider { return newProvider(t, dir) },
	Leftovers: leftovers,
}

func TestConformance(t *testing.T) { workspacetest.Run(t, harness) }

func open(t testing.TB, p *Provider, mods ...func(*driver.Spec)) *driver.Workspace {
	t.Helper()
	spec := driver.Spec{ID: driver.NewID(), Kind: Kind}
	for _, mod := range mods {
		mod(&spec)
	}
	ws, err := p.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Life.Destroy(context.WithoutCancel(t.Context())) })
	return ws
}

func script(t testing.TB, ws *driver.Workspace, text string) driver.Result {
	t.Helper()
	res, err := ws.Shell.Run(t.Context(), driver.Command{Script: text})
	if err != nil {
		t.Fatalf("run %q: %v", text, err)
	}
	return res
}

func write(t testing.TB, ws *driver.Workspace, name, text string) {
	t.Helper()
	if _, err := ws.FS.Write(t.Context(), name, strings.NewReader(text), &driver.WriteOptions{}); err != nil {
		t.Fatalf("write %s: %v", name, err)
	}
}

// TestFilesAreSharedAndACommandRuns is the shortest way through: a file that is
// written by the boundary is seen inside, can be changed there, and the other way
// round.
func TestFilesAreSharedAndACommandRuns(t *testing.T) {
	dir := t.TempDir()
	p := newProvider(t, dir)
	ws := open(t, p)
	write(t, ws, "from-host", "hello")
	res := script(t, ws, "cat from-host; echo more >> from-host; echo made > from-inside; id -un; pwd")
	if got, want := string(res.Stdout), "hellocroft\n/workspace\n"; got != want || res.ExitCode != 0 {
		t.Fatalf("got %q (%+v), want %q", got, res, want)
	}
	write(t, ws, "from-inside", "changed")
	if got := string(script(t, ws, "cat from-host from-inside; rm from-host from-inside").Stdout); got != "hellomore\nchanged" {
		t.Errorf("got %q", got)
	}
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestTemporaryDirectoriesCanBeWritten tries those that programs expect.
func TestTemporaryDirectoriesCanBeWritten(t *testing.T) {
	anywhere(t, func(t *testing.T, p *Provider, _ string) {
		ws := open(t, p)
		res := script(t, ws, `for d in /tmp /var/tmp "$HOME" "$TMPDIR"; do echo x > "$d/x" && cat "$d/x"; done; ls -ld /tmp`)
		if got := string(res.Stdout); !strings.HasPrefix(got, "x\nx\nx\nx\ndrwxrwxrwt ") {
			t.Errorf("got %q (%s)", got, res.Stderr)
		}
	})
}

// TestLoginShellKeepsPath: /etc/profile of an image may set PATH anew, and then reads files that
// put the directories of the image and of the policy in front again.
func TestLoginShellKeepsPath(t *testing.T) {
	const path = "/tools/bin:/usr/local/bin:/usr/bin:/bin"
	p := newProvider(t, t.TempDir())
	ws := open(t, p, func(s *driver.Spec) { s.Policy.Env = map[string]string{"PATH": path} })
	res := script(t, ws, `PATH=/usr/bin:/bin; for i in /etc/profile.d/*.sh; do . "$i"; done; echo "$PATH"`)
	if got := strings.TrimSpace(string(res.Stdout)); got != path+":/usr/bin:/bin" {
		t.Errorf("PATH is %q (%s), want %q first", got, res.Stderr, path)
	}
}
