package envd

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/httplog"
	"github.com/croft-run/croft/workspace/driver"
)

// Metrics is what a sandbox uses.
type Metrics struct {
	Time      int64   `json:"ts"` // Unix seconds
	CPUs      int     `json:"cpu_count"`
	CPUUsed   float64 `json:"cpu_used_pct"` // 100 is all CPUs, since the last call
	MemTotal  int64   `json:"mem_total"`    // bytes
	MemUsed   int64   `json:"mem_used"`     // resident memory of the processes
	MemCache  int64   `json:"mem_cache"`    // always 0: the page cache is the host's
	DiskUsed  int64   `json:"disk_used"`    // of the file system with the workspace
	DiskTotal int64   `json:"disk_total"`
}

// A cpuSample is the CPU time of a sandbox's processes.
type cpuSample struct {
	at   time.Time
	used float64 // seconds
}

// metricsScript prints what parseMetrics reads.
const metricsScript = `getconf PAGESIZE; getconf CLK_TCK; nproc; sed -n 's/^MemTotal: *\([0-9]*\).*/\1/p' /proc/meminfo; df -kP "$1" | sed -n 's/.*[^0-9]\([0-9][0-9]*\)  *\([0-9][0-9]*\)  *[0-9][0-9]*  *[0-9]*%.*/\1 \2/p'
cat /proc/[0-9]*/stat 2>/dev/null || true`

// Metrics returns what a sandbox uses, as its processes see it.
func (s *Server) Metrics(ctx context.Context, sb Sandbox) (Metrics, error) {
	c := &sandboxCall{Sandbox: sb, box: s.box(sb.ID)}
	out, err := c.inside(ctx, metricsScript, c.home())
	if err != nil {
		return Metrics{}, err
	}
	m, used, err := parseMetrics(string(out))
	if err != nil {
		return m, err
	}
	now := cpuSample{at: time.Now(), used: used}
	m.Time = now.at.Unix()
	if l := sb.Limits[driver.ResourceMemory].Max; l > 0 {
		m.MemTotal = min(l, m.MemTotal)
	}
	if l := sb.Limits[driver.ResourceCPU].Max; l > 0 {
		const milli = 1000
		m.CPUs = min(m.CPUs, int(math.Ceil(float64(l)/milli)))
	}
	c.box.mu.Lock()
	before := c.box.cpu
	c.box.cpu = now
	c.box.mu.Unlock()
	if elapsed := now.at.Sub(before.at).Seconds(); !before.at.IsZero() && elapsed > 0 && m.CPUs > 0 {
		const percent = 100
		m.CPUUsed = min(max(percent*(now.used-before.used)/elapsed/float64(m.CPUs), 0), percent)
	}
	return m, nil
}

// parseMetrics parses the output of metricsScript. Programs inside may forge it: it is data.
func parseMetrics(out string) (m Metrics, cpu float64, err error) {
	lines := strings.Split(out, "\n")
	const header = 5
	if len(lines) < header {
		return m, 0, fmt.Errorf("%w: the sandbox lacks getconf, nproc, df or /proc", fault.Failed)
	}
	number := func(text string) int64 {
		n, e := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if e != nil || n < 0 || n > math.MaxInt64>>20 {
			err = fmt.Errorf("%w: the sandbox answered %.40q for a number", fault.Failed, text)
		}
		return n
	}
	page, tick := number(lines[0]), number(lines[1])
	m.CPUs, m.MemTotal = int(number(lines[2])), number(lines[3])<<10
	total, used, _ := strings.Cut(lines[4], " ")
	m.DiskTotal, m.DiskUsed = number(total)<<10, number(used)<<10
	if err != nil || tick == 0 {
		return m, 0, err
	}
	// Fields of proc(5) after the name of the program, which is in parentheses.
	const utime, stime, rss = 11, 12, 21
	for _, line := range lines[header:] {
		f := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
		if len(f) <= rss {
			continue
		}
		m.MemUsed += min(number(f[rss])*page, math.MaxInt32<<20)
		cpu += float64(number(f[utime])+number(f[stime])) / float64(tick)
	}
	return m, cpu, err
}

// metrics serves GET /metrics.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	m, err := s.Metrics(r.Context(), callOf(r.Context()).Sandbox)
	if err != nil {
		writeError(w, err)
		return
	}
	httplog.WriteJSON(w, http.StatusOK, m)
}
