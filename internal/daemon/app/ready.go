package app

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/croft-run/croft/internal/daemon/gc"
	"github.com/croft-run/croft/internal/diskreserve"
	"github.com/croft-run/croft/internal/server/rest"
	"github.com/croft-run/croft/registry"
)

// minFree is the free space of the data directory below which the server is not ready.
const minFree = 256 << 20

// readyTimeout bounds each check of readyChecks.
const readyTimeout = 5 * time.Second

// readyChecks checks what opening a workspace needs. The causes of failures are logged.
func (s *System) readyChecks(ctx context.Context) []rest.ReadyCheck {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var out []rest.ReadyCheck
	add := func(name string, ok bool, attrs ...any) {
		out = append(out, rest.ReadyCheck{Name: name, OK: ok})
		if !ok {
			s.log.Warn("not ready: "+name, attrs...)
		}
	}
	_, err := s.Registry.Revision(ctx)
	add("database", err == nil, "error", err)
	err = s.Rules.CheckDefaultProvider(ctx)
	add("provider", err == nil, "error", err)
	if s.cluster != nil {
		add("replica", s.Registry.HasLease(), "node", s.cluster.node)
	}
	stalled := s.stalls()
	tasks, workspaces := 0, 0
	for _, one := range stalled {
		if one.Workspace == "" {
			tasks++
		} else {
			workspaces++
		}
	}
	add("background", tasks == 0, "stalled", stalled)
	// One tenant's workspace must not make the server unready for all.
	out = append(out, rest.ReadyCheck{Name: "stuck-workspaces", OK: workspaces == 0, Advisory: true})
	free, err := diskreserve.Free(s.Dir)
	add("disk", err == nil && free >= minFree, "free", free, "needed", int64(minFree), "error", err)
	return out
}

// stalls lists the background work of the system that is over its time limit.
func (s *System) stalls() []registry.Stall {
	out := s.Registry.Stalls()
	for _, one := range s.background.Stalls() {
		out = append(out, registry.Stall(one))
	}
	return out
}

// A systemCollector is the metrics of a system: how many workspaces there are, and the free
// space of the data directory. Its labels are states and kinds, which are few.
type systemCollector struct{ system *System }

var (
	workspacesMetric = prometheus.NewDesc("croft_workspaces", "Workspaces, by state and provider.", []string{"state", "provider"}, nil)
	stalledMetric    = prometheus.NewDesc("croft_background_stalled", "Background work over its time limit: workspaces that hang, and tasks that do.", []string{"task"}, nil)
	freeMetric       = prometheus.NewDesc("croft_data_free_bytes", "Free space of the data directory's file system.", nil, nil)
)

func (systemCollector) Describe(out chan<- *prometheus.Desc) {
	out <- workspacesMetric
	out <- stalledMetric
	out <- freeMetric
}

func (c systemCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout) //nolint:forbidigo // a collector has no context
	defer cancel()
	recs, err := c.system.Registry.List(ctx, registry.Filter{})
	if err != nil {
		out <- prometheus.NewInvalidMetric(workspacesMetric, err)
	}
	type labels struct{ state, kind string }
	counts := map[labels]int{}
	for _, state := range registry.States() {
		for _, kind := range c.system.Mux.Kinds() {
			counts[labels{string(state), kind}] = 0
		}
	}
	for _, rec := range recs {
		counts[labels{string(rec.State), rec.Kind}]++
	}
	for l, n := range counts {
		out <- prometheus.MustNewConstMetric(workspacesMetric, prometheus.GaugeValue, float64(n), l.state, l.kind)
	}
	stalled := map[string]int{}
	for _, task := range append(registry.Tasks(), gc.Task) {
		stalled[task] = 0
	}
	for _, one := range c.system.stalls() {
		stalled[one.Task]++
	}
	for task, n := range stalled {
		out <- prometheus.MustNewConstMetric(stalledMetric, prometheus.GaugeValue, float64(n), task)
	}
	if free, err := diskreserve.Free(c.system.Dir); err == nil {
		out <- prometheus.MustNewConstMetric(freeMetric, prometheus.GaugeValue, float64(free))
	}
}
