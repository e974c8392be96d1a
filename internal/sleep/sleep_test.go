package sleep

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if err := For(ctx, time.Second); err != nil || time.Since(start) != time.Second {
			t.Errorf("For = %v after %v, want nil after 1s", err, time.Since(start))
		}
		if err := For(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("For = %v after %v, want the end of the context after 1m", err, time.Since(start))
		}
		if err := For(ctx, -1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("For = %v, want the end of the context", err)
		}
	})
}

func TestBackoff(t *testing.T) {
	const total, retries = 7 * time.Second, 3
	for n, most := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		for range 100 {
			if d := Backoff(total, retries, n); d < most/2 || d > most {
				t.Fatalf("the wait before retry %d is %v, want %v to %v", n, d, most/2, most)
			}
		}
	}
}
