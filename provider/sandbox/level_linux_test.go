package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// at is a harness whose workspaces are at a level.
func at(level driver.Isolation) workspacetest.Harness {
	h := harness
	h.Provider = func(t testing.TB, dir string) driver.Provider {
		p := newProvider(t, dir)
		p.onlyLevel, p.cfg.Isolation = level, level
		return p
	}
	return h
}

// needLevel skips where the host lacks what a level is made of.
func needLevel(t *testing.T, level driver.Isolation) {
	t.Helper()
	for _, r := range newProvider(t, t.TempDir()).levels(t.Context()) {
		if r.Level == level && !r.Works && r.Level == driver.IsolationGVisor && os.Getenv(runscVar) != "" {
			t.Fatalf("gVisor is installed and does not work: %s", r.Reason)
		}
		if r.Level == level && !r.Works {
			t.Skipf("skipped: host: %s: %s", level, r.Reason)
		}
	}
}

//croft:slow
func TestConformanceBubblewrap(t *testing.T) {
	needLevel(t, driver.IsolationBubblewrap)
	workspacetest.Run(t, at(driver.IsolationBubblewrap))
}

//croft:slow
func TestConformanceProcess(t *testing.T) {
	if os.Getuid() == 0 { // where it is refused
		nobodyAt(t, driver.IsolationProcess, "^TestConformanceProcess$")
		return
	}
	needLevel(t, driver.IsolationProcess)
	workspacetest.Run(t, at(driver.IsolationProcess))
}

// TestAttackLevelProcessAsRoot: without namespaces a workload of root could change the modes
// of files of root.
func TestAttackLevelProcessAsRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: this process is not root")
	}
	testenv.ReportAttack(t, "chmod of files of root", string(driver.IsolationProcess), testenv.Prevented, "the level is refused where Croft is root")
	p := newProvider(t, t.TempDir())
	p.onlyLevel = driver.IsolationProcess
	_, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind, Policy: driver.Policy{Isolation: driver.IsolationProcess}})
	if fault.Of(err) != fault.Unsupported || !strings.Contains(err.Error(), "run croft as an ordinary user") {
		t.Errorf("got %v", err)
	}
}

func TestLevelsSayWhatTheyAreAndWhyNot(t *testing.T) {
	for _, r := range newProvider(t, t.TempDir()).levels(t.Context()) {
		t.Logf("%+v", r)
		if r.Works != (r.Reason == "") || r.Works != (r.Proof != "") {
			t.Errorf("%s: works is %v, proof %q, reason %q", r.Level, r.Works, r.Proof, r.Reason)
		}
	}
}

func TestLevelThatIsNotThereFailsClosed(t *testing.T) {
	p := newProvider(t, t.TempDir())
	_, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind, Policy: driver.Policy{Isolation: driver.IsolationVM}})
	if err == nil || !strings.Contains(err.Error(), "vm") {
		t.Errorf("a level that there is not gives %v", err)
	}
	if left := leftovers(t, filepath.Dir(p.store.Path())); len(left) > 0 {
		t.Errorf("it made %v", left)
	}
}
