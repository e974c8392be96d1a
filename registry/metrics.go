package registry

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// endedCounter counts workspaces that the registry ended by itself.
var endedCounter = sync.OnceValue(func() metric.Int64Counter {
	// The name is valid, so the only failure is a nil instrument.
	c, _ := otel.Meter("github.com/croft-run/croft/registry").Int64Counter("workspace.ended",
		metric.WithDescription("Workspaces that ended by themselves: idle, or at their end."))
	return c
})

// countEnded counts a workspace that ended for a reason: "idle" or "end".
func countEnded(ctx context.Context, reason string) {
	if c := endedCounter(); c != nil {
		c.Add(ctx, 1, metric.WithAttributes(attribute.String("reason", reason)))
	}
}
