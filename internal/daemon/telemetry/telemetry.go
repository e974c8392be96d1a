// Package telemetry sets up the metrics and traces of croft up: Prometheus metrics at
// /metrics, and OpenTelemetry traces and metrics over OTLP by the OTEL_* variables.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/httplog"
)

// A Telemetry is the metrics and traces of one server.
type Telemetry struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
	tracing  bool
	shutdown []func(context.Context) error
}

// Start sets up metrics and traces, and installs them as OpenTelemetry's global providers.
// A process calls it once.
func Start(ctx context.Context, version string) (*Telemetry, error) {
	t := &Telemetry{registry: prometheus.NewRegistry(), requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "croft_http_request_duration_seconds", Help: "Duration of HTTP requests, by route.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60},
	}, []string{"route", "method", "status"})}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "croft_build_info", Help: "1, with the version of the program."}, []string{"version"})
	build.WithLabelValues(version).Set(1)
	t.registry.MustRegister(t.requests, build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := t.startOpenTelemetry(ctx, version); err != nil {
		return nil, errors.Join(fmt.Errorf("telemetry: %w", err), t.Shutdown(ctx))
	}
	return t, nil
}

// Register adds a collector of metrics.
func (t *Telemetry) Register(c prometheus.Collector) error { return t.registry.Register(c) }

// Handler answers /metrics.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{Registry: t.registry})
}

// Observe records an answered request.
func (t *Telemetry) Observe(r httplog.Request) {
	route := r.Route
	if route == "" {
		route = "none"
	}
	status := strconv.Itoa(r.Status)
	if http.StatusText(r.Status) == "" { // programs in sandboxes answer with any number
		status = "other"
	}
	t.requests.WithLabelValues(route, r.Method, status).Observe(r.Duration.Seconds())
}

// Trace returns a handler with a span for each request, which continues the trace of the
// client's traceparent header. Without an exporter of traces it returns next.
func (t *Telemetry) Trace(next http.Handler) http.Handler {
	if !t.tracing {
		return next
	}
	return otelhttp.NewHandler(next, "http", otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return r.Method }))
}

// Shutdown exports what is left and ends the exporters.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	var errs []error
	for _, f := range slices.Backward(t.shutdown) {
		errs = append(errs, f(ctx))
	}
	return errors.Join(errs...)
}

func (t *Telemetry) startOpenTelemetry(ctx context.Context, version string) error {
	if disabled, err := strconv.ParseBool(os.Getenv("OTEL_SDK_DISABLED")); err == nil && disabled {
		return nil
	}
	traces, err := wantsExporter("TRACES")
	if err != nil {
		return err
	}
	metrics, err := wantsExporter("METRICS")
	if err != nil {
		return err
	}
	res, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceName("croft"), semconv.ServiceVersion(version)), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w: %w", fault.InvalidArgument, err)
	}
	if err := t.startMetrics(ctx, res, metrics); err != nil || !traces {
		return err
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return fmt.Errorf("exporter of traces: %w: %w", fault.InvalidArgument, err)
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(res))
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	t.shutdown = append(t.shutdown, provider.Shutdown)
	t.tracing = true
	return nil
}

// startMetrics makes OpenTelemetry's instruments part of /metrics, and exports them.
func (t *Telemetry) startMetrics(ctx context.Context, res *resource.Resource, export bool) error {
	scrape, err := otelprometheus.New(otelprometheus.WithRegisterer(t.registry), otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	if err != nil {
		return fmt.Errorf("metrics: %w: %w", fault.Internal, err)
	}
	options := []metric.Option{metric.WithReader(scrape), metric.WithResource(res)}
	if export {
		exporter, err := otlpmetrichttp.New(ctx)
		if err != nil {
			return fmt.Errorf("exporter of metrics: %w: %w", fault.InvalidArgument, err)
		}
		options = append(options, metric.WithReader(metric.NewPeriodicReader(exporter)))
	}
	provider := metric.NewMeterProvider(options...)
	otel.SetMeterProvider(provider)
	t.shutdown = append(t.shutdown, provider.Shutdown)
	return nil
}

// wantsExporter reports whether the OTEL_* variables ask for OTLP of a signal. The exporters
// themselves read the other variables.
func wantsExporter(signal string) (bool, error) {
	name := "OTEL_" + signal + "_EXPORTER"
	switch kind := os.Getenv(name); kind {
	case "none":
		return false, nil
	case "prometheus":
		if signal == "METRICS" {
			return false, nil // always there
		}
		return false, fmt.Errorf("%s=%s: %w: must be otlp or none", name, kind, fault.InvalidArgument)
	case "", "otlp":
		endpoint := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") + os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT")
		if kind == "" && endpoint == "" {
			return false, nil
		}
	default:
		return false, fmt.Errorf("%s=%s: %w: must be otlp or none", name, kind, fault.InvalidArgument)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if protocol := os.Getenv(name); protocol != "" && protocol != "http/protobuf" {
			return false, fmt.Errorf("%s=%s: %w: must be http/protobuf, which collectors accept on port 4318", name, protocol, fault.InvalidArgument)
		}
	}
	return true, nil
}
