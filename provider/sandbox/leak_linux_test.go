package sandbox

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/guest/keep"
	"github.com/croft-run/croft/workspace/driver"
)

// childVar makes this test binary a Croft that is killed at a random moment.
const childVar = "CROFT_TEST_LEAK"

// TestLeakChild is not a test: TestNothingIsLeft starts it.
func TestLeakChild(t *testing.T) {
	dir := os.Getenv(childVar)
	if dir == "" {
		t.Skip("skipped: it is run by TestNothingIsLeft alone")
	}
	p := newLeaky(t, dir)
	for {
		ws, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind, Policy: driver.Policy{Limits: driver.Limits{PIDs: driver.Limit{Max: 100, BestEffort: true}}}})
		if err != nil {
			t.Fatal(err)
		}
		ws.Shell.Start(t.Context(), driver.Command{Script: "sleep 1000 & setsid sleep 1000 & sleep 1000", Detached: true}) // it is about being killed
		ws.Shell.Run(t.Context(), driver.Command{Script: "sleep 0.01"})                                                    // likewise
		if rand.IntN(2) == 0 {
			ws.Life.Destroy(t.Context()) // likewise
		}
	}
}

// newLeaky returns a provider whose guests do not live long without an owner.
func newLeaky(t testing.TB, dir string) *Provider {
	t.Helper()
	p, err := New(&Config{Root: filepath.Join(dir, "ws"), Guest: os.Getenv(guestVar), Lease: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// traces lists what there is on this host of workspaces below dir, or of guests
// that the program guest is.
func traces(t testing.TB, bin string) (processes, groups []string) {
	t.Helper()
	want, err := os.Stat(bin)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if exe, err := os.Stat(filepath.Join("/proc", e.Name(), "exe")); err == nil && os.SameFile(exe, want) {
			processes = append(processes, e.Name())
		}
	}
	for _, c := range hostControllers() {
		if c.err != nil {
			continue
		}
		entries, err := os.ReadDir(c.dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), groupPrefix) && !strings.Contains(e.Name(), "probe") {
				groups = append(groups, filepath.Join(c.dir, e.Name()))
			}
		}
	}
	return processes, groups
}

// TestNothingIsLeft kills Croft, guests and their children at random moments,
// lets the lease of what has no owner pass, sweeps, and counts.
func TestNothingIsLeft(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "croft-guest") // its own, so that other tests' guests are not counted
	if err := copyFile(os.Getenv(guestVar), bin); err != nil {
		t.Fatal(err)
	}
	t.Setenv(guestVar, bin)
	t.Setenv("TMPDIR", t.TempDir())
	_, groupsBefore := traces(t, bin)
	dir := t.TempDir()
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	guests := 0
	for range rounds {
		guests += killedRound(t, dir)
	}
	if guests == 0 {
		t.Error("no guest was seen: the test tests nothing")
	}
	p := newLeaky(t, dir)
	eventually(t, "guests without an owner ended", func() bool {
		processes, _ := traces(t, bin)
		return len(processes) == 0
	})
	if err := p.Sweep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left on disk: %v", left)
	}
	probes, err := filepath.Glob(filepath.Join(os.TempDir(), probePrefix+"*"))
	if err != nil || len(probes) > 0 {
		t.Errorf("left of probes: %v, %v", probes, err)
	}
	_, groups := traces(t, bin)
	before := strings.Join(groupsBefore, " ")
	for _, g := range groups {
		if !strings.Contains(before, g) {
			t.Errorf("left: group %s", g)
		}
	}
}

// killedRound lets a Croft work for a moment, kills some of its guests, and then
// itself. It returns how many guests it saw.
func killedRound(t *testing.T, dir string) (guests int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	proc, err := os.StartProcess(self, []string{self, "-test.run=^TestLeakChild$"}, &os.ProcAttr{Env: append(os.Environ(), childVar+"="+dir)})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Duration(100+rand.IntN(400)) * time.Millisecond)
	records, err := filepath.Glob(filepath.Join(dir, "ws", "*", keep.RecordName))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if rec, err := keep.Read(filepath.Dir(r)); err == nil && rec != nil && rec.PID > 0 && rand.IntN(3) == 0 {
			syscall.Kill(rec.PID, syscall.SIGKILL) // it may be dead
		}
	}
	time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
	proc.Kill()
	proc.Wait()
	return len(records)
}

func TestManyAtOnce(t *testing.T) {
	p := newProvider(t, t.TempDir())
	const many = 200
	ws := open(t, p)
	errs := make(chan error, many)
	for range many {
		go func() {
			res, err := ws.Shell.Run(context.Background(), driver.Command{Script: "echo works"})
			if err == nil && string(res.Stdout) != "works\n" {
				err = fault.Internal
			}
			errs <- err
		}()
	}
	for range many {
		if err := <-errs; err != nil {
			t.Errorf("one of %d: %v", many, err)
		}
	}
}
