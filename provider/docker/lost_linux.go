package docker

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/croft-run/croft/guest"
	"github.com/croft-run/croft/workspace/driver"
)

// whyLost returns what tells why the guest of a container is gone: the kernel
// killed it for memory, as the engine says or as the container's control group
// counts; for gVisor an engine may go on to say that it runs.
func (h *handle) whyLost(l *launch) func() driver.Cause {
	if l.policy.Limits[driver.ResourceMemory].Max == 0 {
		return nil
	}
	counter := h.p.oomCounter(l)
	before := killed(counter)
	return func() driver.Cause {
		if counter != "" && killed(counter) > before {
			return driver.CauseOOM
		}
		if h.p.diedOfMemory(l.name) {
			return driver.CauseOOM
		}
		return ""
	}
}

// diedOfMemory asks the engine, which may hear of a death a little later.
func (p *Provider) diedOfMemory(name string) bool {
	const patience, look = 3 * time.Second, 20 * time.Millisecond
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	for {
		s, err := p.engine.Inspect(ctx, name)
		if err != nil || s.OOM {
			return err == nil
		}
		if !s.Running {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(look):
		}
	}
}

// oomCounter finds the file in which the kernel counts whom it killed for memory
// in a container; "" where the engine is not on this host.
func (p *Provider) oomCounter(l *launch) string {
	ctx, cancel := context.WithTimeout(p.ctx, p.cfg.AnswerTimeout)
	defer cancel()
	s, err := p.engine.Inspect(ctx, l.name)
	if err != nil || s.PID == 0 {
		return ""
	}
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.PID), "cgroup"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || !strings.Contains(parts[2], s.ID) { // the number is of another process
			continue
		}
		path := ""
		switch parts[1] {
		case "memory":
			path = filepath.Join("/sys/fs/cgroup/memory", parts[2], "memory.oom_control")
		case "":
			path = filepath.Join("/sys/fs/cgroup", parts[2], "memory.events")
		}
		if _, err := os.Stat(path); path != "" && err == nil {
			return path
		}
	}
	return ""
}

func killed(counter string) int64 {
	data, err := os.ReadFile(counter)
	if err != nil {
		return 0
	}
	return guest.Counter(string(data), "oom_kill ")
}
