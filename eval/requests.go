package eval

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

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

// networkRequests returns the requests of a command that has ended. A request is emitted
// when its connection ends, which may be after the end of the command, so it waits for
// pending ones, but not for long: a process may keep a connection open.
func (p *plan) networkRequests(ctx context.Context, env *Env) []session.Request {
	const patience = 10 * time.Second
	if env.waitRequests != nil && p.Requests != nil {
		soon, cancel := context.WithTimeout(ctx, patience)
		env.waitRequests(soon) //nolint:errcheck // the requests that were emitted by then count
		cancel()
	}
	return p.Requests.forWorkspace(env.Workspace.ID())
}

// refusedHosts says in one line which hosts the network policy refused, and how to allow
// them; "" if it refused none.
func refusedHosts(list []session.Request) string {
	var hosts, flags []string
	private := false
	for _, q := range list {
		if q.Verdict != event.VerdictDeny || q.Host == "" || q.Host == "*" || slices.Contains(hosts, q.Host) {
			continue
		}
		hosts, flags = append(hosts, q.Host), append(flags, "--allow-net "+q.Host)
		private = private || !strings.HasPrefix(q.Reason, "no rule allows it")
	}
	switch {
	case len(hosts) == 0:
		return ""
	case private: // a rule allows it, and its address is not public
		return fmt.Sprintf("The network refused %s: allow it with croft.policy.network.allow, where private: true allows addresses of a private network.", strings.Join(hosts, ", "))
	}
	return fmt.Sprintf("The network refused %s: allow it with %s, or croft.allowNet: [%s] in the configuration.",
		strings.Join(hosts, ", "), strings.Join(flags, " "), strings.Join(hosts, ", "))
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
