package envd

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/e2b/envd/envdpb"
	"github.com/croft-run/croft/internal/server/httplog"
	"github.com/croft-run/croft/workspace"
)

// Version is the version of E2B's envd whose features this package has.
const Version = "0.6.4"

// Ports of a sandbox that E2B's SDKs use.
const (
	Port     = 49983 // envd
	CodePort = 49999 // the code interpreter
)

// A Sandbox is one sandbox as the handler sees it.
type Sandbox struct {
	ID        string
	Workspace *workspace.Workspace
	Env       map[string]string // of every process
	Token     string            // X-Access-Token that requests need; "": they need no token
	Workdir   string            // default directory of commands; "" is the home
	Limits    workspace.Limits  // of the workspace, for metrics; nil if they are not known
	Received  func()            // called after each message of a stream of requests; may be nil
}

// Config configures a Server. The zero value works.
type Config struct {
	Log *slog.Logger // nil is silent
}

// A Server serves any number of sandboxes. It keeps watchers and, for speed, code contexts and
// processes in memory; the rest is in the workspaces.
type Server struct {
	log  *slog.Logger
	envd *http.ServeMux
	code *http.ServeMux

	retain  time.Duration   // see endedRetain
	drained context.Context // ends with Drain
	drain   context.CancelFunc

	mu       sync.Mutex
	draining bool
	boxes    map[string]*box // by Sandbox.ID
	work     sync.WaitGroup  // requests and watchers
}

// New returns a server.
func New(cfg Config) *Server {
	s := &Server{log: cfg.Log, retain: endedRetain, boxes: map[string]*box{}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.drained, s.drain = context.WithCancel(context.Background()) //nolint:forbidigo // the life of the server, which Drain ends
	options := []connect.HandlerOption{
		connect.WithReadMaxBytes(maxMessage),
		connect.WithInterceptors(badRequests{}),
		connect.WithRecover(func(_ context.Context, spec connect.Spec, _ http.Header, p any) error {
			s.log.Error("panic in a call", "procedure", spec.Procedure, "panic", fmt.Sprint(p))
			return connect.NewError(connect.CodeInternal, errors.New("internal error"))
		}),
	}
	mux := http.NewServeMux()
	handleServices(mux, processService{s}, filesystemService{s}, options)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /files", s.download)
	mux.HandleFunc("POST /files", s.upload)
	mux.HandleFunc("POST /files/compose", s.compose)
	mux.HandleFunc("GET /envs", s.envs)
	mux.HandleFunc("GET /metrics", s.metrics)
	mux.HandleFunc("/", unknownRoute)
	s.envd = mux

	mux = http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		httplog.WriteJSON(w, http.StatusOK, "Request was successful")
	})
	mux.HandleFunc("POST /execute", s.execute)
	mux.HandleFunc("GET /contexts", s.listContexts)
	mux.HandleFunc("POST /contexts", s.createContext)
	mux.HandleFunc("POST /contexts/{id}/restart", s.restartContext)
	mux.HandleFunc("DELETE /contexts/{id}", s.deleteContext)
	mux.HandleFunc("/", unknownRoute)
	s.code = mux
	return s
}

// handleServices registers the services, and each procedure as a route of its own.
func handleServices(mux *http.ServeMux, process envdpb.ProcessHandler, filesystem envdpb.FilesystemHandler, options []connect.HandlerOption) {
	register := func(file protoreflect.FileDescriptor, path string, h http.Handler) {
		mux.Handle(path, h)
		mux.HandleFunc(strings.TrimSuffix(path, "/"), unknownRoute) // the mux would redirect
		for methods, i := file.Services().Get(0).Methods(), 0; i < methods.Len(); i++ {
			mux.Handle(path+string(methods.Get(i).Name()), h)
		}
	}
	path, h := envdpb.NewProcessHandler(process, options...)
	register(envdpb.File_process_process_proto, path, h)
	path, h = envdpb.NewFilesystemHandler(filesystem, options...)
	register(envdpb.File_filesystem_filesystem_proto, path, h)
}

// badRequests makes a malformed envelope the client's mistake; Connect calls it internal.
type badRequests struct{}

// WrapUnary changes nothing.
func (badRequests) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc { return next }

// WrapStreamingClient changes nothing.
func (badRequests) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler changes the errors of Receive.
func (badRequests) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return next(ctx, requestConn{conn, callOf(ctx).Received})
	}
}

type requestConn struct {
	connect.StreamingHandlerConn
	received func()
}

