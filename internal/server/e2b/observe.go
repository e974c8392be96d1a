package e2b

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/e2b/envd"
)

// A sandboxMetric is what a sandbox uses at one time.
type sandboxMetric struct {
	Timestamp     time.Time `json:"timestamp"`
	TimestampUnix int64     `json:"timestampUnix"`
	CPUCount      int64     `json:"cpuCount"`
	CPUUsedPct    float64   `json:"cpuUsedPct"`
	MemUsed       int64     `json:"memUsed"`
	MemTotal      int64     `json:"memTotal"`
	MemCache      int64     `json:"memCache"`
	DiskUsed      int64     `json:"diskUsed"`
	DiskTotal     int64     `json:"diskTotal"`
}

// metrics answers what a sandbox uses now: there is no history.
func (s *Server) metrics(r *http.Request) (answer, error) {
	query := r.URL.Query()
	now := time.Now()
	for _, name := range []string{"start", "end"} {
		text := query.Get(name)
		if text == "" {
			continue
		}
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			return answer{}, badQuery(name, "%.40q: it is a time in seconds since 1970", text)
		}
	}
	box, err := s.findRequested(r)
	if err != nil {
		return answer{}, err
	}
	out := []sandboxMetric{}
	if end, err := strconv.ParseInt(query.Get("end"), 10, 64); err == nil && end < now.Add(-time.Minute).Unix() || box.state() == paused {
		return answer{body: out}, nil // nothing was recorded
	}
	m, err := s.measure(r, box)
	if err != nil {
		return answer{}, err
	}
	return answer{body: append(out, m)}, nil
}

// metricsOfMany answers what several sandboxes use now.
func (s *Server) metricsOfMany(r *http.Request) (answer, error) {
	var ids []string
	for _, text := range r.URL.Query()["sandbox_ids"] {
		ids = append(ids, strings.Split(text, ",")...)
	}
	if len(ids) == 0 || len(ids) > maxPage {
		return answer{}, badQuery("sandbox_ids", "give 1 to %d ids", maxPage)
	}
	out := map[string]sandboxMetric{}
	for _, id := range ids {
		box, err := s.find(r.Context(), id)
		if fault.Of(err) == fault.NotFound || err == nil && box.state() == paused {
			continue
		}
		if err != nil {
			return answer{}, err
		}
		m, err := s.measure(r, box)
		if err != nil {
			return answer{}, err
		}
		out[id] = m
	}
	return answer{body: map[string]any{"sandboxes": out}}, nil
}

// sandboxLog is an entry of the log of a sandbox: an event of its workspace.
type sandboxLog struct {
	Timestamp time.Time         `json:"timestamp"`
	Level     string            `json:"level"`
	Message   string            `json:"message"`
	Fields    map[string]string `json:"fields"`
}

// recentLogs returns the recent events of a sandbox, oldest first. A call of another tenant that
// named the sandbox, and was refused, is not among them.
func (s *Server) recentLogs(box sandbox) []sandboxLog {
	out := []sandboxLog{}
	if s.cfg.Events == nil {
		return out
	}
	events, _ := s.cfg.Events.Since(0)
	for _, e := range events {
		if e.Workspace != box.ID || e.Tenant != box.Tenant {
			continue
		}
		entry := sandboxLog{Timestamp: e.Time, Level: "info", Message: string(e.Kind), Fields: map[string]string{}}
		for k, v := range e.Fields {
			text, ok := v.(string)
			if data, err := json.Marshal(v); !ok && err == nil {
				text = string(data)
			}
			entry.Fields[k] = text
		}
		if e.Fields[event.FieldCode] != nil {
			entry.Level = "warn"
		}
		out = append(out, entry)
	}
	return out
}

// line returns the form of an entry that E2B's command line reads: a JSON object.
func (e sandboxLog) line() string {
	text := map[string]string{}
	maps.Copy(text, e.Fields)
	text["level"], text["message"], text["logger"] = e.Level, e.Message, "croft"
	data, _ := json.Marshal(text) //nolint:errchkjson // strings can be encoded
	return string(data)
}

func (s *Server) logsV1(r *http.Request) (answer, error) {
	box, err := s.findRequested(r)
	if err != nil {
		return answer{}, err
	}
	type line struct {
		Timestamp time.Time `json:"timestamp"`
		Line      string    `json:"line"`
	}
	page, err := logPage(r.URL.Query(), s.recentLogs(box), func(e sandboxLog) time.Time { return e.Timestamp })
	if err != nil {
		return answer{}, err
	}
	lines := []line{}
	for _, e := range page {
		lines = append(lines, line{e.Timestamp, e.line()})
	}
	return answer{body: map[string]any{"logs": lines, "logEntries": page}}, nil
}

func (s *Server) logs(r *http.Request) (answer, error) {
	box, err := s.findRequested(r)
	if err != nil {
		return answer{}, err
	}
	query := r.URL.Query()
	least, search := slices.Index(levels, query.Get("level")), query.Get("search")
	entries := slices.DeleteFunc(s.recentLogs(box), func(e sandboxLog) bool {
		return slices.Index(levels, e.Level) < least || !strings.Contains(e.Message, search)
	})
	page, err := logPage(query, entries, func(e sandboxLog) time.Time { return e.Timestamp })
	if err != nil {
		return answer{}, err
	}
	return answer{body: map[string]any{"logs": page}}, nil
}

// maxLogs is the maximum and default of the entries of a page of logs.
const maxLogs = 1000

// logPage returns the entries that a query asks for. The cursor, or start of the older API, is
// a time in milliseconds since 1970.
func logPage[T any](query url.Values, entries []T, at func(T) time.Time) ([]T, error) {
	limit, cursor := maxLogs, int64(-1)
	for _, name := range []string{"limit", "cursor", "start"} {
		text := query.Get(name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || name == "limit" && n > maxLogs {
			return nil, badQuery(name, "%.40q: limit is 0 to %d, and the others are milliseconds since 1970", text, maxLogs)
		}
		if name == "limit" {
			limit = int(n)
		} else {
			cursor = n
		}
	}
	backward := query.Get("direction") == "backward"
	if cursor >= 0 {
		entries = slices.DeleteFunc(slices.Clone(entries), func(e T) bool {
			order := at(e).UnixMilli() - cursor
			return order < 0 && !backward || order >= 0 && backward
		})
	}
	if backward {
		entries = slices.Clone(entries)
		slices.Reverse(entries)
	}
	if entries == nil {
		entries = []T{}
	}
	return entries[:min(limit, len(entries))], nil
}

func (s *Server) measure(r *http.Request, box sandbox) (sandboxMetric, error) {
	ws, err := s.cfg.Registry.Acquire(r.Context(), box.ID)
	if err != nil {
		return sandboxMetric{}, err
	}
	m, err := s.cfg.Envd.Metrics(r.Context(), envd.Sandbox{ID: box.ID, Workspace: ws})
	if err != nil {
		return sandboxMetric{}, err
	}
	return sandboxMetric{
		Timestamp: time.Unix(m.Time, 0).UTC(), TimestampUnix: m.Time, CPUCount: int64(m.CPUs), CPUUsedPct: m.CPUUsed, MemUsed: m.MemUsed, MemTotal: m.MemTotal,
		MemCache: m.MemCache, DiskUsed: m.DiskUsed, DiskTotal: m.DiskTotal,
	}, nil
}
