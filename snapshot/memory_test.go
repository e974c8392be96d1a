package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
)

// Memory returns a backend that keeps objects in this process.
func Memory() Backend { return &memoryBackend{objects: map[string]memoryObject{}} }

type memoryBackend struct {
	use sync.RWMutex // Lock

	mu      sync.Mutex
	objects map[string]memoryObject
}

type memoryObject struct {
	data []byte
	when time.Time
}

func (b *memoryBackend) Create(_ context.Context, name string) (Pending, error) {
	return &pendingMemory{b: b, name: name}, nil
}

type pendingMemory struct {
	bytes.Buffer
	b    *memoryBackend
	name string
}

func (p *pendingMemory) Commit(context.Context) error {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	p.b.objects[p.name] = memoryObject{p.Bytes(), time.Now()}
	return nil
}

func (p *pendingMemory) Abort() {}

func (b *memoryBackend) ReadRange(_ context.Context, name string, off, n int64) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o, ok := b.objects[name]
	if !ok {
		return nil, fmt.Errorf("snapshot: read %s: %w", name, fault.NotFound)
	}
	if off < 0 || n < 0 || off+n > int64(len(o.data)) {
		return nil, corruptError("read %s: it ends before byte %d", name, off+n)
	}
	return o.data[off : off+n], nil
}

func (b *memoryBackend) List(_ context.Context, kind string) ([]Entry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []Entry
	for name, o := range b.objects {
		if id, ok := strings.CutPrefix(name, kind+"/"); ok {
			list = append(list, Entry{ID: id, Size: int64(len(o.data)), ModTime: o.when})
		}
	}
	return list, nil
}

func (b *memoryBackend) Delete(_ context.Context, name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.objects, name)
	return nil
}

func (b *memoryBackend) Lock(_ context.Context, shared bool) (func(), error) {
	if shared {
		b.use.RLock()
		return b.use.RUnlock, nil
	}
	b.use.Lock()
	return b.use.Unlock, nil
}

func (b *memoryBackend) Clean(context.Context) error { return nil }
