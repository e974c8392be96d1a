package workspace

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace/driver"
)

// recorder is a small SDK: it keeps the spans and measurements of this package.
type recorder struct {
	on       atomic.Bool
	mu       sync.Mutex
	spans    []*recordedSpan
	measured []map[string]string
}

type recordedSpan struct {
	nooptrace.Span
	Name   string
	Attrs  map[string]string
	Status string
	Ended  bool
}

type traces struct {
	nooptrace.TracerProvider
	r *recorder
}

func (p traces) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracerOf{r: p.r} }

type tracerOf struct {
	nooptrace.Tracer
	r *recorder
}

func (x tracerOf) Start(ctx context.Context, name string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	if !x.r.on.Load() {
		return x.Tracer.Start(ctx, name)
	}
	s := &recordedSpan{Name: name, Attrs: map[string]string{}}
	x.r.mu.Lock()
	x.r.spans = append(x.r.spans, s)
	x.r.mu.Unlock()
	return trace.ContextWithSpan(ctx, s), s
}

func (s *recordedSpan) IsRecording() bool                   { return true }
func (s *recordedSpan) SetStatus(_ codes.Code, what string) { s.Status = what }
func (s *recordedSpan) End(...trace.SpanEndOption)          { s.Ended = true }
func (s *recordedSpan) SetAttributes(kv ...attribute.KeyValue) {
	for _, a := range kv {
		s.Attrs[string(a.Key)] = a.Value.String()
	}
}

type metrics struct {
	noopmetric.MeterProvider
	r *recorder
}

func (p metrics) Meter(string, ...metric.MeterOption) metric.Meter { return meterOf{r: p.r} }

type meterOf struct {
	noopmetric.Meter
	r *recorder
}

func (m meterOf) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return histogramOf{r: m.r}, nil
}

type histogramOf struct {
	noopmetric.Float64Histogram
	r *recorder
}

func (h histogramOf) Enabled(context.Context) bool { return h.r.on.Load() }

func (h histogramOf) Record(_ context.Context, _ float64, opts ...metric.RecordOption) {
	labels := map[string]string{}
	set := metric.NewRecordConfig(opts).Attributes()
	for _, a := range set.ToSlice() {
		labels[string(a.Key)] = a.Value.String()
	}
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	h.r.measured = append(h.r.measured, labels)
}

// sdk sets the recorder up, once: a process has one SDK.
var sdk = sync.OnceValue(func() *recorder {
	r := new(recorder)
	otel.SetTracerProvider(traces{r: r})
	otel.SetMeterProvider(metrics{r: r})
	return r
})

// TestSpansAndMetrics also shows that an SDK which is set up after the first
// call is seen.
func TestSpansAndMetrics(t *testing.T) {
	w, _ := newShell(t, nil)
	if _, err := w.Stat(t.Context(), ".", nil); err != nil { // before there is an SDK
		t.Fatal(err)
	}
	r := sdk()
	r.on.Store(true)
	defer r.on.Store(false)
	r.spans, r.measured = nil, nil
	ctx := t.Context()
	if _, err := w.WriteFile(ctx, "secret/path", nil, nil); fault.Of(err) != fault.NotFound {
		t.Fatal(err)
	}
	if _, err := w.Glob(ctx, "*.go", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Run(ctx, driver.Command{Script: "exit 4", Dir: "."}); err != nil {
		t.Fatal(err)
	}
	if err := w.Destroy(ctx); err != nil {
		t.Fatal(err)
	}
	id := w.ID()
	want := []*recordedSpan{
		{Name: "workspace.write", Attrs: map[string]string{"verb": "write", "path": "secret/path", "code": "not_found"}, Status: "not_found"},
		{Name: "workspace.glob", Attrs: map[string]string{"verb": "glob", "patterns": "*.go", "code": ""}},
		{Name: "workspace.run", Attrs: map[string]string{"verb": "run", "cmd": "exit 4", "cwd": ".", "exit_code": "4", "timed_out": "false", "code": ""}},
		{Name: "workspace.cleanup", Attrs: map[string]string{"verb": "destroy", "code": ""}},
	}
	var measured []map[string]string
	for _, s := range want {
		s.Ended, s.Attrs["exec_id"], s.Attrs["provider"] = true, id, "memory"
		measured = append(measured, map[string]string{"provider": "memory", "verb": s.Attrs["verb"], "code": s.Attrs["code"]})
	}
	if diff := cmp.Diff(want, r.spans, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Span" }, cmp.Ignore())); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(measured, r.measured); diff != "" {
		t.Errorf("measurements (-want +got):\n%s", diff)
	}
}

func TestEveryOperationIsAnEvent(t *testing.T) {
	ring := event.NewRing(100)
	m := NewMux(new(memory.Provider))
	w, err := m.Open(t.Context(), Spec{Kind: "memory", ID: NewID()}, &Options{Events: event.NewStream(ring), Session: driver.SessionRef{ID: "s1"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	w.List(ctx, ".", &ListOptions{Limit: -1})
	w.Rename(ctx, "a", "b", nil)
	w.ReadFile(ctx, "../out")
	w.Run(ctx, driver.Command{Argv: []string{"go", "test"}})
	w.Sessions(ctx) // looks at Croft's own records are none
	w.Snapshots(ctx, nil)
	w.SnapshotFiles(ctx, "@origin", nil)
	w.Close(ctx)
	type line struct {
		Kind                    event.Kind
		Verb, Path, To, Cmd, Op string
	}
	text := func(e event.Event, key string) string { s, _ := e.Fields[key].(string); return s }
	var got []line
	for _, e := range ring.Events() {
		if e.Workspace != w.ID() || e.Session != "s1" {
			t.Errorf("event of workspace %q and session %q", e.Workspace, e.Session)
		}
		got = append(got, line{e.Kind, text(e, "verb"), text(e, "path"), text(e, "to"), text(e, "command"), text(e, "kind")})
	}
	want := []line{
		{event.Operation, "open", "", "", "", ""},
		{event.Operation, "list", ".", "", "", "invalid_argument"},
		{event.Operation, "rename", "a", "b", "", "not_found"},
		{event.Operation, "read", "../out", "", "", "sandbox_violation"},
		{event.SandboxViolation, "read", "../out", "", "", "sandbox_violation"},
		{event.Operation, "run", "", "", "go test", "unsupported"},
		{event.Operation, "close", "", "", "", ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
