package rest

import (
	"maps"
	"net/http"
	"sync"
)

// routes registers each route with huma at its first request: huma derives schemas by
// reflection, and a command of croft, which serves itself, needs few of them. It is the mux
// that huma registers handlers with.
type routes struct {
	mux *http.ServeMux

	mu       sync.Mutex
	declared []*route                    // guarded by mu
	handlers map[string]http.HandlerFunc // guarded by mu; those of huma, by pattern
}

// A route is declared, and registered on demand.
type route struct {
	pattern  string
	register func() // guarded by routes.mu; nil if it was called
}

func newRoutes() *routes {
	return &routes{mux: http.NewServeMux(), handlers: map[string]http.HandlerFunc{}}
}

// HandleFunc is called by huma, for its own routes or in register.
func (rs *routes) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	rs.handlers[pattern] = h
}

func (rs *routes) ServeHTTP(w http.ResponseWriter, r *http.Request) { rs.mux.ServeHTTP(w, r) }

// declare adds a route; register registers it with huma.
func (rs *routes) declare(pattern string, register func()) {
	rt := &route{pattern, register}
	rs.declared = append(rs.declared, rt)
	rs.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { rs.handler(rt)(w, r) })
}

func (rs *routes) handler(rt *route) http.HandlerFunc {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rt.registerOnce()
	return rs.handlers[rt.pattern]
}

// registerOnce requires routes.mu.
func (rt *route) registerOnce() {
	if rt.register != nil {
		rt.register()
		rt.register = nil
	}
}

// declareOwn adds the routes of huma itself, which show the OpenAPI document; first is called
// before each request.
func (rs *routes) declareOwn(first func()) {
	for pattern, h := range maps.Clone(rs.handlers) {
		rs.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			first()
			h(w, r)
		})
	}
}

// registerAll registers all routes.
func (rs *routes) registerAll() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, rt := range rs.declared {
		rt.registerOnce()
	}
}
