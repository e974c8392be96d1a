package auth

import (
	"fmt"
	"sync"

	"github.com/croft-run/croft/fault"
)

// Open bounds what each tenant has open at the same time: requests, streams and connections.
type Open struct {
	// Limit returns how many a tenant may have open; 0 is no limit.
	Limit func(tenant string) int

	mu     sync.Mutex
	counts map[openKey]int // guarded by mu
}

type openKey struct {
	tenant string
	ports  bool
}

// Count returns what a tenant has open, without connections to ports of programs; ok is false
// if nothing is counted, because there is no limit.
func (o *Open) Count(tenant string) (n int, ok bool) {
	if o == nil || o.Limit == nil || o.Limit(tenant) <= 0 {
		return 0, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.counts[openKey{tenant, false}], true
}

// Begin counts a request until end is called. Requests to ports of programs count on their own:
// they need no key, and must not use up those of the tenant. A request beyond the limit is
// fault.ResourceExhausted.
func (o *Open) Begin(tenant string, ports bool) (end func(), err error) {
	if o == nil || o.Limit == nil {
		return func() {}, nil
	}
	limit, key := o.Limit(tenant), openKey{tenant, ports}
	if limit <= 0 {
		return func() {}, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.counts[key] >= limit {
		what := "requests"
		if ports {
			what = "connections to ports"
		}
		return nil, fmt.Errorf("request: %w: tenant %q has %d %s open, and its quota maxConnections is %d; end one, or ask the operator for a higher quota",
			fault.ResourceExhausted, tenant, o.counts[key], what, limit)
	}
	if o.counts == nil {
		o.counts = map[openKey]int{}
	}
	o.counts[key]++
	return sync.OnceFunc(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.counts[key]--; o.counts[key] == 0 {
			delete(o.counts, key)
		}
	}), nil
}
