package main

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// TestErlangC compares the waiting times of a station with the theory of M/M/c queues.
func TestErlangC(t *testing.T) {
	for _, tt := range []struct {
		servers int
		used    float64
	}{{1, 0.5}, {1, 0.8}, {4, 0.7}, {16, 0.9}} {
		const service = 10 * time.Millisecond
		e := newEngine(7)
		s := e.station(tt.servers)
		between := time.Duration(float64(service) / tt.used / float64(tt.servers))
		var waits, n float64
		var arrive func()
		arrive = func() {
			began, work := e.now, e.exponential(service)
			s.serve(work, func() { waits += (e.now - began - work).Seconds(); n++ })
			e.after(e.exponential(between), arrive)
		}
		arrive()
		e.run(400000 * between)
		load := tt.used * float64(tt.servers)
		b := erlangB(tt.servers, load)
		mustWait := b / (1 - tt.used*(1-b)) // Erlang's formula C
		want := mustWait * service.Seconds() / (float64(tt.servers) * (1 - tt.used))
		near(t, "mean wait", waits/n, want, 0.05)
		near(t, "utilisation", s.utilisation(), tt.used, 0.01)
	}
}

// TestLittle compares the mean number of live workspaces with rate times life.
func TestLittle(t *testing.T) {
	s := with(50, len(changes))
	res := simulate(s, 3)
	near(t, "live workspaces", res.meanLive, float64(s.live), 0.03)
	near(t, "opens", float64(res.opens), 50*(120-24-10), 0.05)
}

// TestPoolIsErlangB compares the opens that a pool misses with the theory of M/G/c/c loss
// systems, which holds for any distribution of the time to refill.
func TestPoolIsErlangB(t *testing.T) {
	s := with(50, poolAt)
	for _, pool := range []int{40, 80, 100} {
		s.pool = pool
		res := simulate(s, 5)
		near(t, "opens from the pool", float64(res.hits)/float64(res.opens), s.hitShare(), 0.04)
	}
}

func TestGroupCommit(t *testing.T) {
	e := newEngine(1)
	b := &batch{e: e, flush: time.Millisecond}
	var ended []time.Duration
	commit := func() { b.commit(func() { ended = append(ended, e.now) }) }
	e.after(0, commit)
	for range 10 { // while the first is flushed
		e.after(time.Microsecond, commit)
	}
	e.run(time.Second)
	if len(ended) != 11 || ended[0] != time.Millisecond || ended[10] != 2*time.Millisecond {
		t.Errorf("commits end at %v, want one after 1ms and ten after 2ms", ended)
	}
}

func TestLimiter(t *testing.T) {
	e := newEngine(1)
	l := e.limiter(10, 5)
	n := 0
	for range 100 {
		l.take(1, func() { n++ })
	}
	e.run(2*time.Second + time.Millisecond)
	if n != 25 { // the burst, and 20 of two seconds
		t.Errorf("%d calls in two seconds, want 25", n)
	}
}

// TestLarge checks what the whole is about.
func TestLarge(t *testing.T) {
	if ok, why := simulate(with(1000, len(changes)), 1).holds(); !ok {
		t.Errorf("with all changes 1,000 opens a second do not hold: %s", why)
	}
	if ok, _ := simulate(with(100, 1), 1).holds(); ok {
		t.Error("with the defaults 100 opens a second hold, want not")
	}
}

// TestOutputs compares docs/scale with a new run.
//
//croft:slow
func TestOutputs(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("skipped: host: floating-point numbers are rounded in another way than on amd64")
	}
	const dir = "../../docs/scale"
	files := outputs(1)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != want {
			t.Errorf("%s is not what the simulation writes (%v); run: go run -C tools ./sim -o ../docs/scale", name, err)
		}
	}
	there, err := os.ReadDir(dir)
	if err != nil || len(there) != len(files) {
		t.Errorf("docs/scale has %d files, want %d (%v)", len(there), len(files), err)
	}
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within*want {
		t.Errorf("%s is %.4g, want %.4g within %.0f %%", what, got, want, 100*within)
	}
}
