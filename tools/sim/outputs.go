package main

import (
	"fmt"
	"math"
	"sort"
	"strings"
	"time"
)

// maxLatency is the p95 from request to ready that an installation should keep.
const maxLatency = 5 * time.Second

// livesOf is how long a workspace lives: 1,000 opens a second are 100,000 live workspaces.
const livesOf = 100 // seconds

// small is what one gets without a choice: three replicas, one PostgreSQL, one Kubernetes with
// its defaults, no pool.
func small(rate float64) setup {
	return setup{params: defaults(), rate: rate, live: int(rate * livesOf), replicas: 3, clusters: 1}
}

// A change is a step from small to a large installation.
type change struct {
	name  string
	apply func(*setup)
}

// changes are in the order in which parts become the limit.
var changes = []change{
	{"3 replicas, one PostgreSQL, one Kubernetes, defaults everywhere", func(*setup) {}},
	{"no limit of calls in provider/kubernetes (the API server has its own, Priority and Fairness)", func(s *setup) { s.ClientQPS = 20000 }},
	{"kube-scheduler with `clientConnection.qps: 300`", func(s *setup) { s.BindQPS = 300 }},
	{"4 clusters of Kubernetes", func(s *setup) { s.clusters = 4 }},
	{"a warm pool of 6 s of opens", func(s *setup) { s.pool = int(6 * s.rate) }},
}

// The number of changes before the second cluster, and before the pool.
const oneCluster, poolAt = 3, 4

// with returns a setup with the first n changes.
func with(rate float64, n int) setup {
	s := small(rate)
	for _, c := range changes[:n] {
		c.apply(&s)
	}
	return s
}

// holds reports whether an installation keeps up, and else why not.
func (r result) holds() (bool, string) {
	b := r.busiest()
	switch {
	case r.lost > 0:
		return false, fmt.Sprintf("heartbeats of %.0f s: they are cut off", r.beat.Seconds())
	case r.quantile(0.95) > maxLatency:
		return false, fmt.Sprintf("%s, %.0f %% used", b.name, 100*b.value)
	}
	return true, ""
}

// limit returns the highest rate that holds, and why the next does not.
func limit(n int, seed uint64) (rate float64, best result, why string) {
	var rates []float64
	for r := 5.0; r < 1100; r *= math.Pow(2, 0.25) {
		rates = append(rates, math.Round(r))
	}
	sort.Search(len(rates), func(i int) bool {
		res := simulate(with(rates[i], n), seed)
		ok, reason := res.holds()
		if ok {
			rate, best = rates[i], res
		} else {
			why = reason
		}
		return !ok
	})
	return rate, best, why
}

// outputs returns all files by name.
func outputs(seed uint64) map[string]string {
	files := map[string]string{"numbers.md": numbers(seed)}
	for name, c := range map[string]chart{
		"latency.svg": latencyChart(seed), "pool.svg": poolChart(seed), "heartbeat.svg": heartbeatChart(seed),
		"scheduler.svg": schedulerChart(seed), "bandwidth.svg": bandwidthChart(seed), "cost.svg": costChart(),
	} {
		files[name] = c.svg()
	}
	return files
}

func numbers(seed uint64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Numbers of the simulation\n\n`go run -C tools ./sim -o ../docs/scale` writes this page and the diagrams (seed %d). [scale.md](../scale.md) has the conclusions.\n\n", seed)
	fmt.Fprintf(&b, "## What breaks first\n\nEach row has the changes of the rows above. The limit is the highest rate with a p95 below %v and no heartbeat that is cut off; a workspace lives %d s.\n\n", maxLatency, livesOf)
	b.WriteString("| change | opens a second | live | p50 | p95 | transactions a second | what breaks next |\n|---|---|---|---|---|---|---|\n")
	for n := range changes {
		rate, res, why := limit(n+1, seed)
		if why == "" {
			why = "nothing up to this rate"
		}
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %s | %s | %.0f | %s |\n", changes[n].name, rate, rate*livesOf, milliseconds(res.quantile(0.5)), milliseconds(res.quantile(0.95)), res.transactions, why)
	}
	res := simulate(with(1000, len(changes)), seed)
	fmt.Fprintf(&b, "\n## 1,000 opens a second, 100,000 live, all changes\n\np50 %s, p95 %s, p99 %s; %.1f %% from the pool; %.0f transactions a second; %s/s through the API servers; %d nodes; longest heartbeat %.1f s.\n\n| part | used |\n|---|---|\n",
		milliseconds(res.quantile(0.5)), milliseconds(res.quantile(0.95)), milliseconds(res.quantile(0.99)), 100*float64(res.hits)/float64(res.opens), res.transactions, bytesText(res.traffic), with(1000, len(changes)).nodes(), res.beat.Seconds())
	for _, u := range res.use {
		fmt.Fprintf(&b, "| %s | %.0f %% |\n", u.name, 100*u.value)
	}
	b.WriteString("\n## Parameters\n\n[params.go](../../tools/sim/params.go) has each parameter with its value, and where it is from: measured here, the code, or a guess.\n")
	return b.String()
}

