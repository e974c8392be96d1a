package app

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/croft-run/croft/internal/sleep"
)

// collectEvery is the interval of garbage collection by a server.
const collectEvery = time.Hour

// collectedCounter counts what garbage collection removed.
var collectedCounter = sync.OnceValue(func() metric.Int64Counter {
	// The name is valid, so the only failure is a nil instrument.
	c, _ := otel.Meter("github.com/croft-run/croft/internal/daemon/app").Int64Counter("croft.collected",
		metric.WithDescription("Things that garbage collection removed: snapshots that expired, containers without a workspace; and runs that failed."))
	return c
})

// collectPeriodically does what croft gc does, every collectEvery, until ctx ends.
func (s *System) collectPeriodically(ctx context.Context) {
	for sleep.For(ctx, collectEvery) == nil {
		s.background.Do(ctx, collectTask, collectTime, s.collectAndCount) //nolint:errcheck // it is logged
	}
}

const (
	collectTask = "gc"
	collectTime = time.Hour // limits one garbage collection
)

func (s *System) collectAndCount(ctx context.Context) error {
	found, err := s.Collect(ctx)
	counts := map[string]int{"snapshots": len(found.Snapshots), "containers": len(found.Containers)}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("garbage collection", "error", err)
		counts["failures"] = 1
	}
	for what, n := range counts {
		if c := collectedCounter(); c != nil && n > 0 {
			c.Add(ctx, int64(n), metric.WithAttributes(attribute.String("what", what)))
		}
	}
	s.log.Info("garbage collection", "snapshots", len(found.Snapshots), "containers", len(found.Containers))
	return err
}
