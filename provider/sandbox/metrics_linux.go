package sandbox

import (
	"context"
	"time"

	"github.com/croft-run/croft/internal/host/cgroup"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/workspace/driver"
)

// metrics measures the processes by their cgroups, and the files by a walk.
func (h *handle) metrics(ctx context.Context) (driver.Metrics, error) {
	out := driver.Metrics{Time: time.Now().UTC(), CPUTime: new(0.0), Memory: new(int64(0)), PIDs: new(int64(0))}
	if rec := supervise.ReadRecord(h.att.Dir); rec != nil { // else nothing runs
		use := cgroup.MeasureUsage(rec.Groups)
		out.CPUTime, out.Memory, out.PIDs = nil, use.Memory, use.PIDs
		if use.CPU != nil {
			out.CPUTime = new(use.CPU.Seconds())
		}
	}
	if dir := h.dir.State().Dir; dir != "" {
		return out, nil // a directory of the user, which may be large
	}
	out.Disk = h.disk.Bytes(ctx, h.att.Dir.Path)
	return out, nil
}