func milliseconds(d time.Duration) string {
	if d == never {
		return "-"
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

// sweep returns a line of y over xs.
func sweep(name string, dashed bool, xs []float64, y func(x float64) float64) line {
	l := line{name: name, dashed: dashed}
	for _, x := range xs {
		l.points = append(l.points, [2]float64{x, y(x)})
	}
	return l
}

// bound returns a line of one value.
func bound(name string, xs []float64, y float64) line {
	return sweep(name, true, xs, func(float64) float64 { return y })
}

func latencyChart(seed uint64) chart {
	c := chart{title: "From request to ready, p95", x: "opens a second", y: "seconds, at most 30", maxY: 30}
	for i, name := range []string{"defaults", "all but the pool", "and the pool"} {
		n := []int{1, poolAt, len(changes)}[i]
		c.lines = append(c.lines, sweep(name, false, []float64{10, 30, 100, 300, 1000}, func(rate float64) float64 {
			return simulate(with(rate, n), seed).quantile(0.95).Seconds()
		}))
	}
	return c
}

// poolChart compares pools with Erlang's formula B: a warm pod that was claimed is a busy
// server until its successor runs, and an open that finds none is a call that is lost.
func poolChart(seed uint64) chart {
	c := chart{title: "Opens that find a warm pod", x: "pool, in seconds of opens", y: "percent", percent: true}
	for _, rate := range []float64{5, 20, 100} {
		of := func(x float64) setup {
			s := with(rate, poolAt)
			s.pool = int(math.Round(x * rate))
			return s
		}
		xs := []float64{0.4, 0.8, 1.2, 1.6, 2, 2.4, 3}
		c.lines = append(c.lines, sweep(fmt.Sprintf("%.0f opens a second", rate), false, xs, func(x float64) float64 {
			res := simulate(of(x), seed)
			return 100 * float64(res.hits) / float64(res.opens)
		}), sweep("Erlang B", true, xs, func(x float64) float64 { return 100 * of(x).hitShare() }))
	}
	return c
}

// hitShare is the theory of the share of opens that find a warm pod, where nothing waits.
func (s setup) hitShare() float64 {
	refill := time.Duration(s.OpenCalls)*s.APICall + s.PodStart + seconds(s.Missing*s.Image/s.NodeLink)
	return 1 - erlangB(s.pool, s.rate*refill.Seconds())
}

// erlangB is the share of calls that are lost by servers with an offered load.
func erlangB(servers int, load float64) float64 {
	b := 1.0
	for n := 1; n <= servers; n++ {
		b = load * b / (float64(n) + load*b)
	}
	return b
}

func heartbeatChart(seed uint64) chart {
	xs := []float64{1000, 10000, 30000, 60000, 100000}
	beat := func(live float64) float64 {
		s := with(20, oneCluster)
		s.live, s.replicas = int(live), 1
		return simulate(s, seed).beat.Seconds()
	}
	return chart{title: "The longest heartbeat of a replica", x: "live workspaces of the replica", y: "seconds", lines: []line{
		sweep("heartbeat", false, xs, beat), bound("cut off", xs, defaults().Lease.Seconds()/2),
	}}
}

func schedulerChart(seed uint64) chart {
	c := chart{title: "p95 without a pool, by what the scheduler binds", x: "opens a second", y: "seconds, at most 30", maxY: 30}
	for _, qps := range []float64{50, 100, 300} {
		c.lines = append(c.lines, sweep(fmt.Sprintf("%.0f pods a second", qps), false, []float64{10, 30, 60, 100, 200, 350}, func(rate float64) float64 {
			s := with(rate, oneCluster)
			s.BindQPS = qps
			return simulate(s, seed).quantile(0.95).Seconds()
		}))
	}
	return c
}

func bandwidthChart(seed uint64) chart {
	c := chart{title: "Bytes through the API servers", x: "live workspaces", y: "GB/s"}
	xs := []float64{1000, 10000, 100000}
	for _, size := range []float64{1e6, 5e6, 20e6} {
		c.lines = append(c.lines, sweep("snapshots of "+bytesText(size), false, xs, func(live float64) float64 {
			s := with(live/livesOf, len(changes))
			s.Snapshot, s.APIServers = size, 100 // they are not the limit
			return simulate(s, seed).traffic / 1e9
		}))
	}
	p := defaults()
	c.lines = append(c.lines, bound("three API servers", xs, float64(p.APIServers)*p.APIServer/1e9))
	return c
}

func costChart() chart {
	c := chart{title: "Price of a workspace for an hour", x: "live workspaces", y: "cents"}
	for _, v := range []struct {
		name       string
		life, pool float64 // in seconds; the pool in seconds of opens
		pods       int
	}{{"1 h, 110 on a node", 3600, 6, 110}, {"1 h, 30 on a node", 3600, 6, 30}, {"100 s, 110 on a node", 100, 6, 110}, {"100 s, pool of 60 s", 100, 60, 110}} {
		c.lines = append(c.lines, sweep("lives "+v.name, false, []float64{100, 300, 1000, 3000, 10000, 30000, 100000}, func(live float64) float64 {
			s := with(live/v.life, len(changes))
			s.live, s.PodsPerNode, s.pool = int(live), v.pods, int(v.pool*s.rate)
			s.replicas, s.clusters = max(3, s.live/30000), max(1, s.live/25000)
			return 100 * s.costHour()
		}))
	}
	return c
}
