package httpguard

import (
	"fmt"
	"io"
	"sync"

	"github.com/croft-run/croft/fault"
)

// Bodies bounds the bytes of requests that are in memory at once, for each tenant. Files, which
// are streamed, do not count. The zero value is ready, and nil has no bound.
type Bodies struct {
	mu    sync.Mutex
	sizes map[string]int64 // guarded by mu; bytes by tenant
}

// maxBodies is the bound of each tenant.
const maxBodies = 128 << 20

// Hold counts bytes of a tenant until Release. Beyond the bound it counts nothing, and the
// error is fault.ResourceExhausted.
func (b *Bodies) Hold(tenant string, n int64) error {
	if b == nil || n <= 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sizes[tenant]+n > maxBodies {
		return fmt.Errorf("request: %w: requests of more than %d bytes are under way; wait for them, or send files as files", fault.ResourceExhausted, maxBodies)
	}
	if b.sizes == nil {
		b.sizes = map[string]int64{}
	}
	b.sizes[tenant] += n
	return nil
}

// Release ends what Hold began.
func (b *Bodies) Release(tenant string, n int64) {
	if b == nil || n <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sizes[tenant] -= n; b.sizes[tenant] <= 0 {
		delete(b.sizes, tenant)
	}
}

// Body returns a body whose bytes count from when they are read until Release.
func (b *Bodies) Body(tenant string, body io.ReadCloser) *Body {
	return &Body{ReadCloser: body, bodies: b, tenant: tenant}
}

// A Body is the body of a request that is read into memory.
type Body struct {
	io.ReadCloser
	bodies *Bodies
	tenant string

	mu   sync.Mutex
	size int64 // guarded by mu
}

func (b *Body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if full := b.bodies.Hold(b.tenant, int64(n)); full != nil {
		return 0, full
	}
	b.mu.Lock()
	b.size += int64(n)
	b.mu.Unlock()
	return n, err
}

// Release says that what was read so far is no longer in memory.
func (b *Body) Release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bodies.Release(b.tenant, b.size)
	b.size = 0
}
