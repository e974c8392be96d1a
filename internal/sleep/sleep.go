// Package sleep waits under a context.
package sleep

import (
	"context"
	"time"
)

// For waits until d has passed, or returns the error of ctx where that ends first.
func For(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
