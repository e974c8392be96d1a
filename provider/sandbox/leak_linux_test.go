package sandbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/cgroup"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/internal/host/wsdir"
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
		id := driver.NewID()
		note(t, dir, id)
		ws, err := p.Open(t.Context(), driver.Spec{ID: id, Kind: Kind, Policy: leakyPolicy})
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

// idsName is a file with the ids of all workspaces that were ever asked for.
const idsName = "ids"

func note(t testing.TB, dir, id string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, idsName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(id + "\n"); err != nil {
		t.Fatal(err)
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

// guestProcesses lists the processes of this host that the program bin is.
func guestProcesses(t testing.TB, bin string) (processes []string) {
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
	return processes
}

// groupsIn lists the cgroups of the workspaces that were ever asked for. Others may run
// tests, too, so those of other workspaces do not count.
func groupsIn(t testing.TB, p *Provider, dir string) (groups []string) {
	t.Helper()
	ids, err := os.ReadFile(filepath.Join(dir, idsName))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range strings.Fields(string(ids)) {
		g := cgroupsOf(launchSpec{level: new(level), id: id, log: p.store.Path(id, logName), policy: leakyPolicy})
		for _, group := range g.Dirs() {
			if _, err := os.Stat(group); err == nil {
				groups = append(groups, group)
			}
		}
	}
	return groups
}

// leakyPolicy has a limit, so that guests have cgroups.
var leakyPolicy = driver.Policy{Limits: driver.Limits{driver.ResourcePIDs: {Max: 100, BestEffort: true}}}

// TestNothingIsLeft kills Croft, guests and their children at random moments,
// lets the lease of what has no owner pass, sweeps, and counts.
func TestNothingIsLeft(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "croft-guest") // its own, so that other tests' guests are not counted
	if err := copyFile(os.Getenv(guestVar), bin); err != nil {
		t.Fatal(err)
	}
	t.Setenv(guestVar, bin)
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	before := hostTraces(t)
	rounds := crashRounds(t)
	var guests atomic.Int64
	var wg sync.WaitGroup
	turns := make(chan struct{}, 4) // at once
	for range rounds {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			guests.Add(int64(killedRound(t, dir)))
		})
	}
	wg.Wait()
	t.Logf("%d rounds, in which %d guests were seen", rounds, guests.Load())
	if guests.Load() == 0 {
		t.Error("no guest was seen: the test tests nothing")
	}
	p := newLeaky(t, dir)
	if cgroup.Find(cgroup.PIDs).Err == nil && len(groupsIn(t, p, dir)) == 0 {
		t.Error("no cgroup of a killed workspace is there before the sweep: the test of cgroups tests nothing")
	}
	eventually(t, "guests without an owner ended", func() bool {
		return len(guestProcesses(t, bin)) == 0
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
	if groups := groupsIn(t, p, dir); len(groups) > 0 {
		t.Errorf("left: groups %v", groups)
	}
	after := hostTraces(t)
	if after.mounts > before.mounts || after.loops > 0 {
		t.Errorf("mounts and loop devices were %+v and are %+v", before, after)
	}
	for space, pid := range after.spaces { // a namespace lives by its processes, and there is none of ours
		if _, was := before.spaces[space]; !was && exeIs(pid, bin) {
			t.Errorf("left: namespace %s of %s", space, pid)
		}
	}
}

// crashRounds is how often this test kills: as the environment says, or often
// enough to notice.
func crashRounds(t testing.TB) int {
	t.Helper()
	if text := os.Getenv("CROFT_CRASH_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("CROFT_CRASH_ROUNDS is %q, want a number of rounds", text)
		}
		return n
	}
	if testing.Short() {
		return 8
	}
	return 100
}

// A hostTrace is what the host has of things that could be left.
type hostTrace struct {
	mounts, loops int
	spaces        map[string]string // namespaces, with a process in each
}

func hostTraces(t testing.TB) hostTrace {
	t.Helper()
	trace := hostTrace{spaces: map[string]string{}}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	trace.mounts = strings.Count(string(mounts), "TestNothingIsLeft")
	backing, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range backing {
		if data, err := os.ReadFile(file); err == nil && strings.Contains(string(data), "TestNothingIsLeft") {
			trace.loops++
		}
	}
	links, err := filepath.Glob("/proc/[0-9]*/ns/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if name, err := os.Readlink(link); err == nil {
			trace.spaces[name] = strings.Split(link, "/")[2]
		}
	}
	return trace
}

func exeIs(pid, bin string) bool {
	want, err := os.Stat(bin)
	if err != nil {
		return false
	}
	exe, err := os.Stat(filepath.Join("/proc", pid, "exe"))
	return err == nil && os.SameFile(exe, want)
}

// killedRound lets a Croft work for a moment, kills some of its guests, and then
// itself. It returns how many guests it saw.
func killedRound(t *testing.T, dir string) (guests int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Error(err)
		return 0
	}
	proc, err := os.StartProcess(self, []string{self, "-test.run=^TestLeakChild$"}, &os.ProcAttr{Env: append(os.Environ(), childVar+"="+dir)})
	if err != nil {
		t.Error(err)
		return 0
	}
	for till := time.Now().Add(10 * time.Second); time.Now().Before(till); time.Sleep(10 * time.Millisecond) {
		if len(guestsIn(t, dir)) > 0 {
			break // on a machine under load the first guest takes its time
		}
	}
	time.Sleep(time.Duration(100+rand.IntN(300)) * time.Millisecond)
	records := guestsIn(t, dir)
	const most = 20 // of those that were left by rounds before, most are dead
	rand.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
	records = records[:min(len(records), most)]
	for _, rec := range records {
		if rec.PID <= 0 {
			continue
		}
		switch rand.IntN(4) {
		case 0:
			rec.Kill(t.Context(), 0) // the guest, if it is still that; it may be dead
		case 1:
			killChildren(rec)
		}
	}
	time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
	proc.Kill()
	proc.Wait()
	return len(records)
}

// guestsIn returns the records of guests of the workspaces below dir.
func guestsIn(t *testing.T, dir string) (recs []*supervise.Record) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "ws", "*"))
	if err != nil {
		t.Error(err)
	}
	for _, path := range all {
		if rec := supervise.ReadRecord(wsdir.Dir{Path: path, Kind: Kind}); rec != nil {
			recs = append(recs, rec)
		}
	}
	return recs
}

// killChildren kills what a guest runs. Numbers of processes are used again, and
// this host has other processes: a child is killed through a descriptor, and only
// if the guest is the one of the record after that was opened.
func killChildren(rec *supervise.Record) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", rec.PID))
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for _, field := range strings.Fields(string(data)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				continue
			}
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				continue
			}
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			_, rest, _ := strings.Cut(string(stat), ") ")
			if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(rec.PID) && rec.Alive() {
				unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // it may be dead
			}
			unix.Close(fd)
		}
	}
}

//croft:race
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
