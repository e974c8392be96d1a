package telemetry_test

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/telemetry"
	"github.com/croft-run/croft/internal/server/httplog"
)

// A collector is the HTTP side of an OpenTelemetry collector.
type collector struct {
	mu      sync.Mutex
	spans   map[string]string // guarded by mu; trace id by name
	service string            // guarded by mu
	metrics []string          // guarded by mu
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch r.URL.Path {
	case "/v1/traces":
		var in collectortrace.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for _, res := range in.ResourceSpans {
			for _, a := range res.Resource.Attributes {
				if a.Key == "service.name" {
					c.service = a.Value.GetStringValue()
				}
			}
			for _, scope := range res.ScopeSpans {
				for _, span := range scope.Spans {
					c.spans[span.Name] = hex.EncodeToString(span.TraceId)
				}
			}
		}
	case "/v1/metrics":
		var in collectormetrics.ExportMetricsServiceRequest
		if err := proto.Unmarshal(body, &in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for _, res := range in.ResourceMetrics {
			for _, scope := range res.ScopeMetrics {
				for _, m := range scope.Metrics {
					c.metrics = append(c.metrics, m.Name)
				}
			}
		}
	default:
		http.NotFound(w, r)
	}
}

func TestTracesAndMetricsReachACollector(t *testing.T) {
	c := &collector{spans: map[string]string{}}
	server := httptest.NewServer(c)
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_SERVICE_NAME", "team-croft")
	tel, err := telemetry.Start(t.Context(), "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	handler := httplog.New(tel.Trace(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httplog.SetRoute(r.Context(), "GET /things/{id}")
		_, span := otel.Tracer("test").Start(r.Context(), "inner")
		span.End()
		counter, err := otel.Meter("test").Int64Counter("things")
		if err != nil {
			t.Error(err)
		}
		counter.Add(r.Context(), 1)
	})), httplog.Config{Observe: tel.Observe})
	r := httptest.NewRequest(http.MethodGet, "/things/7", nil)
	const id = "0af7651916cd43dd8448eb211c80319c"
	r.Header.Set("Traceparent", "00-"+id+"-b7ad6b7169203331-01")
	handler.ServeHTTP(httptest.NewRecorder(), r)

	tel.Observe(httplog.Request{Method: "GET", Status: 799})
	page := httptest.NewRecorder()
	tel.Handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`croft_http_request_duration_seconds_count{method="GET",route="GET /things/{id}",status="200"} 1`,
		`croft_http_request_duration_seconds_count{method="GET",route="none",status="other"} 1`,
		`croft_build_info{version="v1.2.3"} 1`, "things_total 1", "go_goroutines",
	} {
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("/metrics lacks %q", want)
		}
	}
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spans["inner"] != id || c.spans["GET"] != id || c.service != "team-croft" {
		t.Errorf("spans %v of service %q, want GET and inner in trace %s of team-croft", c.spans, c.service, id)
	}
	if !strings.Contains(strings.Join(c.metrics, " "), "things") {
		t.Errorf("metrics %v, want things", c.metrics)
	}
}

func TestWrongVariables(t *testing.T) {
	for _, v := range [][2]string{{"OTEL_TRACES_EXPORTER", "zipkin"}, {"OTEL_TRACES_EXPORTER", "prometheus"}, {"OTEL_METRICS_EXPORTER", "x"}, {"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}} {
		t.Run(v[0]+"="+v[1], func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv(v[0], v[1])
			_, err := telemetry.Start(t.Context(), "")
			if fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), v[0]) {
				t.Errorf("%v, want InvalidArgument that names %s", err, v[0])
			}
		})
	}
}
