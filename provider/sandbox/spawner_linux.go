package sandbox

import (
	"sync"

	"github.com/croft-run/croft/guest"
)

// apart is the process that starts guests, where there is one.
type apart struct {
	mu      sync.Mutex
	spawner *guest.Spawner // +checklocks:mu; nil is none
	tried   bool           // +checklocks:mu
}

// spawner returns what starts guests beside this process, nil where nothing does.
func (p *Provider) spawner(binary string) *guest.Spawner {
	if !p.cfg.Spawner {
		return nil
	}
	p.apart.mu.Lock()
	defer p.apart.mu.Unlock()
	if p.apart.tried {
		return p.apart.spawner
	}
	p.apart.tried = true
	s, err := guest.NewSpawner(binary)
	if err != nil {
		p.log.Warn("sandbox: no process starts guests beside this one", "error", err)
		return nil
	}
	p.apart.spawner = s
	return s
}

// close ends it, for good.
func (a *apart) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.spawner
	a.tried, a.spawner = true, nil
	return s.Close()
}
