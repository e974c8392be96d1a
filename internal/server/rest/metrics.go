package rest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace/driver"
)

func (s workspaceRoutes) metrics() {
	op := shown(s.op(http.MethodGet, onePath+"/metrics", "workspace-metrics", "What a workspace uses now: CPU, memory, processes, disk; and its limits"))
	op.Description = "It does not open the workspace, and is no use of it: an idle workspace expires. One that the server has not open uses nothing but disk space, and is E_WRONG_STATE."
	onRecord(s, op, s.showMetricsOf)
	handle(s, s.op(http.MethodGet, "/v1/tenants", "list-tenants", "Tenants with their quotas and what they use; a key of a tenant sees its own"), s.listTenants)
}

// A cpuSample is a measurement of CPU time, with the rate since the one before.
type cpuSample struct {
	at   time.Time
	used float64  // seconds
	rate *float64 // cores; nil is not known yet
}

// cpuRates has the last sample of each workspace, by id.
type cpuRates struct {
	mu      sync.Mutex
	samples map[string]cpuSample // guarded by mu
}

// minSample is the shortest time over which a rate is computed: clients that ask at nearly the
// same time get the same one.
const minSample = 500 * time.Millisecond

// maxSamples bounds the entries of cpuRates.
const maxSamples = 10_000

// rate returns the cores in use since the measurement before.
func (c *cpuRates) rate(id string, m driver.Metrics) *float64 {
	if m.CPUTime == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	was, ok := c.samples[id]
	elapsed := m.Time.Sub(was.at)
	if ok && elapsed < minSample {
		return was.rate
	}
	now := cpuSample{at: m.Time, used: *m.CPUTime}
	if ok {
		now.rate = new(max(0, (now.used-was.used)/elapsed.Seconds()))
	}
	if c.samples == nil || len(c.samples) >= maxSamples {
		c.samples = map[string]cpuSample{}
	}
	c.samples[id] = now
	return now.rate
}

// milli is the unit of the CPU limit: thousandths of a core.
const milli = 1000

// measure measures a workspace that is open; ok is false if it is not, or can't be measured.
func (s workspaceRoutes) measure(ctx context.Context, r registry.Record) (out client.Metrics, ok bool, err error) {
	ws, ok := s.cfg.Registry.Live(ctx, r.ID)
	if !ok {
		return out, false, nil
	}
	if out.Metrics, err = ws.Metrics(ctx); err != nil {
		return out, false, err
	}
	l := r.Spec.Policy.Limits
	out.CPU = s.cpu.rate(r.ID, out.Metrics)
	out.Limits = client.MetricsLimits{
		CPU: float64(l[driver.ResourceCPU].Max) / milli, Memory: l[driver.ResourceMemory].Max, PIDs: l[driver.ResourcePIDs].Max, Disk: l[driver.ResourceDisk].Max,
	}
	return out, true, nil
}

func (s workspaceRoutes) showMetricsOf(ctx context.Context, r registry.Record, _ *Target) (*body[client.Metrics], error) {
	m, ok, err := s.measure(ctx, r)
	if err == nil && !ok {
		err = fmt.Errorf("metrics of workspace %s: %w: it is not open (state %s); what uses it opens it", r.ID, fault.WrongState, r.State)
	}
	return &body[client.Metrics]{m}, err
}

// Tenants is the answer of GET /v1/tenants.
type Tenants struct {
	Tenants []client.Tenant `json:"tenants"`
}

// listTenants lists the tenants that have a quota, a workspace or a key.
func (s workspaceRoutes) listTenants(ctx context.Context, _ *none) (*body[Tenants], error) {
	p, _ := auth.From(ctx)
	names := []string{p.Tenant}
	if p.Operator() && s.cfg.Tenants != nil {
		names = append(names, s.cfg.Tenants()...)
	}
	recs, err := s.cfg.Registry.List(ctx, registry.Filter{})
	if err != nil {
		return nil, err
	}
	for _, r := range recs {
		names = append(names, r.Tenant)
	}
	if keys := s.cfg.Guard.Keys; keys != nil && p.Operator() {
		list, err := keys.List(ctx)
		if err != nil {
			return nil, err
		}
		for _, k := range list {
			names = append(names, k.Tenant)
		}
	}
	out := Tenants{Tenants: []client.Tenant{}}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		out.Tenants = append(out.Tenants, s.tenantView(name, recs))
	}
	return &body[Tenants]{out}, nil
}

// tenantView returns a tenant with its quotas, and what of them its workspaces use.
func (s workspaceRoutes) tenantView(name string, recs []registry.Record) client.Tenant {
	t := client.Tenant{Tenant: name}
	if s.cfg.QuotaOf != nil && name != "" {
		t = s.cfg.QuotaOf(name)
	}
	var count, cpu, memory, disk float64
	for _, r := range recs {
		if r.Tenant != name {
			continue
		}
		l := r.Spec.Policy.Limits
		count++
		cpu += float64(l[driver.ResourceCPU].Max) / milli
		memory += float64(l[driver.ResourceMemory].Max)
		disk += float64(l[driver.ResourceDisk].Max)
	}
	t.Workspaces.Used, t.CPU.Used, t.Memory.Used, t.Disk.Used = &count, &cpu, &memory, &disk
	if n, ok := s.cfg.Guard.Open.Count(name); ok {
		t.Connections.Used = new(float64(n))
	}
	return t
}
