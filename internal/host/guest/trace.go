package guest

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/guestproto/guestpb"
	"github.com/croft-run/croft/workspace/driver"
)

// traceVariable continues a trace in a program, by the W3C Trace Context format.
const traceVariable = "TRACEPARENT"

// encodeCommand encodes a command. A command that is part of a sampled trace gets the
// trace in its environment, unless the environment is clean or has one.
func encodeCommand(ctx context.Context, cmd *driver.Command) *guestpb.Command {
	pb := guestproto.ToCommand(cmd)
	span := trace.SpanContextFromContext(ctx)
	if _, given := cmd.Env[traceVariable]; !given && !cmd.Clean && span.IsValid() && span.IsSampled() {
		pb.Env = append(pb.Env, []byte(traceVariable+"=00-"+span.TraceID().String()+"-"+span.SpanID().String()+"-01"))
	}
	return pb
}
