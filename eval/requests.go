package eval

import (
	"sync"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/event"
)

// Requests is an event sink that collects the network requests of workspaces. The
// provider that opens the workspaces emits to it. The zero value is ready to use.
type Requests struct {
	mu  sync.Mutex
	all map[string][]session.Request // guarded by mu; by workspace
}

// maxRequests bounds the requests that are kept of one session.
const maxRequests = 1000

// Emit adds a request event.
func (r *Requests) Emit(e event.Event) {
	if e.Kind != event.EgressRequest {
		return
	}
	text := func(name string) string { s, _ := e.Fields[name].(string); return s }
	q := session.Request{
		Host: text(event.FieldHost), Method: text(event.FieldMethod), Verdict: text(event.FieldVerdict), Reason: text(event.FieldReason),
		Port: int(toInt64(e.Fields[event.FieldPort])), Status: int(toInt64(e.Fields[event.FieldStatus])),
		BytesIn: toInt64(e.Fields[event.FieldBytesIn]), BytesOut: toInt64(e.Fields[event.FieldBytesOut]),
	}
	if !e.Time.IsZero() {
		q.At = session.Time(e.Time)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string][]session.Request{}
	}
	if len(r.all[e.Workspace]) < maxRequests {
		r.all[e.Workspace] = append(r.all[e.Workspace], q)
	}
}

func toInt64(v any) int64 {
	switch n := v.(type) {
	case int:
		return int64(n)
	case int64:
		return n
	case uint16:
		return int64(n)
	case float64:
		return int64(n)
	}
	return 0
}

// forWorkspace returns the requests of a workspace so far.
func (r *Requests) forWorkspace(workspace string) []session.Request {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[workspace]
}

// dropWorkspace removes the requests of a workspace that has ended.
func (r *Requests) dropWorkspace(workspace string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, workspace)
}
