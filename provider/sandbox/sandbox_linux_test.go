package sandbox

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-run/croft/internal/host/cgroup"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// These tell processes that a test starts where croft-guest and gVisor's program
// are, and the one level that there is to be; the latter two may be "".
const (
	guestVar = "CROFT_TEST_GUEST"
	runscVar = "CROFT_TEST_RUNSC"
	levelVar = "CROFT_TEST_LEVEL"

	unifiedVar = "CROFT_TEST_UNIFIED" // control groups of version 2, for all that they can do here
)

func TestMain(m *testing.M) {
	if os.Getenv(unifiedVar) != "" {
		cgroup.PreferV2()
	}
	if os.Getenv(guestVar) != "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "croft-sandbox-test-")
	if err != nil {
		panic(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		panic(err)
	}
	os.Setenv(guestVar, testenv.BuildGuest(dir))
	if path := testenv.Runsc(); path != "" {
		own := filepath.Join(dir, "runsc")
		if err := copyFile(path, own); err != nil {
			panic(err)
		}
		os.Setenv(runscVar, own)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// lease is how long guests of tests live without an owner.
const lease = time.Minute

func newProvider(t testing.TB, dir string) *Provider {
	t.Helper()
	p, err := New(&Config{Layers: filepath.Join(dir, "layers"), Snapshots: snapshot.Open(snapshot.Dir(filepath.Join(dir, "store")), &snapshot.Options{CacheDir: filepath.Join(dir, "cache")}), Root: filepath.Join(dir, "ws"), Guest: os.Getenv(guestVar), Runsc: os.Getenv(runscVar), Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	if level := driver.Isolation(os.Getenv(levelVar)); level != "" {
		p.onlyLevel, p.cfg.Isolation = level, level
	}
	return p
}

// levelHere is the level that tests run at.
func levelHere() driver.Isolation {
	return cmp.Or(driver.Isolation(os.Getenv(levelVar)), driver.IsolationNamespaces)
}

// here reports whether tests run at one of the given levels.
func here(levels ...driver.Isolation) bool { return slices.Contains(levels, levelHere()) }

func leftovers(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "ws"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != wsdir.LockName(Kind) {
			names = append(names, e.Name())
		}
	}
	return names
}

var harness = workspacetest.Harness{
	Provider:  func(t testing.TB, dir string) driver.Provider { return newProvider(t, dir) },
	Leftovers: leftovers,
}

//croft:race ^(Concurrency|Shell|Sessions|Watch)
func TestConformance(t *testing.T) { workspacetest.Run(t, harness) }

// TestConformanceTemplate runs the suite over workspaces whose files are an
// overlay, above a template that is empty, and which are the home of a user.
//
//croft:slow
func TestConformanceTemplate(t *testing.T) {
	h := harness
	empty := filepath.Join(filepath.Dir(os.Getenv(guestVar)), "empty-"+strconv.Itoa(os.Getuid()))
	if os.Getuid() != 0 {
		empty = filepath.Join(os.TempDir(), "empty")
	}
	if err := os.MkdirAll(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	h.Config = []byte(`{"template":"` + empty + `","user":"user","at":"/home/user"}`)
	workspacetest.Run(t, h)
}

// TestConformanceUnprivileged runs the suite as an ordinary user.
//
//croft:slow
func TestConformanceUnprivileged(t *testing.T) {
	asNobody(t, "^Test(Conformance|ConformanceTemplate|TemplateShowsThroughAndStaysAsItIs|InPlace|GuestIsFoundByTheNextProcess|DeadGuestIsEvictedOnceAndItsSessionsAreLost)$")
}

// asNobody runs tests of this binary as the user nobody, where this process is
// root; where it is not, they run as an ordinary user anyway.
func asNobody(t *testing.T, run string) {
	t.Helper()
	nobodyAt(t, "", run)
}

// ownTests returns a copy of this program that every user may run.
var ownTests = sync.OnceValues(func() (string, error) {
	self := filepath.Join(filepath.Dir(os.Getenv(guestVar)), "tests")
	return self, copyFile(os.Args[0], self)
})

func nobodyAt(t *testing.T, level driver.Isolation, run string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: this process is not root, so the tests have run as an ordinary user")
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("skipped: host: it has no setpriv")
	}
	dir, err := os.MkdirTemp("", "croft-nobody-") //nolint:usetesting // another user can't enter what t.TempDir is in
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	const nobody = 65534
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	self, err := ownTests()
	if err != nil {
		t.Fatal(err)
	}
	again(t, "as an ordinary user", level, dir, setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", self, "-test.run", run, "-test.v")
}

// atLevel runs tests of this binary where there is no level but one: as this user
// and, where that is root, as an ordinary one.
func atLevel(t *testing.T, level driver.Isolation, run string) {
	t.Helper()
	if level == driver.IsolationProcess && os.Getuid() == 0 { // where it is refused
		t.Run("as-nobody", func(t *testing.T) { nobodyAt(t, level, run) })
		return
	}
	needLevel(t, level)
	t.Run("as-this-user", func(t *testing.T) {
		again(t, "at level "+string(level), level, t.TempDir(), os.Args[0], "-test.run", run, "-test.v")
	})
	t.Run("as-nobody", func(t *testing.T) { nobodyAt(t, level, run) })
}

// again runs tests of this binary in another process.
func again(t *testing.T, how string, level driver.Isolation, dir string, argv ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir,
		guestVar + "=" + os.Getenv(guestVar), runscVar + "=" + os.Getenv(runscVar), levelVar + "=" + string(level), unifiedVar + "=" + os.Getenv(unifiedVar),
	}
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", how, err, out)
	}
	for line := range strings.Lines(string(out)) { // what was left out there must be seen here
		if strings.Contains(line, "skipped: host") || strings.Contains(line, testenv.AttackPrefix) {
			t.Log(strings.TrimSpace(line))
		}
	}
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}
