package e2e

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/croft-run/croft/internal/host/cgroup"
	"github.com/croft-run/croft/internal/testenv"
)

// The size of the load. The defaults are the short form; "make load" has the long one.
var (
	loadDuration   = flag.Duration("load.duration", 40*time.Second, "how long the clients work")
	loadWorkspaces = flag.Int("load.workspaces", 16, "live workspaces")
	loadClients    = flag.Int("load.clients", 8, "SDK clients")
	loadKills      = flag.Int("load.kills", 1, "how often the server is killed by kill -9 and started again; once more it ends by SIGTERM")
	loadPause      = flag.Duration("load.pause", 200*time.Millisecond, "longest pause of a client between two operations")
)

// maxHang is how long after an outage an operation may last whose connection was lost.
const maxHang = 15 * time.Second

// clientsPerProcess is how many clients share a Node process.
const clientsPerProcess = 10

// What a server may have after the load beyond what it had before. Goroutines and
// descriptors differ by timers and by connections to the database; memory by what Go's
// allocator keeps.
const (
	moreGoroutines  = 10
	moreDescriptors = 10
	moreMemory      = 48 << 20
)

// A loadEvent is a line that load.mjs prints.
type loadEvent struct {
	Type string

	// Of an error.
	Kind       string
	Start, End int64 // Unix time in milliseconds
	Lost       bool  // acknowledged data, or a live sandbox, is not there
	Class      string
	Message    string

	// Of the report.
	Operations map[string][]int // milliseconds of operations that succeeded, by kind
	Unanswered int              // sandboxes that were created without an answer
}

// An outage is the time from a kill of the server to its first answer afterwards.
type outage struct{ from, to time.Time }

// A loadRun is the server with the clients that work on it.
type loadRun struct {
	t       *testing.T
	begin   time.Time
	server  *upServer
	name    string // the metadata of its sandboxes
	temp    string // TMPDIR of the server
	outages []outage

	mu        sync.Mutex
	errors    []loadEvent // guarded by mu
	latencies map[string][]int
	lostReply int
}

// A loadProcess is a Node process with its clients.
type loadProcess struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	events chan loadEvent // all but errors
}

// TestLoad lets SDK clients work on live workspaces while the server is killed and started
// again. Nothing that was acknowledged is lost, errors are only those of a connection to a
// server that is away, and nothing is left over afterwards.
//
//croft:slow
func TestLoad(t *testing.T) {
	testenv.NeedsE2B(t)
	r := &loadRun{t: t, begin: time.Now(), name: strconv.Itoa(os.Getpid()), temp: t.TempDir(), latencies: map[string][]int{}}
	r.server = startUp(t, buildCroft(t), t.TempDir(), "TMPDIR="+r.temp)

	r.drain(r.startClients(1, 1)) // what a server starts on first use is part of its starting level
	before := r.level()
	r.latencies = map[string][]int{}

	processes := r.startClients(*loadClients, *loadWorkspaces)
	r.logf("%d clients have %d live workspaces", *loadClients, *loadWorkspaces)
	if live := r.leftovers(); len(live.processes) < *loadWorkspaces || len(live.mounts) == 0 || len(live.directories) < *loadWorkspaces ||
		len(cgroup.Parents()) > 0 && len(live.cgroups) == 0 {
		t.Fatalf("under load this test finds only %d processes, %d mounts, %d cgroups and %d directories: it can't find leftovers",
			len(live.processes), len(live.mounts), len(live.cgroups), len(live.directories))
	}
	share := *loadDuration / time.Duration(*loadKills+2)
	for n := range *loadKills + 1 {
		time.Sleep(share)
		if n < *loadKills {
			r.restart("kill -9", r.server.kill9)
		} else {
			r.restart("SIGTERM", r.terminate)
		}
		r.command(processes, "verify", "verified")
		r.logf("all files of all workspaces were read")
	}
	time.Sleep(share)
	r.drain(processes)
	r.logf("all workspaces are killed")

	after := r.settle(before)
	r.logf("the server has settled")
	left := r.leftovers()
	r.printTable(before, after, left)
	r.check(before, after, left)

	if t.Failed() {
		r.server.cmd.Process.Signal(syscall.SIGQUIT) // it prints its goroutines
	}
	r.terminate()
	if left := r.leftovers(); len(left.processes)+len(left.mounts) > 0 {
		t.Errorf("after the server ended: %v", left)
	}
}

