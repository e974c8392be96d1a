package docker

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/croft-run/croft/internal/host/cgroup"
	"github.com/croft-run/croft/workspace/driver"
)

// whyLost returns a function that attributes the loss of a guest to the OOM killer, by the
// engine's state or the counter of the container's cgroup. With gVisor an engine may still
// report that the container runs.
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

// wasOOMKilled asks the engine, which may notice the death some time later.
func (p *Provider) wasOOMKilled(name string) bool {
	const timeout, interval = 3 * time.Second, 20 * time.Millisecond
	ctx, cancel := context.WithTimeout(p.ctx, timeout)
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
		case <-time.After(interval):
		}
	}
}

// memoryCgroups returns the cgroups that count OOM kills in a container; none if the engine is
// not on this host.
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
		if len(parts) != 3 || !strings.Contains(parts[2], s.ID) { // the PID was reused, or is of another host
			continue
		}
		if parts[1] == "memory" || parts[1] == "" {
			dirs = append(dirs, filepath.Join("/sys/fs/cgroup", parts[1], parts[2]))
		}
	}
	return dirs
}
