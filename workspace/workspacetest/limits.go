package workspacetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// What goes beyond a limit is stopped, the result says which limit it was, and
// the workspace goes on.
var limitChecks = []Check{
	{"Limits/wall-time-ends-a-command", all(needShell, needLimit(driver.ResourceWall)), limitWall},
	{"Limits/a-memory-hog-ends-with-the-cause-oom", all(needShell, needLimit(driver.ResourceMemory)), limitMemory},
	{"Limits/too-many-processes-are-the-cause-pids", all(needShell, needLimit(driver.ResourcePIDs)), limitPIDs},
	{"Limits/a-full-disk-is-the-cause-disk", all(needShell, needLimit(driver.ResourceDisk)), limitDisk},
	{"Limits/open-files-are-bounded-for-good", all(needShell, needLimit(driver.ResourceOpenFiles)), limitOpenFiles},
	{"Limits/what-is-not-enforced-is-refused", needUnenforced, limitRefused},
}

func needLimit(r driver.Resource) func(*Env) (string, bool) {
	return func(e *Env) (string, bool) {
		return fmt.Sprintf("Traits.Limits: %s is not enforced", r), e.Traits.Limits[r].Enforced()
	}
}

func needUnenforced(e *Env) (string, bool) {
	return "Traits.Limits: all are enforced", len(unenforced(e)) > 0
}

// limited asks for a limit.
func limited(r driver.Resource, l driver.Limit) func(*driver.Spec) {
	return func(s *driver.Spec) { s.Policy.Limits = driver.Limits{r: l} }
}

// goesOn runs a command after one that was stopped. Where a limit is one of the
// whole workspace, what ran it may be gone, and the call says so, once.
func (p *place) goesOn(t testing.TB) {
	t.Helper()
	res, err := p.run(t.Context(), driver.Command{Script: "echo works"})
	if fault.Of(err) == fault.Evicted {
		res, err = p.run(t.Context(), driver.Command{Script: "echo works"})
	}
	if err != nil || string(res.Stdout) != "works\n" || res.Cause != "" {
		t.Errorf("the command after it gives %+v, %v", res, err)
	}
}

func limitWall(t testing.TB, e *Env) {
	var res driver.Result
	for _, most := range []time.Duration{500 * time.Millisecond, 5 * time.Second, patience} { // until it gets to say something
		p := e.open(t, limited(driver.ResourceWall, driver.Limit{Max: int64(most)}))
		if res = p.must(t, driver.Command{Script: "echo early; : > there; sleep 1000"}); p.got(t, "there") {
			break
		}
	}
	if res.Cause != driver.CauseTimeout || string(res.Stdout) != "early\n" {
		t.Errorf("a command beyond the limit gives %+v", res)
	}
}

func limitMemory(t testing.TB, e *Env) {
	p := e.open(t, limited(driver.ResourceMemory, driver.Limit{Max: 64 << 20}))
	res := p.script(t, "head -c 400M /dev/zero | tail > /dev/null")
	if res.Cause != driver.CauseOOM || res.ExitCode == 0 {
		t.Errorf("a memory hog gives %+v, want the cause %q", res, driver.CauseOOM)
	}
	p.goesOn(t)
}

func limitPIDs(t testing.TB, e *Env) {
	p := e.open(t, limited(driver.ResourcePIDs, driver.Limit{Max: 20}))
	// A plain sh, because bash tries again for a quarter of a minute.
	res := p.script(t, "exec sh -c 'for i in $(seq 60); do sleep 100 & done; exit 1'")
	if res.Cause != driver.CausePIDs || res.ExitCode == 0 {
		t.Errorf("too many processes give %+v, want the cause %q", res, driver.CausePIDs)
	}
	p.goesOn(t)
}

func limitDisk(t testing.TB, e *Env) {
	p := e.open(t, limited(driver.ResourceDisk, driver.Limit{Max: 8 << 20}))
	res := p.script(t, "head -c 100M /dev/zero > big")
	if res.Cause != driver.CauseDisk || res.ExitCode == 0 {
		t.Errorf("a disk filler gives %+v, want the cause %q", res, driver.CauseDisk)
	}
	if res := p.script(t, "rm big && echo small > file && cat file"); string(res.Stdout) != "small\n" || res.Cause != "" {
		t.Errorf("once there is room again: %+v", res)
	}
}

func limitOpenFiles(t testing.TB, e *Env) {
	p := e.open(t, limited(driver.ResourceOpenFiles, driver.Limit{Max: 64}))
	res := p.script(t, "ulimit -n; ulimit -Hn; (ulimit -n 100) 2>/dev/null || echo refused")
	if got := string(res.Stdout); got != "64\n64\nrefused\n" {
		t.Errorf("a command sees %q, want a limit of 64 that it can't raise", got)
	}
}

// unenforced lists the limits that the provider does not claim.
func unenforced(e *Env) []driver.Resource {
	var names []driver.Resource
	for _, r := range driver.Resources {
		if !e.Traits.Limits[r.Name].Enforced() {
			names = append(names, r.Name)
		}
	}
	return names
}

func limitRefused(t testing.TB, e *Env) {
	for _, name := range unenforced(e) {
		_, err := e.use(t).Open(t.Context(), e.spec(limited(name, driver.Limit{Max: 1 << 30})))
		if fault.Of(err) != fault.Unsupported || !strings.Contains(fmt.Sprint(err), string(name)) {
			t.Errorf("limit %s, which is not enforced, gives %v, want %v with its name", name, err, fault.Unsupported)
		}
		e.open(t, limited(name, driver.Limit{Max: 1 << 30, BestEffort: true})).works(t)
	}
}
