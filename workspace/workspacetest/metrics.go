package workspacetest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/croft-run/croft/workspace/driver"
)

var metricsChecks = []Check{
	{"Metrics/count-the-files", allNeeds(needMetrics, needFS), metricsDisk},
	{"Metrics/count-the-processes", allNeeds(needMetrics, needShell), metricsProcesses},
}

func needMetrics(e *Env) (string, bool) {
	return "function Life.Metrics is absent", e.sample.Life.Metrics != nil
}

// measure calls Metrics until ok holds for what it returns, or for some time.
func (p *testWorkspace) measure(t testing.TB, atMost time.Duration, ok func(driver.Metrics) bool) driver.Metrics {
	t.Helper()
	for end := time.Now().Add(atMost); ; time.Sleep(50 * time.Millisecond) {
		before := time.Now()
		m, err := p.d.Life.Metrics(t.Context())
		if err != nil {
			t.Fatalf("Metrics: %v", err)
		}
		const skew = time.Minute // of a clock on another host
		if m.Time.Before(before.Add(-skew)) || m.Time.After(time.Now().Add(skew)) {
			t.Fatalf("Metrics: Time is %v at %v", m.Time, before)
		}
		for what, n := range map[string]*int64{"Memory": m.Memory, "PIDs": m.PIDs, "Disk": m.Disk} {
			if n != nil && *n < 0 {
				t.Fatalf("Metrics: %s is %d", what, *n)
			}
		}
		if ok(m) || time.Now().After(end) {
			return m
		}
	}
}

// metricsDisk: the files count, where disk space is measured. It may be measured in the background.
func metricsDisk(t testing.TB, e *Env) {
	p := e.open(t)
	const size = 2 << 20
	p.write(t, "big", string(patternBytes(1, size)))
	m := p.measure(t, 10*time.Second, func(m driver.Metrics) bool { return m.Disk != nil })
	if m.Disk != nil && *m.Disk < size {
		t.Errorf("Metrics: Disk is %d with a file of %d bytes", *m.Disk, size)
	}
}

// metricsProcesses: a process that works counts, in what is measured.
func metricsProcesses(t testing.TB, e *Env) {
	p := e.open(t)
	s := p.start(t, driver.Command{Script: "echo up; while :; do :; done"})
	counts := func(m driver.Metrics) bool {
		return (m.CPUTime == nil || *m.CPUTime > 0) && (m.Memory == nil || *m.Memory > 0) && (m.PIDs == nil || *m.PIDs > 0)
	}
	if m := p.measure(t, waitLimit, counts); !counts(m) {
		data, _ := json.Marshal(m)
		t.Errorf("Metrics of a workspace with a process that works: %s", data)
	}
	wantNil(t, "Kill", s.Kill(t.Context(), 0))
}
