package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
)

// A requestRecord collects the fields of the event of one request.
type requestRecord struct {
	began      time.Time
	target     target
	host       string // where there is no target, because it was not understood
	protocol   string
	method     string
	rule       string
	credential string
	addr       netip.Addr
	status     int
	in, out    int64
	err        error // why it was refused or ended
	emitted    bool  // the event of a refusal is emitted before its answer: the program may end with that
}

// reportRefusal calls Options.Refused for a refusal of the policy.
func (p *Proxy) reportRefusal(host string, why *refusal) {
	if p.opts.Refused != nil && host != "" && why.code == fault.PermissionDenied {
		p.opts.Refused(host, why.reason)
	}
}

// emitEvent emits the audit event of a request, once.
func (p *Proxy) emitEvent(r *requestRecord) {
	if r.emitted {
		return
	}
	r.emitted = true
	fields := map[string]any{
		event.FieldProtocol: r.protocol,
		event.FieldMethod:   r.method,
		event.FieldVerdict:  event.VerdictAllow,
		event.FieldBytesIn:  r.in,
		event.FieldBytesOut: r.out,
		event.FieldDuration: time.Since(r.began).Milliseconds(),
	}
	if r.target.port != 0 {
		fields[event.FieldHost], fields[event.FieldPort] = r.target.host(), r.target.port
	} else {
		fields[event.FieldHost] = fmt.Sprintf("%.200q", r.host)
	}
	rule, addr := r.rule, r.addr
	if r.err != nil {
		fields[event.FieldCode], fields[event.FieldReason] = fault.Of(r.err).Wire(), "error"
		var why *refusal
		if errors.As(r.err, &why) {
			fields[event.FieldReason] = why.reason
			if why.rule != "" {
				rule = why.rule
			}
			if why.addr.IsValid() {
				addr = why.addr
			}
		}
		switch fault.Of(r.err) {
		case fault.PermissionDenied, fault.InvalidArgument, fault.ResourceExhausted:
			fields[event.FieldVerdict] = event.VerdictDeny
		}
	}
	if rule != "" {
		fields[event.FieldRule] = rule
	}
	if addr.IsValid() {
		fields[event.FieldAddress] = addr.String()
	}
	if r.credential != "" {
		fields[event.FieldCredential] = r.credential
	}
	if r.status != 0 {
		fields[event.FieldStatus] = r.status
	}
	e := event.Event{Kind: event.EgressRequest, Workspace: p.opts.Workspace, Session: p.opts.Session, Fields: fields}
	if fields[event.FieldVerdict] == event.VerdictDeny {
		p.refusals.add(e)
		return
	}
	p.opts.Events.Emit(e)
}
