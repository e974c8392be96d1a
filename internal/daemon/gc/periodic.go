package gc

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/croft-run/croft/internal/sleep"
)

// Task is the name of a garbage collection by a server among its background tasks.
const Task = "gc"

const (
	collectEvery = time.Hour // interval of garbage collections by a server
	collectTime  = time.Hour // limits one
)

// collectedCounter counts what garbage collection removed.
var collectedCounter = sync.OnceValue(func() metric.Int64Counter {
	// The name is valid, so the only failure is a nil instrument.
	c, _ := otel.Meter("github.com/croft-run/croft/internal/daemon/app").Int64Counter("croft.collected",
		metric.WithDescription("Things that garbage collection removed: snapshots that expired, containers without a workspace; and runs that failed."))
	return c
})

// Run collects garbage every hour, until ctx ends.
func (g *Collector) Run(ctx context.Context) {
	for sleep.For(ctx, collectEvery) == nil {
		g.Background.Do(ctx, Task, collectTime, g.collectAndCount) //nolint:errcheck // it is logged
	}
}

func (g *Collector) collectAndCount(ctx context.Context) error {
	found, err := g.Collect(ctx)
	counts := map[string]int{"snapshots": len(found.Snapshots), "containers": len(found.Containers)}
	if err != nil && ctx.Err() == nil {
		g.Log.Warn("garbage collection", "error", err)
		counts["failures"] = 1
	}
	for what, n := range counts {
		if c := collectedCounter(); c != nil && n > 0 {
			c.Add(ctx, int64(n), metric.WithAttributes(attribute.String("what", what)))
		}
	}
	g.Log.Info("garbage collection", "snapshots", len(found.Snapshots), "containers", len(found.Containers))
	return err
}
