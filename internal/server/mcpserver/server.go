package mcpserver

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/tool"
)

// Options are what a Server needs. Env is required.
type Options struct {
	Env            *tool.Env
	Version        string
	Toolset        Toolset       // "" is Full; a request over HTTP may name another
	ReconnectGrace time.Duration // how long calls run on without their client; 0 is DefaultReconnectGrace
	Idle           time.Duration // idle time after which an HTTP session ends; 0 is DefaultIdle
	Log            *slog.Logger  // nil is silent
	Audit          event.Sink    // receives an event for each call of a tool that is not read-only; nil discards
	Node           string        // of a cluster: ids of sessions begin with it; see SessionNode
	Instructions   string        // for the model, after those of the server itself
}

// Defaults of Options.
const (
	DefaultReconnectGrace = 15 * time.Second
	DefaultIdle           = 30 * time.Minute
)

// A Server serves an Env. It is safe for concurrent use.
type Server struct {
	opts  Options
	log   *slog.Logger
	calls calls

	drained context.Context // ends with drain
	drain   context.CancelFunc

	mu    sync.Mutex
	views map[view]*viewServer // guarded by mu

	owners sync.Map // id of an HTTP session -> id of the key that began it
}

// A view is a client's choice of toolset and workspace, and what its key allows.
type view struct {
	toolset Toolset
	only    string // one workspace; "" is all
	tenant  string
	scope   auth.Scope // "" is a client without a key, over standard input and output
}

// context returns a context for work of the view.
func (v view) context(ctx context.Context) context.Context {
	if v.scope == "" {
		return auth.Without(ctx)
	}
	return auth.With(ctx, auth.Principal{Tenant: v.tenant, Scope: v.scope})
}

// toolScope returns the scope that a tool needs. A secret is more than its reader may see
// otherwise.
func toolScope(t *tool.Tool) auth.Scope {
	if t.ReadOnly && t.Family != tool.Secrets {
		return auth.Read
	}
	return auth.Run
}

// viewServer is the MCP server of a view, with its present tools, prompts and resources.
type viewServer struct {
	*mcp.Server
	naming    naming // of the argument workspace
	tools     []string
	prompts   []string
	resources []string
}

// New returns a server. ctx is only used for its values: the server ends with Close.
func New(ctx context.Context, opts Options) *Server {
	if opts.Toolset == "" {
		opts.Toolset = Full
	}
	if opts.ReconnectGrace == 0 {
		opts.ReconnectGrace = DefaultReconnectGrace
	}
	if opts.Audit == nil {
		opts.Audit = event.Discard
	}
	if opts.Idle == 0 {
		opts.Idle = DefaultIdle
	}
	s := &Server{opts: opts, log: opts.Log, views: map[view]*viewServer{}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.drained, s.drain = context.WithCancel(context.WithoutCancel(ctx))
	return s
}

// openView returns the MCP server of a view, and creates it if needed.
func (s *Server) openView(ctx context.Context, v view) (*viewServer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, ok := s.views[v]; ok {
		return m, nil
	}
	m := &viewServer{Server: mcp.NewServer(&mcp.Implementation{Name: "croft", Title: "Croft", Version: s.opts.Version}, &mcp.ServerOptions{
		Instructions: strings.TrimSpace(instructions + s.opts.Instructions),
		Logger:       s.log,
		KeepAlive:    0,
		GetSessionID: s.newSessionID,
		PageSize:     1000, // some clients read only the first page
		Capabilities: &mcp.ServerCapabilities{
			Logging:   &mcp.LoggingCapabilities{}, //nolint:staticcheck // deprecated in the latest protocol; clients of today use it
			Tools:     &mcp.ToolCapabilities{ListChanged: true},
			Resources: &mcp.ResourceCapabilities{ListChanged: true}, Prompts: &mcp.PromptCapabilities{ListChanged: true},
		},
	})}
	if err := s.refreshView(ctx, v, m); err != nil {
		return nil, err
	}
	m.AddReceivingMiddleware(s.recoverMiddleware, s.scrubMiddleware, s.ownerMiddleware, encodeMiddleware, textOnlyMiddleware)
	s.addTemplates(m.Server, v)
	s.views[v] = m
	return m, nil
}

const instructions = `These tools work in isolated workspaces. Paths are relative to the workspace. ` +
	`Read a file before you change it. If there are several workspaces, name one with "workspace" in every call. `

// Refresh updates tools, prompts and resources of all views, and notifies clients.
func (s *Server) Refresh(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for v, m := range s.views {
		if err := s.refreshView(ctx, v, m); err != nil {
			return err
		}
	}
	return nil
}

// Connected reports whether there is a client.
func (s *Server) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.views {
		for range m.Sessions() {
			return true
		}
	}
	return false
}

