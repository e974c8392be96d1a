package stage_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/interp/codeblock"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// spans is a small SDK: it keeps the attributes of spans by their names.
type spans struct {
	nooptrace.TracerProvider
	mu  sync.Mutex
	all map[string]map[string]string
}

type spanTracer struct {
	nooptrace.Tracer
	s *spans
}

type keptSpan struct {
	nooptrace.Span
	s    *spans
	name string
}

func (s *spans) Tracer(string, ...trace.TracerOption) trace.Tracer { return spanTracer{s: s} }

func (x spanTracer) Start(ctx context.Context, name string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	span := keptSpan{s: x.s, name: name}
	return trace.ContextWithSpan(ctx, span), span
}

func (k keptSpan) IsRecording() bool { return true }
func (k keptSpan) SetAttributes(kv ...attribute.KeyValue) {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	if k.s.all[k.name] == nil {
		k.s.all[k.name] = map[string]string{}
	}
	for _, a := range kv {
		k.s.all[k.name][string(a.Key)] = a.Value.String()
	}
}

// Those who watch trpc-agent-go find its seven spans and eleven keys here.
func TestSpans(t *testing.T) {
	s := &spans{all: map[string]map[string]string{}}
	otel.SetTracerProvider(s)
	defer otel.SetTracerProvider(nooptrace.NewTracerProvider())
	ctx := t.Context()
	p, err := local.New(&local.Config{Root: t.TempDir(), Guest: testshell.Guest(t)})
	must(t, err)
	ws, err := workspace.NewMux(p).Open(ctx, workspace.Spec{Kind: local.Kind, ID: workspace.NewID()}, nil)
	must(t, err)
	st, err := stage.New(ws, nil)
	must(t, err)
	must(t, st.PutFiles(ctx, []stage.File{{Path: "work/a"}}))
	src := t.TempDir()
	_, err = st.StageDirectory(ctx, src, "work/d", nil)
	must(t, err)
	_, err = st.Run(ctx, driver.Command{Argv: []string{"sh", "-c", "exit 3"}, Dir: "work"})
	must(t, err)
	_, err = st.CollectOutputs(ctx, stage.OutputSpec{Globs: []string{"work/**"}})
	must(t, err)
	_, err = codeblock.Run(ctx, ws, []codeblock.Block{{Language: "sh", Code: "exit 3"}}, nil)
	must(t, err)
	must(t, ws.Destroy(ctx))

	want := map[string][]string{
		"workspace.create":      {"exec_id"},
		"workspace.cleanup":     {"exec_id"},
		"workspace.stage.files": {"exec_id", "path", "count"},
		"workspace.stage.dir":   {"exec_id", "path", "host_path", "to", "mount_used"},
		"workspace.run":         {"exec_id", "cmd", "cwd", "exit_code", "timed_out"},
		"workspace.collect":     {"exec_id", "path", "patterns", "count"},
		"workspace.inline":      {"exec_id", "path", "count"},
	}
	distinct := map[string]bool{}
	for name, keys := range want {
		for _, key := range keys {
			distinct[key] = true
			if _, ok := s.all[name][key]; !ok {
				t.Errorf("span %s has no %s, but %v", name, key, slices.Sorted(maps.Keys(s.all[name])))
			}
		}
	}
	if len(want) != 7 || len(distinct) != 11 {
		t.Errorf("%d spans and %d keys were looked for, want 7 and 11", len(want), len(distinct))
	}
	got := map[string]string{"exit": s.all["workspace.run"]["exit_code"], "mount": s.all["workspace.stage.dir"]["mount_used"], "to": s.all["workspace.stage.dir"]["to"], "count": s.all["workspace.collect"]["count"]}
	if diff := cmp.Diff(map[string]string{"exit": "3", "mount": "false", "to": "work/d", "count": "1"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
