package auth

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"golang.org/x/time/rate"

	"github.com/croft-run/croft/fault"
)

// Rates limits the requests per second of each tenant.
type Rates struct {
	// Limit returns the requests per second of a tenant; 0 is no limit.
	Limit func(tenant string) float64

	mu       sync.Mutex
	limiters map[string]*rate.Limiter // guarded by mu; by tenant
}

// Allow counts a request. A request beyond the limit is fault.ResourceExhausted. A tenant may
// use the requests of one second at once.
func (r *Rates) Allow(tenant string) error {
	if r == nil || r.Limit == nil {
		return nil
	}
	limit := r.Limit(tenant)
	if limit <= 0 || r.limiter(tenant, limit).Allow() {
		return nil
	}
	err := fmt.Errorf("request: %w: tenant %q may make %g requests per second", fault.ResourceExhausted, tenant, limit)
	return rateError{fault.WithHint(fault.Advise(err, "wait a second and try again"), fault.HintSetting, "requests")}
}

type rateError struct{ error }

func (e rateError) Unwrap() error { return e.error }

// IsRate reports whether an error is one of Rates: the request may be made again in a second.
func IsRate(err error) bool { return errors.As(err, new(rateError)) }

// limiter returns the limiter of a tenant, with the present limit.
func (r *Rates) limiter(tenant string, limit float64) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limiters == nil {
		r.limiters = map[string]*rate.Limiter{}
	}
	l, burst := r.limiters[tenant], max(1, int(math.Ceil(limit)))
	if l == nil {
		l = rate.NewLimiter(rate.Limit(limit), burst)
		r.limiters[tenant] = l
	}
	if l.Limit() != rate.Limit(limit) {
		l.SetLimit(rate.Limit(limit))
		l.SetBurst(burst)
	}
	return l
}