// refreshView updates the tools, prompts and resources of a view.
func (s *Server) refreshView(ctx context.Context, v view, m *viewServer) error {
	ctx = v.context(ctx)
	list, err := s.opts.Env.Available(ctx, v.only)
	if err != nil {
		return err
	}
	workspaces, err := s.opts.Env.Scope(v.only).List(ctx)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(t *tool.Tool) bool {
		return !v.toolset.contains(t) || v.scope != "" && !(auth.Principal{Scope: v.scope}).Has(toolScope(t))
	})
	before := m.tools
	naming := namesOne
	switch {
	case len(workspaces) != 1:
		naming = namesSeveral
	case slices.ContainsFunc(list, opensWorkspaces):
		naming = namesForks
	}
	if naming != m.naming {
		m.naming, m.tools = naming, nil // every tool is added again, with its new arguments
	}
	var names []string
	for _, t := range list {
		if slices.Contains(m.tools, t.Name) || s.addTool(m, t, v) {
			names = append(names, t.Name)
		}
	}
	if gone := removedNames(before, names); len(gone) > 0 {
		m.RemoveTools(gone...)
	}
	m.tools = names
	refreshPrompts(m)
	return s.refreshResources(ctx, v, m)
}

// naming says how tools show the argument workspace.
type naming int

const (
	namesOne     naming = iota // not: there is one workspace
	namesForks                 // briefly: there is one, and a tool opens others
	namesSeveral               // as it is
)

// opensWorkspaces reports whether a tool may open further workspaces for its client.
func opensWorkspaces(t *tool.Tool) bool {
	return slices.Contains([]string{"fork", "workspace_branch", "workspace_restore"}, t.Name)
}

// addTool adds a tool to a view. The SDK panics on a schema that it refuses, which a tool of
// a workspace may have; such a tool is left out.
func (s *Server) addTool(m *viewServer, t *tool.Tool, v view) (added bool) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Warn("tool refused", "tool", t.Name, "error", p)
		}
	}()
	d := mcpTool(t, m.naming)
	if out, ok := d.OutputSchema.(*jsonschema.Schema); ok && v.toolset == Default {
		d.OutputSchema = topLevel(out, m.naming == namesSeveral)
	}
	if most := s.opts.Env.MaxText; most > claudeMaxText {
		d.Meta = mcp.Meta{"anthropic/maxResultSizeChars": most}
	}
	m.AddTool(d, s.toolHandler(t, v))
	return true
}

// claudeMaxText is the size of a text of which Claude Code shows a model more than the
// beginning, unless the tool declares another size.
const claudeMaxText = 50_000

// recoverMiddleware makes a panic in a handler the error of its request. The SDK does not
// recover, so a panic would end the server with all background commands.
func (s *Server) recoverMiddleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (res mcp.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				s.log.Error("handler panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
				res, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: method + ": a defect of Croft ended this request; the server's log has it"}
			}
		}()
		return next(ctx, method, req)
	}
}

// scrubMiddleware removes secrets from protocol errors, which quote the request.
func (s *Server) scrubMiddleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		if err == nil {
			return res, nil
		}
		wire := jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fault.Public(err)}
		if known := (*jsonrpc.Error)(nil); errors.As(err, &known) {
			wire = *known
		}
		text := s.opts.Env.ScrubText(ctx, wire.Message)
		if text == wire.Message && !fault.IsPrivate(err) {
			return res, err
		}
		wire.Message, wire.Data = text, nil
		return res, &wire
	}
}

// removedNames returns the names of before that are not in now.
func removedNames(before, now []string) []string {
	var out []string
	for _, name := range before {
		if !slices.Contains(now, name) {
			out = append(out, name)
		}
	}
	return out
}

// mcpTool converts a tool to MCP. Some clients learn late, or never, that arguments have changed,
// and refuse one that they do not know: where a tool opens workspaces, the argument workspace is
// there from the beginning.
func mcpTool(t *tool.Tool, naming naming) *mcp.Tool {
	in := t.Input
	switch naming {
	case namesOne:
		in = t.InputWithoutWorkspace()
	case namesForks:
		in = t.InputWithWorkspace("name of the workspace, after a fork")
	}
	d := &mcp.Tool{
		Name: t.Name, Description: t.Description, InputSchema: in,
		Annotations: &mcp.ToolAnnotations{
			ReadOnlyHint: t.ReadOnly, IdempotentHint: t.Idempotent, DestructiveHint: &t.Destructive, OpenWorldHint: &t.OpenWorld,
		},
	}
	if t.Output != nil && !t.TextOnly {
		d.OutputSchema = t.Output
	}
	return d
}

// topLevel returns the names and types of the fields of an output schema, without what is
// inside them: in the default toolset the whole would double the description of the tools.
func topLevel(s *jsonschema.Schema, several bool) *jsonschema.Schema {
	out := &jsonschema.Schema{Type: s.Type, Properties: map[string]*jsonschema.Schema{}}
	for name, p := range s.Properties {
		if name != "workspaces" || several {
			out.Properties[name] = &jsonschema.Schema{Type: p.Type, Types: p.Types}
		}
	}
	return out
}

// Close ends all streams, cancels all calls, and waits for the calls.
func (s *Server) Close() {
	s.drain()
	s.calls.close()
}
