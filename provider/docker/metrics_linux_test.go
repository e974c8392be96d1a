package docker

import "testing"

// TestMetrics measures a container in a real engine; the suite accepts that nothing is measured.
func TestMetrics(t *testing.T) {
	ws := open(t, newProvider(t, t.TempDir()))
	m, err := ws.Life.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if m.PIDs == nil || *m.PIDs != 0 {
		t.Errorf("processes before the first command: %v, want 0: nothing is started to be measured", m.PIDs)
	}
	script(t, ws, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
	if m, err = ws.Life.Metrics(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m.CPUTime == nil || *m.CPUTime <= 0 || m.Memory == nil || *m.Memory <= 0 {
		t.Errorf("after a command: CPU time %v, memory %v; want more than 0", m.CPUTime, m.Memory)
	}
}
