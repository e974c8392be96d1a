// Package sleep waits under a context.
package sleep

import (
	"context"
	"math/rand/v2"
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

// Backoff returns the wait before retry n of a call, from 0. The waits double, and their sum is at most
// total. Half of each is random, so that callers that failed together do not repeat together.
func Backoff(total time.Duration, retries, n int) time.Duration {
	share := float64(total) / float64((int64(1)<<min(retries, 30))-1)
	d := share * float64(int64(1)<<min(n, 30))
	return time.Duration(d/2 + rand.Float64()*d/2)
}
