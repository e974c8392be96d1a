package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// A setup is what an operator decides, and what the clients do.
type setup struct {
	params
	rate     float64 // opens a second; a Poisson process
	live     int     // live workspaces, mean; lives are exponential, with a mean of live/rate
	replicas int
	pool     int // warm pods
	clusters int // of Kubernetes, each with its own API servers and scheduler
}

// A result is what one run measured.
type result struct {
	opens, hits  int             // neither at the start nor just before the end
	latency      []time.Duration // from request to ready, sorted; of opens that are done
	lost         int             // heartbeats that were too long
	beat         time.Duration   // the longest heartbeat
	transactions float64         // a second
	traffic      float64         // bytes a second through the API servers
	meanLive     float64
	use          []use
}

// A use is the utilisation of a part of the system.
type use struct {
	name  string
	value float64
}

// A replica is one croft up.
type replica struct {
	cpu, conns *station
	client     *limiter // calls of the API server
	lease      *station // its heartbeats, which lock the row of its lease
	beating    bool
	beatFrom   time.Duration
	scanning   bool
	live       int
}

// A node starts pods, some at a time, and pulls one image at a time.
type node struct{ starts, pull *station }

type model struct {
	*engine
	setup
	replicas       []*replica
	nodes          []*node
	db             *station // CPU of PostgreSQL
	log            *batch   // its write-ahead log
	binds          *limiter // of the schedulers
	streams, pulls *station // through the API servers; from the image registry
	warm, live     int
	area           float64 // of live over time, in seconds
	areaAt         time.Duration
	from, until    time.Duration // opens that arrive between them are counted
	commits        int
	bytes          float64
	res            result
}

// simulate runs a setup. The same setup and seed give the same result.
func simulate(s setup, seed uint64) result {
	e := newEngine(seed)
	horizon := min(max(seconds(6000/s.rate), 30*time.Second), 200*time.Second)
	free := float64(s.clusters*s.APIServers)*s.APIServer - float64(s.live)*s.Egress // network traffic comes first
	m := &model{
		engine: e, setup: s, warm: s.pool, from: horizon / 5, until: horizon - 2*maxLatency,
		db: e.station(s.DBCores), log: &batch{e: e, flush: s.Flush}, binds: e.limiter(float64(s.clusters)*s.BindQPS, 2*float64(s.clusters)*s.BindQPS),
		streams: e.station(int(free / s.Stream)), pulls: e.station(s.PullLinks),
	}
	for range s.nodes() {
		m.nodes = append(m.nodes, &node{starts: e.station(s.NodeStarts), pull: e.station(1)})
	}
	for range s.replicas {
		m.replicas = append(m.replicas, &replica{cpu: e.station(s.Cores), conns: e.station(s.Conns), client: e.limiter(s.ClientQPS, 2*s.ClientQPS), lease: e.station(1)})
	}
	m.start(horizon)
	m.run(horizon)
	return m.finish()
}

// nodes returns the number of nodes, with a tenth to spare.
func (s setup) nodes() int {
	return max(3, int(math.Ceil(1.1*float64(s.live+s.pool)/float64(s.PodsPerNode))))
}

// start schedules the workspaces that live already, the clients, and the work in the background.
func (m *model) start(horizon time.Duration) {
	for i := range m.setup.live {
		r := m.replicas[i%len(m.replicas)]
		m.changeLive(r, 1)
		if left := m.exponential(m.life()); left < horizon { // what is left of an exponential life is one
			m.after(left, func() { m.end(r) })
		}
	}
	for i, r := range m.replicas {
		offset := time.Duration(i) * m.Lease / 3 / time.Duration(len(m.replicas))
		m.after(offset, func() { m.every(m.Lease/3, func() { m.heartbeat(r) }) })
		m.after(offset, func() { m.every(m.ScanEvery, func() { m.scan(r) }) })
	}
	m.after(0, m.arrive)
}

func (m *model) life() time.Duration { return seconds(float64(m.setup.live) / m.rate) }

