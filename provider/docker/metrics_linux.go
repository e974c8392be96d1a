package docker

import (
	"context"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/workspace/driver"
)

// metrics asks the engine for what the container uses, and measures the files by a walk; those on
// a volume are not measured.
func (h *handle) metrics(ctx context.Context) (driver.Metrics, error) {
	out := driver.Metrics{Time: time.Now().UTC()}
	rec := supervise.ReadRecord(h.att.Dir)
	if rec == nil || rec.Container == "" { // nothing runs
		out.CPUTime, out.Memory, out.PIDs = new(0.0), new(int64(0)), new(int64(0))
	} else {
		ctx, cancel := context.WithTimeout(ctx, h.p.cfg.AnswerTimeout)
		defer cancel()
		use, err := h.p.engine.Usage(ctx, rec.Container)
		if err != nil && fault.Of(err) != fault.NotFound {
			return out, err
		}
		out.Memory, out.PIDs = use.Memory, use.PIDs
		if use.CPU != nil {
			out.CPUTime = new(use.CPU.Seconds())
		}
	}
	if !h.onVolume() {
		out.Disk = h.disk.Bytes(ctx, h.att.Dir.Path)
	}
	return out, nil
}
