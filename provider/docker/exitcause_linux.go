package docker

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/croft-run/croft/host/cgroup"
	"github.com/croft-run/croft/workspace/driver"
)

// whyLost returns what tells why the guest of a container is gone: the kernel
// killed it for memory, as the engine says or as the container's control group
// counts; for gVisor an engine may go on to say that it runs.
func (h *handle) whyLost(l *launch) func() driver.Cause {
	if l.policy.Limits[driver.ResourceMemory].Max == 0 {
		return nil
	}
	groups := h.p.memoryCgroups(l)
	before := cgroup.OOMKills(groups...)
	return func() driver.Cause {
		if cgroup.OOMKills(groups...) > before || h.p.wasOOMKilled(l.name) {
			return driver.CauseOOM
		}
		return ""
	}
}

// wasOOMKilled asks the engine, which may hear of a death a little later.
func (p *Provider) wasOOMKilled(name string) bool {
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

// memoryCgroups are the control groups in which the kernel counts what it killed for memory in
// a container; none where the engine is not on this host.
func (p *Provider) memoryCgroups(l *launch) (dirs []string) {
	ctx, cancel := context.WithTimeout(p.ctx, p.cfg.AnswerTimeout)
	defer cancel()
	s, err := p.engine.Inspect(ctx, l.name)
	if err != nil || s.PID == 0 {
		return nil
	}
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.PID), "cgroup"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || !strings.Contains(parts[2], s.ID) { // the number is of another process
			continue
		}
		if parts[1] == "memory" || parts[1] == "" {
			dirs = append(dirs, filepath.Join("/sys/fs/cgroup", parts[1], parts[2]))
		}
	}
	return dirs
}