func (m *model) arrive() {
	m.open(m.replicas[m.rng.IntN(len(m.replicas))]) // a load balancer
	m.after(m.exponential(seconds(1/m.rate)), m.arrive)
}

func (m *model) changeLive(r *replica, n int) {
	m.area += float64(m.live) * (m.now - m.areaAt).Seconds()
	m.areaAt = m.now
	m.live += n
	r.live += n
}

// open is Create and Acquire of package registry, and the first call of the provider.
func (m *model) open(r *replica) {
	began, counted := m.now, 0
	if m.now >= m.from && m.now < m.until {
		counted = 1
	}
	m.res.opens += counted
	steps(
		m.compute(r, m.OpenCPU/2),
		m.transact(r, 3), // Insert
		m.transact(r, 7), // Store.Hold
		m.transact(r, 4), // Put: opening
		func(next func()) {
			if m.warm == 0 {
				m.createPod(r, next)
				return
			}
			m.warm--
			m.res.hits += counted
			m.after(m.exponential(m.Claim), next)
			m.createPod(r, func() { m.warm++ })
		},
		m.transact(r, 5), // Put: ready
		func(func()) {
			m.changeLive(r, 1)
			if counted > 0 {
				m.res.latency = append(m.res.latency, m.now-began)
			}
			m.after(m.exponential(m.life()), func() { m.end(r) })
		})
}

// end is Destroy of package registry, with a snapshot before it for some.
func (m *model) end(r *replica) {
	m.changeLive(r, -1)
	steps(
		func(next func()) {
			if m.rng.Float64() >= m.Snapshots {
				next()
				return
			}
			size := m.exponential(seconds(m.Snapshot / m.Stream))
			m.bytes += size.Seconds() * m.Stream
			m.streams.serve(size, next)
		},
		m.compute(r, m.OpenCPU/2),
		m.transact(r, 5), // Put: destroyed
		func(next func()) { r.client.take(m.EndCalls, next) },
		m.transact(r, 4), // Release
		m.transact(r, 4)) // Delete
}

// compute uses the CPU of a replica.
func (m *model) compute(r *replica, mean time.Duration) step {
	return func(next func()) { r.cpu.serve(m.exponential(mean), next) }
}

// transact is one transaction: its statements, one after the other on one connection, and the
// commit.
func (m *model) transact(r *replica, statements time.Duration) step {
	return func(next func()) {
		steps(r.conns.acquire, m.query(statements), m.commit(r), func(func()) { next() })
	}
}

func (m *model) query(statements time.Duration) step {
	return func(next func()) {
		m.after(statements*m.RoundTrip, func() { m.db.serve(m.exponential(statements*m.Statement), next) })
	}
}

func (m *model) commit(r *replica) step {
	return func(next func()) {
		m.log.commit(func() { m.commits++; r.conns.release(); next() })
	}
}

// heartbeat is Store.Beat: it locks the row of the lease, reads the records that the replica
// holds, and writes when each was used. One that is due while another runs is left out.
func (m *model) heartbeat(r *replica) {
	if r.beating {
		return
	}
	r.beating, r.beatFrom = true, m.now
	rows := r.live
	steps(
		r.conns.acquire,
		m.query(3),
		r.lease.acquire,
		m.list(r, rows),
		func(next func()) { m.writeUses(rows, next) },
		m.commit(r),
		func(func()) { m.endBeat(r); r.beating = false; r.lease.release() })
}

// list reads records, and decodes them.
func (m *model) list(r *replica, rows int) step {
	n := time.Duration(rows)
	return func(next func()) {
		m.db.serve(n*m.ScanRow, func() { r.cpu.serve(n*m.DecodeRow, next) })
	}
}

// writeUses writes the last use of some workspaces.
func (m *model) writeUses(rows int, done func()) {
	n := min(rows, 500) // at a time, so that other backends get the core
	m.after(m.RoundTrip, func() {
		m.db.serve(time.Duration(n)*m.BeatRow, func() {
			if rows > n {
				m.writeUses(rows-n, done)
				return
			}
			done()
		})
	})
}

