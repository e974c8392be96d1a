package workspace

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
)

// A verb names an operation: by name in events and metrics, by span in traces. The
// span is that of trpc-agent-go if it has the same operation.
type verb struct {
	name, span string

	// quiet is a look at Croft's own records, such as a list of sessions. It is no event: pages and
	// clients ask again every second, and the audit log would be full of it.
	quiet bool
}

func newVerb(name string) *verb { return &verb{name: name, span: "workspace." + name} }

func newQuietVerb(name string) *verb {
	return &verb{name: name, span: "workspace." + name, quiet: true}
}

var (
	verbOpen         = &verb{name: "open", span: "workspace.create"}
	verbResolve      = newVerb("resolve")
	verbClose        = newVerb("close")
	verbDestroy      = &verb{name: "destroy", span: "workspace.cleanup"}
	verbPause        = newVerb("pause")
	verbResume       = newVerb("resume")
	verbUpdate       = newVerb("update")
	verbStat         = newVerb("stat")
	verbReadDir      = newVerb("readdir")
	verbList         = newVerb("list")
	verbRead         = newVerb("read")
	verbWrite        = newVerb("write")
	verbEdit         = newVerb("edit")
	verbMkdir        = newVerb("mkdir")
	verbRemove       = newVerb("remove")
	verbRename       = newVerb("rename")
	verbCopy         = newVerb("copy")
	verbChmod        = newVerb("chmod")
	verbXattrs       = newVerb("xattrs")
	verbSetXattrs    = newVerb("set_xattrs")
	verbSymlink      = newVerb("symlink")
	verbGlob         = newVerb("glob")
	verbGrep         = newVerb("grep")
	verbWatch        = newVerb("watch")
	verbDigest       = newVerb("digest")
	verbChangedPaths = newVerb("changedPaths")
	verbGitDirs      = newVerb("gitDirs")
	verbImport       = newVerb("import")
	verbRun          = newVerb("run")
	verbStart        = newVerb("start")
	verbAttach       = newVerb("attach")
	verbSessions     = newQuietVerb("sessions")
	verbDial         = newVerb("dial")
	verbPoll         = newVerb("poll")
	verbLog          = newVerb("log")
	verbFollow       = newVerb("follow")
	verbInput        = newVerb("input")
	verbSignal       = newVerb("signal")
	verbResize       = newVerb("resize")
	verbKill         = newVerb("kill")
	verbWait         = newVerb("wait")
	verbState        = newQuietVerb("state")
	verbForget       = newVerb("forget")
	verbCode         = &verb{name: "code", span: "workspace.inline"}
	verbScript       = newVerb("script")
	verbContext      = newVerb("context")
	verbSnapshot     = newVerb("snapshot")
	verbSnapshots    = newQuietVerb("snapshots")
	verbFork         = newVerb("fork")
	verbRollback     = newVerb("rollback")
)

// A subject is what an operation acts on. Empty fields are not reported.
type subject struct {
	path, to     string
	command, dir string
	pattern      string
	host         string // a path of the host
	port         string
}

const scope = "github.com/croft-run/croft/workspace"

// The instruments of the global providers forward to an SDK, also to one that main
// sets later, so they are created once.
var (
	tracer    = sync.OnceValue(func() trace.Tracer { return otel.Tracer(scope) })
	histogram = sync.OnceValue(func() metric.Float64Histogram {
		// The name and unit are valid, so the only failure is a nil instrument.
		h, _ := otel.Meter(scope).Float64Histogram("workspace.duration", metric.WithUnit("s"))
		return h
	})
)

// An operation is a running operation.
type operation struct {
	w        *Workspace
	verb     *verb
	about    subject
	provider string
	span     trace.Span
	start    time.Time
}

// beginOperation starts the span of an operation.
func (w *Workspace) beginOperation(ctx context.Context, v *verb, about subject) (context.Context, operation) {
	op := operation{w: w, verb: v, about: about, provider: w.current.Load().Ref.Provider, start: time.Now()}
	ctx, op.span = startSpan(ctx, v, w.id, op.provider)
	if op.span.IsRecording() {
		for _, f := range about.fields() {
			op.span.SetAttributes(attribute.String(f.attribute, f.value))
		}
	}
	return ctx, op
}

func startSpan(ctx context.Context, v *verb, id, provider string) (context.Context, trace.Span) {
	ctx, span := tracer().Start(ctx, v.span)
	if span.IsRecording() {
		span.SetAttributes(attribute.String("exec_id", id), attribute.String("provider", provider), attribute.String("verb", v.name))
	}
	return ctx, span
}

func endSpan(span trace.Span, code fault.Code) {
	if span.IsRecording() {
		span.SetAttributes(attribute.String("code", string(code)))
		if code != "" {
			span.SetStatus(codes.Error, string(code))
		}
	}
	span.End()
}

// end ends the span and records metrics and the event.
func (op *operation) end(ctx context.Context, err error) {
	code := fault.Of(err)
	endSpan(op.span, code)
	recordDuration(ctx, op.verb, op.provider, code, op.start)
	if IsUse(ctx) {
		op.w.opts.Used()
	}
	if !op.verb.quiet {
		op.w.emitOperation(op.verb, op.about, err, op.start)
	}
}

func recordDuration(ctx context.Context, v *verb, provider string, code fault.Code, start time.Time) {
	h := histogram()
	if h == nil || !h.Enabled(ctx) {
		return
	}
	h.Record(ctx, time.Since(start).Seconds(), metric.WithAttributes(attribute.String("provider", provider),
		attribute.String("verb", v.name), attribute.String("code", string(code))))
}

// emitOperation emits one event per operation, and a second one for a sandbox violation.
func (w *Workspace) emitOperation(v *verb, about subject, err error, start time.Time) {
	if w.opts.Events == event.Discard {
		return
	}
	w.emit(event.Operation, eventFields(v, about, err, start))
	if fault.Of(err) == fault.SandboxViolation {
		e := event.NewSandboxViolation(w.id, w.opts.Session.ID, event.Violation{Tool: v.name, Path: about.path, Command: about.command, Err: err})
		e.Fields[event.FieldVerb] = v.name
		if about.to != "" {
			e.Fields[event.FieldTo] = about.to
		}
		w.opts.Events.Emit(e)
	}
}

func eventFields(v *verb, about subject, err error, start time.Time) map[string]any {
	fields := map[string]any{event.FieldVerb: v.name, event.FieldDuration: time.Since(start).Milliseconds()}
	for _, f := range about.fields() {
		if f.event != "" {
			fields[f.event] = f.value
		}
	}
	if err != nil {
		wire := fault.Encode(err)
		fields[event.FieldCode], fields[event.FieldKind], fields[event.FieldMessage] = wire.Code, wire.Kind, wire.Message
	}
	return fields
}

func (w *Workspace) emit(kind event.Kind, fields map[string]any) {
	w.opts.Events.Emit(event.Event{Kind: kind, Workspace: w.id, Session: w.opts.Session.ID, Fields: fields})
}

// A field is a part of a subject: its name in events and in spans.
type field struct{ event, attribute, value string }

func (s subject) fields() []field {
	var set []field
	for _, f := range []field{
		{event.FieldPath, "path", s.path},
		{event.FieldTo, "to", s.to},
		{event.FieldCommand, "cmd", s.command},
		{"", "cwd", s.dir},
		{"", "patterns", s.pattern},
		{"", "host_path", s.host},
		{event.FieldPort, "port", s.port},
	} {
		if f.value != "" {
			set = append(set, f)
		}
	}
	return set
}