func (c requestConn) Receive(m any) error {
	err := c.StreamingHandlerConn.Receive(m)
	if c.received != nil {
		c.received()
	}
	if err != nil && connect.CodeOf(err) == connect.CodeInternal {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	return err
}

// maxMessage bounds a message of a Connect service, and a JSON body.
const maxMessage = 64 << 20

func unknownRoute(w http.ResponseWriter, r *http.Request) {
	writeError(w, fmt.Errorf("%s %.200q: %w: envd has no such route", r.Method, r.URL.Path, fault.NotFound))
}

// ServeEnvd serves a request to port 49983 of a sandbox.
func (s *Server) ServeEnvd(w http.ResponseWriter, r *http.Request, sb Sandbox) {
	if err := sb.Authorize(r); err != nil && !IsHealth(r) {
		WriteError(w, r, err)
		return
	}
	s.serve(w, r, sb, "envd", s.envd)
}

// ServeCode serves a request to port 49999 of a sandbox. Requests need no token: as in E2B,
// access is that to a port, which the caller checks.
func (s *Server) ServeCode(w http.ResponseWriter, r *http.Request, sb Sandbox) {
	s.serve(w, r, sb, "code", s.code)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, sb Sandbox, name string, mux *http.ServeMux) {
	_, pattern := mux.Handler(r)
	httplog.SetRoute(r.Context(), strings.Replace(pattern, "/", name+"/", 1)) // as a pattern with a host
	if !s.begin() {
		WriteError(w, r, errDraining)
		return
	}
	defer s.work.Done()
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), callKey{}, &sandboxCall{Sandbox: sb, box: s.box(sb.ID), retain: s.retain}))
	defer cancel(nil)
	if isStream(r) {
		defer context.AfterFunc(s.drained, func() { cancel(errDraining) })()
	}
	mux.ServeHTTP(w, r.WithContext(ctx))
}

// isStream reports whether a request is answered by a stream, which may last for hours.
func isStream(r *http.Request) bool {
	content := r.Header.Get("Content-Type")
	return strings.HasPrefix(content, "application/connect+") || strings.HasPrefix(content, "application/grpc") || r.URL.Path == "/execute"
}

// errDraining ends streams. What their processes and code do continues.
var errDraining = fault.WithCause(fmt.Errorf("%w: the server is shutting down; retry when it is back", fault.Unavailable), fault.CauseClosed)

// begin counts a request or watcher, unless the server drains.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.draining {
		s.work.Add(1)
	}
	return !s.draining
}

// Drain ends streams and refuses new requests. Other requests, and processes, continue.
func (s *Server) Drain() {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	s.drain()
}

// Close drains the server and waits for requests and watchers.
func (s *Server) Close(ctx context.Context) error {
	s.Drain()
	done := make(chan struct{})
	go func() { // ends with the last request
		defer close(done)
		s.work.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("envd: close: %w", ctx.Err())
	}
}

// Forget drops the watchers and the state of a sandbox that ended.
func (s *Server) Forget(id string) {
	s.mu.Lock()
	b := s.boxes[id]
	delete(s.boxes, id)
	s.mu.Unlock()
	if b != nil {
		b.close()
	}
}

func (s *Server) box(id string) *box {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.boxes[id]
	if b == nil {
		b = &box{procs: map[uint32]*process{}, watchers: map[string]*pollWatcher{}, contexts: map[string]string{}, counts: map[string]int{}, shells: map[string]*bashContext{}, swept: time.Now()}
		s.boxes[id] = b
	}
	return b
}

// A box is what the server remembers of a sandbox.
type box struct {
	mu       sync.Mutex
	procs    map[uint32]*process     // by pid: processes that this server started or found
	swept    time.Time               // when ended processes were last removed, or the box was made
	watchers map[string]*pollWatcher // by id
	user     *identity               // nil until it is asked for
	cpu      cpuSample               // of the last call of Metrics

	contextsMu  sync.Mutex              // held while a default context is created
	contexts    map[string]string       // ids of default code contexts, by language
	shells      map[string]*bashContext // by id; guarded by mu
	shellsKnown bool                    // shells has those of earlier servers; guarded by mu
	counts      map[string]int          // runs of code that clients asked for, by context
}

func (b *box) close() {
	b.mu.Lock()
	watchers := b.watchers
	b.watchers = map[string]*pollWatcher{}
	b.mu.Unlock()
	for _, w := range watchers {
		w.stop()
	}
}

// A sandboxCall is one request for a sandbox.
type sandboxCall struct {
	Sandbox
	box    *box
	retain time.Duration // of ended processes
}

type callKey struct{}

// callOf returns the sandbox of a request.
func callOf(ctx context.Context) *sandboxCall {
	c, _ := ctx.Value(callKey{}).(*sandboxCall) // serve sets it
	return c
}

const tokenHeader = "X-Access-Token" //nolint:gosec // the name of a header