// startClients starts clients with workspaces, and waits until all workspaces are live.
func (r *loadRun) startClients(clients, workspaces int) []*loadProcess {
	r.t.Helper()
	var list []*loadProcess
	for first := 0; first < clients; first += clientsPerProcess {
		p := &loadProcess{events: make(chan loadEvent, 10)}
		p.cmd = r.server.nodeCommand("load.mjs", "RUN="+r.name, fmt.Sprintf("NAME=clients-%d", first), fmt.Sprintf("CLIENTS=%d", min(clients-first, clientsPerProcess)),
			fmt.Sprintf("BOXES=%d", (workspaces+clients-1)/clients), fmt.Sprintf("PAUSE=%d", loadPause.Milliseconds()))
		p.cmd.Stderr = os.Stderr
		stdin, err := p.cmd.StdinPipe()
		if err != nil {
			r.t.Fatal(err)
		}
		p.stdin = stdin
		stdout, err := p.cmd.StdoutPipe()
		if err != nil {
			r.t.Fatal(err)
		}
		if err := p.cmd.Start(); err != nil {
			r.t.Fatal(err)
		}
		go r.collect(p, stdout) // ends with the process, whose context is the test's
		list = append(list, p)
	}
	r.await(list, "full")
	return list
}

// collect reads what a process prints.
func (r *loadRun) collect(p *loadProcess, stdout io.Reader) {
	defer close(p.events)
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 64<<20) // the report
	for lines.Scan() {
		var e loadEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			r.t.Errorf("load.mjs: %v: %.200s", err, lines.Text())
			continue
		}
		if e.Type != "error" {
			p.events <- e
			continue
		}
		r.mu.Lock()
		r.errors = append(r.errors, e)
		r.mu.Unlock()
	}
}

// await waits for an event of each process.
func (r *loadRun) await(list []*loadProcess, want string) []loadEvent {
	r.t.Helper()
	var events []loadEvent
	for _, p := range list {
		e, ok := <-p.events
		if !ok || e.Type != want {
			r.t.Fatalf("load.mjs printed %q, want %q", e.Type, want)
		}
		events = append(events, e)
	}
	return events
}

// command sends a line to each process, and waits for the event that answers it.
func (r *loadRun) command(list []*loadProcess, line, want string) []loadEvent {
	r.t.Helper()
	for _, p := range list {
		if _, err := fmt.Fprintln(p.stdin, line); err != nil {
			r.t.Fatal(err)
		}
	}
	return r.await(list, want)
}

// drain makes the clients kill all workspaces and end.
func (r *loadRun) drain(list []*loadProcess) {
	r.t.Helper()
	for _, report := range r.command(list, "drain", "report") {
		for kind, ms := range report.Operations {
			r.latencies[kind] = append(r.latencies[kind], ms...)
		}
		r.lostReply += report.Unanswered
	}
	for _, p := range list {
		if err := p.cmd.Wait(); err != nil {
			r.t.Errorf("load.mjs: %v", err)
		}
	}
}

// restart ends the server and starts it again.
func (r *loadRun) restart(how string, end func()) {
	r.t.Helper()
	from := time.Now()
	end()
	time.Sleep(time.Second) // a supervisor needs a moment to notice
	r.server.start()
	r.outages = append(r.outages, outage{from, time.Now()})
	r.logf("after %s the server was away for %v", how, time.Since(from).Round(time.Millisecond))
}

// terminate ends the server as a supervisor does.
func (r *loadRun) terminate() {
	r.t.Helper()
	if err := r.server.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	if err := r.server.cmd.Wait(); err != nil {
		r.t.Errorf("croft up ended with %v", err)
	}
}

// logf logs a phase of the run.
func (r *loadRun) logf(format string, args ...any) {
	r.t.Helper()
	r.t.Logf("%5.1f s: %s", time.Since(r.begin).Seconds(), fmt.Sprintf(format, args...))
}

// A level is what a server process has of what can leak.
type level struct {
	Goroutines  int
	Descriptors int // without those of databases, which keep up to 8 connections
	Memory      int // resident, without the pages of the program's file

	open map[string]int // targets of the descriptors
}

var databaseFile = regexp.MustCompile(`\.db(-wal|-shm)?$`)

var (
	goroutinesMetric = regexp.MustCompile(`(?m)^go_goroutines (\d+)`)
	workspacesMetric = regexp.MustCompile(`(?m)^croft_workspaces\{.*\} [^0].*`)
)

// metrics reads the metrics of the server.
func (r *loadRun) metrics() []byte {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+r.server.addr+"/metrics", http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	metrics, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return metrics
}

