package workspacetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A command beyond a limit is stopped, the result names the limit, and the workspace
// stays usable.
var limitChecks = []Check{
	{"Limits/wall-time-ends-a-command", allNeeds(needShell, needLimit(driver.ResourceWall)), limitWall},
	{"Limits/a-memory-hog-ends-with-the-cause-oom", allNeeds(needShell, needLimit(driver.ResourceMemory)), limitMemory},
	{"Limits/too-many-processes-are-the-cause-pids", allNeeds(needShell, needLimit(driver.ResourcePIDs)), limitPIDs},
	{"Limits/a-full-disk-is-the-cause-disk", allNeeds(needShell, needLimit(driver.ResourceDisk)), limitDisk},
	{"Limits/open-files-are-bounded-for-good", allNeeds(needShell, needLimit(driver.ResourceOpenFiles)), limitOpenFiles},
	{"Limits/what-is-not-enforced-is-refused", needUnenforced, limitRefused},
	{"Limits/of-one-command-hold-or-are-refused", needShell, limitOneCommand},
}

func needLimit(r driver.Resource) func(*Env) (string, bool) {
	return func(e *Env) (string, bool) {
		return fmt.Sprintf("Traits.Limits: %s is not enforced", r), e.Traits.Limits[r].Enforced()
	}
}

func needUnenforced(e *Env) (string, bool) {
	return "Traits.Limits: all are enforced", len(unenforcedLimits(e)) > 0
}

// withLimit sets a limit in a spec.
func withLimit(r driver.Resource, l driver.Limit) func(*driver.Spec) {
	return func(s *driver.Spec) { s.Policy.Limits = driver.Limits{r: l} }
}

// goesOn runs a command after one that was stopped. With a limit of the whole
// workspace the guest may be gone; then one call says so.
func (p *testWorkspace) goesOn(t testing.TB) {
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
	for _, most := range []time.Duration{500 * time.Millisecond, 5 * time.Second, waitLimit} { // until it writes something
		p := e.open(t, withLimit(driver.ResourceWall, driver.Limit{Max: int64(most)}))
		if res = p.mustRun(t, driver.Command{Script: "echo early; : > there; sleep 1000"}); p.hasFile(t, "there") {
			break
		}
	}
	if res.Cause != driver.CauseTimeout || string(res.Stdout) != "early\n" {
		t.Errorf("a command beyond the limit gives %+v", res)
	}
}

func limitMemory(t testing.TB, e *Env) {
	p := e.open(t, withLimit(driver.ResourceMemory, driver.Limit{Max: 64 << 20}))
	res := p.runScriptOK(t, "head -c 400M /dev/zero | tail > /dev/null")
	if res.Cause != driver.CauseOOM || res.ExitCode == 0 {
		t.Errorf("a memory hog gives %+v, want the cause %q", res, driver.CauseOOM)
	}
	p.goesOn(t)
}

func limitPIDs(t testing.TB, e *Env) {
	p := e.open(t, withLimit(driver.ResourcePIDs, driver.Limit{Max: 20}))
	// sh, because bash retries for a quarter of a minute.
	res := p.runScriptOK(t, "exec sh -c 'for i in $(seq 60); do sleep 100 & done; exit 1'")
	if res.Cause != driver.CausePIDs || res.ExitCode == 0 {
		t.Errorf("too many processes give %+v, want the cause %q", res, driver.CausePIDs)
	}
	p.goesOn(t)
}

func limitDisk(t testing.TB, e *Env) {
	p := e.open(t, withLimit(driver.ResourceDisk, driver.Limit{Max: 8 << 20}))
	res := p.runScriptOK(t, "head -c 100M /dev/zero > big")
	if res.Cause != driver.CauseDisk || res.ExitCode == 0 {
		t.Errorf("a disk filler gives %+v, want the cause %q", res, driver.CauseDisk)
	}
	if res := p.runScriptOK(t, "rm big && echo small > file && cat file"); string(res.Stdout) != "small\n" || res.Cause != "" {
		t.Errorf("once there is room again: %+v", res)
	}
}

func limitOpenFiles(t testing.TB, e *Env) {
	p := e.open(t, withLimit(driver.ResourceOpenFiles, driver.Limit{Max: 64}))
	res := p.runScriptOK(t, "ulimit -n; ulimit -Hn; (ulimit -n 100) 2>/dev/null || echo refused")
	if got := string(res.Stdout); got != "64\n64\nrefused\n" {
		t.Errorf("a command sees %q, want a limit of 64 that it can't raise", got)
	}
}

// limitOneCommand gives limits to one command: they are enforced, or the command is refused
// and was not started. Best effort always runs.
func limitOneCommand(t testing.TB, e *Env) {
	p := e.open(t)
	for _, r := range []driver.Resource{driver.ResourcePIDs, driver.ResourceCPU} {
		// sh, because bash retries for a quarter of a minute.
		cmd := driver.Command{Script: "exec sh -c ': > ran; for i in $(seq 40); do sleep 100 & done; exit 1'", Limits: driver.Limits{r: {Max: 20}}}
		if r == driver.ResourceCPU {
			cmd = driver.Command{Script: ": > ran; while :; do :; done", Timeout: time.Second, Limits: driver.Limits{r: {Max: 50}}}
		}
		p.runScriptOK(t, "rm -f ran")
		began := time.Now()
		res, err := p.run(t.Context(), cmd)
		took := time.Since(began)
		switch used := res.Usage.User + res.Usage.System; {
		case fault.Of(err) == fault.Unsupported:
			if p.hasFile(t, "ran") {
				t.Errorf("limit %s of one command was refused, but the command ran", r)
			}
		case err != nil:
			t.Errorf("limit %s of one command: %v", r, err)
		case r == driver.ResourcePIDs && res.Cause != driver.CausePIDs:
			t.Errorf("40 processes with a limit of 20 for the command give %+v, want the cause %q", res, driver.CausePIDs)
		case r == driver.ResourceCPU && used > took/4+500*time.Millisecond:
			t.Errorf("a twentieth of a core for the command gave %v in %v", used, took)
		}
		if res := p.mustRun(t, driver.Command{Script: "echo works", Limits: driver.Limits{r: {Max: 1000, BestEffort: true}}}); string(res.Stdout) != "works\n" {
			t.Errorf("limit %s of one command as best effort gives %+v", r, res)
		}
	}
	p.goesOn(t)
}

// unenforcedLimits lists the limits that the provider does not claim.
func unenforcedLimits(e *Env) []driver.Resource {
	var names []driver.Resource
	for _, r := range driver.Resources {
		if !e.Traits.Limits[r.Name].Enforced() {
			names = append(names, r.Name)
		}
	}
	return names
}

func limitRefused(t testing.TB, e *Env) {
	for _, name := range unenforcedLimits(e) {
		_, err := e.sharedProvider(t).Open(t.Context(), e.spec(withLimit(name, driver.Limit{Max: 1 << 30})))
		if fault.Of(err) != fault.Unsupported || !strings.Contains(fmt.Sprint(err), string(name)) {
			t.Errorf("limit %s, which is not enforced, gives %v, want %v with its name", name, err, fault.Unsupported)
		}
		e.open(t, withLimit(name, driver.Limit{Max: 1 << 30, BestEffort: true})).wantUsable(t)
	}
}
