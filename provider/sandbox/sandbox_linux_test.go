package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/croft-run/croft/posix/plot"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// guestVar tells processes that a test starts where croft-guest is.
const guestVar = "CROFT_TEST_GUEST"

func TestMain(m *testing.M) {
	if os.Getenv(guestVar) != "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "croft-sandbox-test-")
	if err != nil {
		panic(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // an ordinary user runs what is in it
		panic(err)
	}
	bin := filepath.Join(dir, "croft-guest")
	cmd := exec.Command("go", "build", "-o", bin, "github.com/croft-run/croft/cmd/croft-guest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		panic(string(out))
	}
	os.Setenv(guestVar, bin)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// lease is how long guests of tests live without an owner.
const lease = 20 * time.Second

func newProvider(t testing.TB, dir string) *Provider {
	t.Helper()
	p, err := New(&Config{Root: filepath.Join(dir, "ws"), Guest: os.Getenv(guestVar), Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func leftovers(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "ws"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != plot.LockName(Kind) {
			names = append(names, e.Name())
		}
	}
	return names
}

var harness = workspacetest.Harness{
	Provider:  func(t testing.TB, dir string) driver.Provider { return newProvider(t, dir) },
	Leftovers: leftovers,
}

func TestConformance(t *testing.T) { workspacetest.Run(t, harness) }

// TestConformanceTemplate runs the suite over workspaces whose files are an
// overlay, above a template that is empty.
func TestConformanceTemplate(t *testing.T) {
	h := harness
	empty := filepath.Join(filepath.Dir(os.Getenv(guestVar)), "empty-"+strconv.Itoa(os.Getuid()))
	if os.Getuid() != 0 {
		empty = filepath.Join(os.TempDir(), "empty")
	}
	if err := os.MkdirAll(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	h.Config = []byte(`{"template":"` + empty + `"}`)
	workspacetest.Run(t, h)
}

// TestConformanceUnprivileged runs the suite as an ordinary user.
func TestConformanceUnprivileged(t *testing.T) {
	asNobody(t, "^Test(Conformance|ConformanceTemplate|TemplateShowsThroughAndStaysAsItIs|InPlace|GuestIsFoundByTheNextProcess|DeadGuestIsEvictedOnceAndItsSessionsAreLost)$")
}

// asNobody runs tests of this binary as the user nobody, where this process is
// root; where it is not, they run as an ordinary user anyway.
func asNobody(t *testing.T, run string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: this process is not root, so the tests have run as an ordinary user")
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("skipped: the host has no setpriv")
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
	self := filepath.Join(filepath.Dir(os.Getenv(guestVar)), "tests")
	if err := copyFile(os.Args[0], self); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", self, "-test.run", run, "-test.v")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, guestVar + "=" + os.Getenv(guestVar)}
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	}
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755) //nolint:gosec // it is a program
}