// level measures the server. The connection by which it asks counts, too.
func (r *loadRun) level() level {
	r.t.Helper()
	var l level
	metrics := r.metrics()
	m := goroutinesMetric.FindSubmatch(metrics)
	if m == nil {
		r.t.Fatalf("/metrics has no go_goroutines:\n%s", metrics)
	}
	proc := fmt.Sprintf("/proc/%d", r.server.cmd.Process.Pid)
	fds, err := os.ReadDir(proc + "/fd")
	if err != nil {
		r.t.Fatal(err)
	}
	status, err := os.ReadFile(proc + "/status")
	if err != nil {
		r.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	if _, err := fmt.Sscan(rest, &l.Memory); err != nil {
		r.t.Fatal(err)
	}
	l.Goroutines, _ = strconv.Atoi(string(m[1]))
	l.open = map[string]int{}
	for _, fd := range fds {
		target, err := os.Readlink(filepath.Join(proc, "fd", fd.Name()))
		if err != nil || databaseFile.MatchString(target) {
			continue
		}
		l.open[idOrNumber.ReplaceAllString(target, "_")]++
		l.Descriptors++
	}
	l.Memory <<= 10
	return l
}

// settle waits until the server is back at its starting level, and returns the last one.
func (r *loadRun) settle(before level) level {
	r.t.Helper()
	for start := time.Now(); ; time.Sleep(time.Second) {
		now := r.level()
		if now.within(before) || time.Since(start) > 3*time.Minute {
			return now
		}
	}
}

func (l level) within(before level) bool {
	return l.Goroutines <= before.Goroutines+moreGoroutines && l.Descriptors <= before.Descriptors+moreDescriptors && l.Memory <= before.Memory+moreMemory
}

// leftovers are what a server's workspaces are made of.
type leftovers struct {
	processes, mounts, cgroups, directories []string
}

// leftovers lists what is there of all workspaces that the server ever had.
func (r *loadRun) leftovers() leftovers {
	r.t.Helper()
	var found leftovers
	own := []int{os.Getpid(), r.server.cmd.Process.Pid}
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, proc := range all {
		pid, _ := strconv.Atoi(filepath.Base(proc))
		mounts := r.mountsOf(proc)
		found.mounts = append(found.mounts, mounts...)
		if !slices.Contains(own, pid) && (len(mounts) > 0 || r.opened(proc)) {
			command, _ := os.ReadFile(proc + "/cmdline")
			found.processes = append(found.processes, fmt.Sprintf("%d %q", pid, command))
		}
	}
	for _, dir := range []string{filepath.Join(r.server.data, "ws"), r.temp} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".lock") {
				found.directories = append(found.directories, filepath.Join(dir, e.Name()))
			}
		}
	}
	for id := range r.workspaces() {
		log := filepath.Join(r.server.data, "ws", id, "log") // by which package sandbox names cgroups
		groups := cgroup.Groups{ID: log, Freeze: true, Kill: true, Limits: cgroup.Limits{cgroup.Memory: 1, cgroup.PIDs: 1, cgroup.CPU: 1}}
		for _, dir := range groups.Dirs() {
			if _, err := os.Stat(dir); err == nil {
				found.cgroups = append(found.cgroups, dir)
			}
		}
	}
	return found
}

// mountsOf lists the mounts of a process that are in the data directory, or of it.
func (r *loadRun) mountsOf(proc string) []string {
	data, err := os.ReadFile(proc + "/mountinfo")
	if err != nil {
		return nil // it has ended
	}
	var list []string
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, r.server.data) {
			list = append(list, line)
		}
	}
	return list
}

// opened reports whether a process works in the data directory or has a file of it open.
func (r *loadRun) opened(proc string) bool {
	links, _ := filepath.Glob(proc + "/fd/*") // none, if it has ended
	for _, link := range append(links, proc+"/cwd", proc+"/root") {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, r.server.data) {
			return true
		}
	}
	return false
}

