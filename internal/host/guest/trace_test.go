package guest

import (
	"slices"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/croft-run/croft/workspace/driver"
)

func TestTraceOfCommand(t *testing.T) {
	sampled := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
	}))
	unsampled := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}))
	const variable = "TRACEPARENT=00-01000000000000000000000000000000-0200000000000000-01"
	has := func(env [][]byte) bool {
		return slices.ContainsFunc(env, func(v []byte) bool { return string(v) == variable })
	}
	if pb := encodeCommand(sampled, &driver.Command{}); !has(pb.Env) {
		t.Errorf("environment %q, want %s", pb.Env, variable)
	}
	for name, pb := range map[string][][]byte{
		"not sampled": encodeCommand(unsampled, &driver.Command{}).Env,
		"no trace":    encodeCommand(t.Context(), &driver.Command{}).Env,
		"clean":       encodeCommand(sampled, &driver.Command{Clean: true}).Env,
		"given":       encodeCommand(sampled, &driver.Command{Env: map[string]string{"TRACEPARENT": "mine"}}).Env,
	} {
		if has(pb) {
			t.Errorf("%s: environment %q", name, pb)
		}
	}
}