// endBeat counts a heartbeat. One that takes half of the lease is cut off: the replica stops
// serving, as others may take over its workspaces.
func (m *model) endBeat(r *replica) {
	took := m.now - r.beatFrom
	m.res.beat = max(m.res.beat, took)
	if took > m.Lease/2 {
		m.res.lost++
	}
}

// scan is Registry.Expire, which lists all records.
func (m *model) scan(r *replica) {
	if r.scanning {
		return
	}
	r.scanning = true
	steps(r.conns.acquire, m.list(r, m.live), func(func()) { r.conns.release(); r.scanning = false })
}

// createPod creates the objects of a workspace, and waits until its pod runs.
func (m *model) createPod(r *replica, done func()) {
	n := m.nodes[m.rng.IntN(len(m.nodes))]
	steps(
		func(next func()) { r.client.take(m.OpenCalls, next) },
		func(next func()) { m.after(time.Duration(m.OpenCalls)*m.APICall, next) },
		func(next func()) { m.binds.take(1, next) },
		func(next func()) {
			if o := m.nodes[m.rng.IntN(len(m.nodes))]; o.starts.busy < n.starts.busy { // the scheduler spreads pods
				n = o
			}
			if m.rng.Float64() >= m.Missing {
				next()
				return
			}
			n.pull.acquire(func() {
				m.pulls.serve(seconds(m.Image/m.NodeLink), func() { n.pull.release(); next() })
			})
		},
		func(func()) { n.starts.serve(m.PodStart/2+m.exponential(m.PodStart/2), done) })
}

func (m *model) finish() result {
	m.changeLive(m.replicas[0], 0)
	span, res := m.now.Seconds(), &m.res
	res.meanLive, res.transactions = m.area/span, float64(m.commits)/span
	res.traffic = m.bytes/span + res.meanLive*m.Egress
	slices.Sort(res.latency)
	client, cpu, conns, lease, starts := 0.0, 0.0, 0.0, 0.0, 0.0 // of the busiest replica; of nodes the mean
	for _, r := range m.replicas {
		if r.beating {
			m.endBeat(r)
		}
		client, cpu = max(client, r.client.utilisation()), max(cpu, r.cpu.utilisation())
		conns, lease = max(conns, r.conns.utilisation()), max(lease, r.lease.utilisation())
	}
	for _, n := range m.nodes {
		starts += n.starts.utilisation() / float64(len(m.nodes))
	}
	res.use = []use{
		{"calls of the API server by a replica", client}, {"CPU of a replica", cpu}, {"heartbeats of a replica", lease},
		{"connections to PostgreSQL", conns}, {"CPU of PostgreSQL", m.db.utilisation()},
		{"scheduler", m.binds.utilisation()}, {"starts on nodes", starts}, {"image registry", m.pulls.utilisation()},
		{"bytes through the API servers", res.traffic / (float64(m.clusters*m.APIServers) * m.APIServer)},
	}
	return *res
}

// costHour returns what one live workspace costs for an hour.
func (s setup) costHour() float64 {
	fixed := float64(s.nodes())*s.NodeHour + float64(s.replicas)*s.ReplicaHour + s.DBHour + float64(s.clusters*s.APIServers)*s.APIHour
	traffic := s.Egress * 3600 / 1e9 * s.EgressGB
	lives := 3600 * s.rate / float64(s.live) // an hour
	const month = 730 * time.Hour
	stored := s.Snapshots * s.Snapshot / 1e9 * s.StoredGB * float64(s.Keep) / float64(month)
	return fixed/float64(s.live) + traffic + stored*lives
}

// never is the latency of opens that are not done at the end.
const never = time.Hour

// quantile returns a quantile of the latency.
func (r result) quantile(q float64) time.Duration {
	if i := int(q * float64(r.opens)); i < len(r.latency) {
		return r.latency[i]
	}
	return never
}

// busiest returns the part with the highest utilisation.
func (r result) busiest() use {
	return slices.MaxFunc(r.use, func(a, b use) int { return cmp.Compare(a.value, b.value) })
}
