package workspace

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
)

// A verb names an operation in spans, metrics and events. Verbs that match an
// operation of trpc-agent-go's workspaces carry its span name.
type verb string

const (
	verbUpdate   verb = "update"
	verbStat     verb = "stat"
	verbReadDir  verb = "readdir"
	verbList     verb = "list"
	verbRead     verb = "read"
	verbWrite    verb = "write"
	verbEdit     verb = "edit"
	verbMkdir    verb = "mkdir"
	verbRemove   verb = "remove"
	verbRename   verb = "rename"
	verbCopy     verb = "copy"
	verbChmod    verb = "chmod"
	verbSymlink  verb = "symlink"
	verbGlob     verb = "glob"
	verbGrep     verb = "grep"
	verbWatch    verb = "watch"
	verbDigest   verb = "digest"
	verbRun      verb = "run"
	verbStart    verb = "start"
	verbAttach   verb = "attach"
	verbSessions verb = "sessions"
	verbCode     verb = "code"
	verbSnap     verb = "snapshot"
)

const scope = "github.com/croft-run/croft/workspace"

// instruments are fetched per process, lazily, so that an SDK that main sets up
// is seen and a program without one pays nothing.
func tracer() trace.Tracer { return otel.Tracer(scope) }

// begin starts the span of an operation; the function that it returns ends it
// and tells the event stream.
func (w *Workspace) begin(ctx context.Context, v verb, about string) (context.Context, func(error)) {
	start := time.Now()
	provider := w.current.Load().Ref.Provider
	ctx, span := tracer().Start(ctx, "workspace."+string(v))
	if span.IsRecording() {
		span.SetAttributes(attribute.String("provider", provider), attribute.String("verb", string(v)),
			attribute.String("exec_id", w.id))
		if about != "" {
			span.SetAttributes(attribute.String(aboutKey(v), about))
		}
	}
	return ctx, func(err error) {
		code := fault.Of(err)
		if span.IsRecording() {
			span.SetAttributes(attribute.String("code", string(code)))
			if err != nil {
				span.SetStatus(codes.Error, string(code))
			}
		}
		span.End()
		w.record(ctx, v, provider, code, time.Since(start))
		w.tell(v, about, err, time.Since(start))
	}
}

func (w *Workspace) record(ctx context.Context, v verb, provider string, code fault.Code, took time.Duration) {
	h := histogram()
	if h == nil || !h.Enabled(ctx) {
		return
	}
	h.Record(ctx, took.Seconds(), metric.WithAttributes(attribute.String("provider", provider),
		attribute.String("verb", string(v)), attribute.String("code", string(code))))
}

func histogram() metric.Float64Histogram {
	h, err := otel.Meter(scope).Float64Histogram("workspace.duration", metric.WithUnit("s"))
	if err != nil {
		return nil
	}
	return h
}

// tell emits one event per operation, and one more for a violation of the fence.
func (w *Workspace) tell(v verb, about string, err error, took time.Duration) {
	if w.opts.Events == event.Discard {
		return
	}
	fields := map[string]any{event.FieldVerb: string(v), event.FieldDuration: took.Milliseconds()}
	if about != "" {
		fields[aboutKey(v)] = about
	}
	if err != nil {
		wire := fault.Encode(err)
		fields[event.FieldCode], fields[event.FieldKind], fields[event.FieldMessage] = wire.Code, wire.Kind, wire.Message
	}
	w.emit(event.Operation, fields)
	if fault.Of(err) == fault.SandboxViolation {
		w.emit(event.SandboxViolation, fields)
	}
}

func (w *Workspace) emit(kind event.Kind, fields map[string]any) {
	w.opts.Events.Emit(event.Event{Kind: kind, Workspace: w.id, Session: w.opts.Session.ID, Fields: fields})
}

func aboutKey(v verb) string {
	switch v {
	case verbRun, verbStart:
		return event.FieldCommand
	default:
		return event.FieldPath
	}
}