// workspaces returns the ids of all workspaces that the server ever had, by its events.
func (r *loadRun) workspaces() map[string]bool {
	r.t.Helper()
	f, err := os.Open(filepath.Join(r.server.data, "events.jsonl"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	ids := map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e struct{ Workspace string }
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Workspace != "" {
			ids[e.Workspace] = true
		}
	}
	return ids
}

// connectionLost matches the errors of the SDK about a server that is away: those of a
// connection, and those of a server that says to retry.
var connectionLost = regexp.MustCompile(`ECONNREFUSED|ECONNRESET|EPIPE|UND_ERR_SOCKET|other side closed|terminated|fetch failed|please retry|shutting down; retry`)

// cause names the cause of an error.
func (r *loadRun) cause(e loadEvent) string {
	away, late := false, false
	for _, o := range r.outages {
		if e.Start <= o.to.UnixMilli() && e.End >= o.from.UnixMilli() {
			away, late = true, e.End > o.to.Add(maxHang).UnixMilli()
		}
	}
	switch {
	case e.Lost:
		return "LOST"
	case late:
		return "HUNG: " + e.Class + ": " + e.Message
	case away && connectionLost.MatchString(e.Message):
		return "connection lost while the server was away"
	case away:
		return "OTHER while the server was away: " + e.Class + ": " + e.Message
	}
	return "OTHER: " + e.Class + ": " + e.Message
}

var idOrNumber = regexp.MustCompile(`[a-z0-9]{20}|[0-9]+`)

// printTable prints what came of the load.
func (r *loadRun) printTable(before, after level, left leftovers) {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 4, 2, ' ', 0)
	failures := map[string]int{}
	causes := map[string]int{}
	lost := 0
	for _, e := range r.errors {
		failures[e.Kind]++
		cause := r.cause(e)
		causes[idOrNumber.ReplaceAllString(cause, "_")]++
		if e.Lost {
			lost++
		}
	}
	fmt.Fprintf(w, "operation\tcount\terrors\tp50 ms\tp95 ms\tmax ms\n")
	kinds := maps.Clone(failures)
	for kind, ms := range r.latencies {
		kinds[kind] = len(ms)
	}
	total := 0
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		ms := r.latencies[kind]
		slices.Sort(ms)
		total += len(ms)
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\n", kind, len(ms), failures[kind], quantile(ms, 0.5), quantile(ms, 0.95), quantile(ms, 1))
	}
	fmt.Fprintf(w, "all\t%d\t%d\t\t\t\n\n", total, len(r.errors))
	for _, cause := range slices.SortedFunc(maps.Keys(causes), func(a, b string) int { return cmp.Compare(causes[b], causes[a]) }) {
		fmt.Fprintf(w, "%d errors\t%s\n", causes[cause], cause)
	}
	fmt.Fprintf(w, "\n\tbefore\tafter\tmay be more by\n")
	fmt.Fprintf(w, "goroutines\t%d\t%d\t%d\n", before.Goroutines, after.Goroutines, moreGoroutines)
	fmt.Fprintf(w, "descriptors\t%d\t%d\t%d\n", before.Descriptors, after.Descriptors, moreDescriptors)
	fmt.Fprintf(w, "memory, MiB\t%d\t%d\t%d\n\n", before.Memory>>20, after.Memory>>20, moreMemory>>20)
	fmt.Fprintf(w, "restarts after kill -9, after SIGTERM\t%d, 1\n", *loadKills)
	fmt.Fprintf(w, "workspaces\t%d\n", len(r.workspaces()))
	fmt.Fprintf(w, "created without an answer\t%d\n", r.lostReply)
	fmt.Fprintf(w, "lost writes, processes and workspaces\t%d\n", lost)
	fmt.Fprintf(w, "processes, mounts, cgroups, directories left\t%d, %d, %d, %d\n", len(left.processes), len(left.mounts), len(left.cgroups), len(left.directories))
	w.Flush()
	r.t.Logf("load of %v:\n%s", *loadDuration, text.String())
}

// quantile returns a quantile of sorted values.
func quantile(sorted []int, q float64) int {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}

// check fails the test for what must not be.
func (r *loadRun) check(before, after level, left leftovers) {
	shown := 0
	for _, e := range r.errors {
		if cause := r.cause(e); !strings.HasPrefix(cause, "connection lost") && shown < 20 {
			shown++
			r.t.Errorf("%s, %v after its start: %s: %s", e.Kind, time.Duration(e.End-e.Start)*time.Millisecond, cause, e.Message)
		}
	}
	if !after.within(before) {
		r.t.Errorf("the server had %+v, and has %+v after the load", before, after)
	}
	if len(left.processes)+len(left.mounts)+len(left.cgroups)+len(left.directories) > 0 {
		r.t.Errorf("left after all workspaces were killed:\nprocesses %q\nmounts %q\ncgroups %q\ndirectories %q", left.processes, left.mounts, left.cgroups, left.directories)
	}
	if records := workspacesMetric.FindAll(r.metrics(), -1); len(records) > 0 {
		r.t.Errorf("records of workspaces after all were killed: %q", records)
	}
	for _, kind := range []string{"create", "run", "write", "read", "watch", "kill"} {
		if len(r.latencies[kind]) == 0 {
			r.t.Errorf("no operation %q succeeded", kind)
		}
	}
}
