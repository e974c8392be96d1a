package stage

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/croft-run/croft/fault"
)

// Names of spans. workspace.create, workspace.cleanup, workspace.run and
// workspace.inline are those of package workspace.
const (
	SpanFiles   = "workspace.stage.files"
	SpanDir     = "workspace.stage.dir"
	SpanCollect = "workspace.collect"
)

// Keys of attributes. cmd, cwd, exit_code and timed_out are those of package
// workspace.
const (
	AttrExecID    = "exec_id"
	AttrPath      = "path"
	AttrCount     = "count"
	AttrPatterns  = "patterns"
	AttrHostPath  = "host_path"
	AttrTo        = "to"
	AttrMountUsed = "mount_used"
)

var tracer = sync.OnceValue(func() trace.Tracer { return otel.Tracer("github.com/croft-run/croft/prepare/stage") })

// startSpan starts a span. The caller ends it with end.
func (s *Stage) startSpan(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	ctx, span := tracer().Start(ctx, name)
	if span.IsRecording() {
		span.SetAttributes(attribute.String(AttrExecID, s.ws.ID()), attribute.String(AttrPath, s.guestPath(".")))
		span.SetAttributes(attrs...)
	}
	return ctx, span
}

func endSpan(span trace.Span, err error) {
	if code := fault.Of(err); code != "" && span.IsRecording() {
		span.SetStatus(codes.Error, string(code))
		span.SetAttributes(attribute.String("code", string(code)))
	}
	span.End()
}