// IsHealth reports whether a request is for /health, which needs no token.
func IsHealth(r *http.Request) bool {
	return r.URL.Path == "/health" && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

// Authorize checks the access token of a request to port 49983, or the signature of a URL of a file.
func (sb Sandbox) Authorize(r *http.Request) error {
	token := r.Header.Get(tokenHeader)
	switch {
	case sb.Token == "", subtle.ConstantTimeCompare([]byte(sb.Token), []byte(token)) == 1:
		return nil
	case r.URL.Path == "/files" && token == "":
		return sb.checkSignature(r)
	}
	return fmt.Errorf("%w: send the access token of the sandbox as %s, or sign the URL of a file", fault.Unauthenticated, tokenHeader)
}

var rpcErrors = connect.NewErrorWriter()

// IsCall reports whether a request is one of a Connect service.
func IsCall(r *http.Request) bool {
	service, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	return (service == envdpb.ProcessName || service == envdpb.FilesystemName) && rpcErrors.IsSupported(r)
}

// WriteError answers a request to envd with an error. The client of a Connect service would
// take a plain status of 503 to mean that the sandbox is gone.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	if IsCall(r) {
		rpcErrors.Write(w, r, rpcError(r.Context(), err)) //nolint:errcheck // the client is gone
		return
	}
	writeError(w, err)
}

// writeError writes an error as envd does.
func writeError(w http.ResponseWriter, err error) {
	switch text, gone := cutOff(err); {
	case gone:
		writeStatus(w, http.StatusBadGateway, errors.New(text)) // as for a sandbox that is gone
	case text != "":
		writeStatus(w, http.StatusServiceUnavailable, errors.New(text))
	default:
		writeStatus(w, httpStatus(err), err)
	}
}

func writeStatus(w http.ResponseWriter, status int, err error) {
	httplog.WriteJSON(w, status, struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}{status, fault.Public(err)})
}

// httpStatus returns the status that envd answers an error with.
func httpStatus(err error) int {
	switch fault.Of(err) {
	case fault.InvalidArgument, fault.SandboxViolation, fault.AlreadyExists:
		return http.StatusBadRequest
	case fault.Unauthenticated:
		return http.StatusUnauthorized
	case fault.PermissionDenied:
		return http.StatusForbidden
	case fault.NotFound:
		return http.StatusNotFound
	case fault.Conflict, fault.WrongState:
		return http.StatusConflict
	case fault.ResourceExhausted:
		return http.StatusInsufficientStorage
	case fault.Unsupported:
		return http.StatusNotImplemented
	case fault.Unavailable, fault.Evicted, fault.Failed:
		return http.StatusServiceUnavailable
	case fault.Canceled:
		return 499 // of nginx: the client closed the request
	case fault.DeadlineExceeded:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

// connectCodes are the codes of Connect for fault codes. None is CodeUnavailable: E2B's SDKs
// take it to mean that the sandbox is gone; see cutOff.
var connectCodes = map[fault.Code]connect.Code{
	fault.InvalidArgument:   connect.CodeInvalidArgument,
	fault.Unauthenticated:   connect.CodeUnauthenticated,
	fault.PermissionDenied:  connect.CodePermissionDenied,
	fault.SandboxViolation:  connect.CodeInvalidArgument,
	fault.NotFound:          connect.CodeNotFound,
	fault.AlreadyExists:     connect.CodeAlreadyExists,
	fault.Conflict:          connect.CodeAborted,
	fault.WrongState:        connect.CodeFailedPrecondition,
	fault.ResourceExhausted: connect.CodeResourceExhausted,
	fault.Unavailable:       connect.CodeAborted,
	fault.Failed:            connect.CodeFailedPrecondition,
	fault.Evicted:           connect.CodeAborted,
	fault.Unsupported:       connect.CodeUnimplemented,
	fault.Canceled:          connect.CodeCanceled,
	fault.DeadlineExceeded:  connect.CodeDeadlineExceeded,
	fault.Internal:          connect.CodeInternal,
}

// rpcError returns err as an error of Connect, nil for nil.
func rpcError(ctx context.Context, err error) error {
	var have *connect.Error
	switch {
	case err == nil || errors.As(err, &have):
		return err
	case errors.Is(context.Cause(ctx), errDraining):
		err = errDraining
	case ctx.Err() != nil:
		err = ctx.Err()
	}
	if text, gone := cutOff(err); text != "" {
		code := connect.CodeAborted
		if gone { // the SDK then says that the sandbox is gone
			code = connect.CodeUnavailable
		}
		return connect.NewError(code, errors.New(text))
	}
	code := connectCodes[fault.Of(err)]
	if err = adviseSpace(err); fault.IsPrivate(err) {
		err = errors.New(fault.Public(err))
	}
	return connect.NewError(code, err)
}

// cutOff says in words for clients why a request was cut off by a change of the sandbox, "" if it was
// not. gone means that the sandbox does not run any more.
func cutOff(err error) (text string, gone bool) {
	if errors.Is(err, errDraining) {
		return "", false
	}
	switch fault.CauseOf(err) {
	case fault.CauseDestroyed:
		return "the sandbox was killed or reached its end of life while the request was in flight", true
	case fault.CausePaused:
		return "the sandbox was paused while the request was in flight; its processes and code continue when it is resumed: connect to the sandbox, then to the process", true
	case fault.CauseClosed:
		return "the server opened the sandbox anew while the request was in flight; the processes continue: connect to the process again", false
	}
	return "", false
}
