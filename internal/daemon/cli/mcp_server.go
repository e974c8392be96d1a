package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/server/mcpserver"
)

// serverTools returns the transport to the MCP endpoint of a server, for one
// workspace or all.
func (a *command) serverTools(opts toolFlags, toolset string, tools ...string) (*mcp.StreamableClientTransport, error) {
	if err := opts.checkForServer(); err != nil {
		return nil, err
	}
	token, err := a.ServerToken()
	if err != nil {
		return nil, err
	}
	q := url.Values{"toolset": {toolset}}
	if len(tools) > 0 {
		q.Set("tools", strings.Join(tools, ","))
	}
	if len(opts.names) == 1 {
		q.Set("workspace", opts.names[0])
	}
	return &mcp.StreamableClientTransport{
		Endpoint:   strings.TrimSuffix(a.Server, "/") + mcpserver.Path + "?" + q.Encode(),
		HTTPClient: &http.Client{Transport: tokenTransport{token}},
	}, nil
}

// checkForServer refuses flags that only apply to workspaces on this host.
func (t toolFlags) checkForServer() error {
	switch {
	case t.dir != "" || t.dirs != "":
		return console.Usagef("--dir and --dirs are directories of this host: with --server, open a workspace (croft ws open) and name it with --workspace")
	case len(t.names) > 1:
		return console.Usagef("with --server, give --workspace at most once; without it all workspaces are available")
	case t.provider != "" || t.readOnly || t.checkpoint != "" || len(t.approve) > 0:
		return console.Usagef("--provider, --read-only, --approve and --checkpoints do not apply with --server: give them to croft ws open")
	case t.policy.Given() || t.host.Given():
		return console.Usagef("flags of the policy, --rw, --ro and --toolchain do not apply with --server: give them to croft ws open")
	}
	return nil
}

// tokenTransport adds the token to requests, and returns the errors of the server.
type tokenTransport struct{ token string }

func (w tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+w.token)
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || res.StatusCode < 400 || res.Header.Get("Content-Type") != "application/json" {
		return res, err
	}
	defer res.Body.Close()
	// The SDK would report only the status.
	var answer struct{ Error fault.Wire }
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&answer); err != nil || answer.Error.Code == "" {
		return nil, fmt.Errorf("server: %w: it answered %s", fault.Unavailable, res.Status)
	}
	return nil, &refusal{answer.Error.Err()}
}

// A refusal is an error answer of the server, which serverError finds below the
// errors of the SDK.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

// relayMCP is croft mcp --server: it copies messages between the standard streams
// and the server until either ends.
func (a *command) relayMCP(ctx context.Context, opts mcpOptions) error {
	if opts.http != "" || len(opts.hosts) > 0 {
		return console.Usagef("the server serves HTTP itself: leave out --http and --host, and give agents the URL %s%s", a.Server,
			mcpserver.Path)
	}
	transport, err := a.serverTools(opts.toolFlags, opts.toolset, opts.tools...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	there, err := transport.Connect(ctx)
	if err != nil {
		return serverError(a.Server, err)
	}
	here, err := (&mcp.IOTransport{Reader: io.NopCloser(a.In), Writer: plainWriter{a.Out}}).Connect(ctx)
	if err != nil {
		return err
	}
	var unasked sync.WaitGroup
	defer unasked.Wait()
	defer cancel()
	ended := make(chan error, 2)
	pass := func(from, to mcp.Connection) {
		for {
			msg, err := from.Read(ctx)
			if err == nil {
				err = to.Write(ctx, msg)
				if r, ok := msg.(*jsonrpc.Request); err != nil && ok && r.ID.IsValid() && to == there {
					err = here.Write(ctx, &jsonrpc.Response{ID: r.ID, Error: fmt.Errorf("server %s: %w", a.Server, serverError(a.Server, err))})
				} else if ok && err == nil && r.Method == "notifications/initialized" && to == there {
					unasked.Go(func() { relayListChanges(ctx, transport, here) })
				}
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}
	go pass(here, there)
	go pass(there, here)
	err = <-ended
	cancel()
	err = errors.Join(clientIsDone(serverError(a.Server, err)), there.Close())
	<-ended
	return err
}

// reconnectDelay is the time before a new connection to the server.
const reconnectDelay = time.Second

// relayListChanges sends the agent a notification when the server's tools, prompts or
// resources change, until ctx ends. It is a client of its own, because the SDK opens
// the stream for notifications only for its own clients.
func relayListChanges(ctx context.Context, transport *mcp.StreamableClientTransport, agent mcp.Connection) {
	tell := func(method string) { _ = agent.Write(ctx, &jsonrpc.Request{Method: method}) } // the relay notices if the agent is gone
	client := mcp.NewClient(&mcp.Implementation{Name: "croft", Version: console.Version()}, &mcp.ClientOptions{
		ToolListChangedHandler:     func(context.Context, *mcp.ToolListChangedRequest) { tell("notifications/tools/list_changed") },
		PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) { tell("notifications/prompts/list_changed") },
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { tell("notifications/resources/list_changed") },
	})
	for ctx.Err() == nil {
		once := &mcp.StreamableClientTransport{Endpoint: transport.Endpoint, HTTPClient: transport.HTTPClient}
		if session, err := client.Connect(ctx, once, nil); err == nil {
			stop := context.AfterFunc(ctx, func() { _ = session.Close() })
			_ = session.Wait() // after any error it connects again
			stop()
		}
		select {
		case <-time.After(reconnectDelay):
		case <-ctx.Done():
		}
	}
}

// serverError is the error that the server answered, or Unavailable.
func serverError(server string, err error) error {
	if said := (*refusal)(nil); errors.As(err, &said) {
		return said.error
	}
	if fault.Of(err) != fault.Internal {
		return err
	}
	return fmt.Errorf("server %s: %w: %w", server, fault.Unavailable, err)
}

// clientIsDone returns nil if the client ended its stream, and else err.
func clientIsDone(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// plainWriter ignores Close.
type plainWriter struct{ io.Writer }

func (plainWriter) Close() error { return nil }

// toolOnServer is croft tool --server.
func (a *command) toolOnServer(ctx context.Context, opts toolOptions, args []string, input json.RawMessage) (err error) {
	transport, err := a.serverTools(opts.toolFlags, string(mcpserver.Both))
	if err != nil {
		return err
	}
	transport.DisableStandaloneSSE = true
	session, err := mcp.NewClient(&mcp.Implementation{Name: "croft", Version: console.Version()}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Experimental: map[string]any{mcpserver.DataCapability: map[string]any{}}},
	}).Connect(ctx, transport, nil)
	if err != nil {
		return serverError(a.Server, err)
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	list, err := session.ListTools(ctx, nil)
	if err != nil {
		return err
	}
	known := make([]toolAnswer, 0, len(list.Tools))
	for _, t := range list.Tools {
		known = append(known, toolAnswer{
			Name: t.Name, Description: t.Description, Input: t.InputSchema, Output: t.OutputSchema,
			ReadOnly: t.Annotations.ReadOnlyHint, Destructive: *t.Annotations.DestructiveHint,
		})
	}
	if len(args) == 0 || opts.schema {
		return a.showTools(known, args, opts.schema)
	}
	call := func(name string, input json.RawMessage) (*mcp.CallToolResult, error) {
		return session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: input})
	}
	if !slices.ContainsFunc(known, func(t toolAnswer) bool { return t.Name == args[0] }) {
		return unknownTool(known, args[0])
	}
	if read := readArguments(known, args[0], input); read != nil {
		_, _ = call("Read", read) // the tool itself reports a file that can't be read
	}
	res, err := call(args[0], input)
	if err != nil {
		return err
	}
	return a.showResult(res)
}

// structuredData is the data of an answer. A data-only result lacks the text, which
// is added as content.
func structuredData(res *mcp.CallToolResult, text string) any {
	data, ok := res.Meta["croft.run/data"].(map[string]any)
	if res.StructuredContent != nil || !ok {
		return res.StructuredContent
	}
	data["content"] = text
	return data
}

// showResult prints the answer of a tool of a server.
func (a *command) showResult(res *mcp.CallToolResult) error {
	var texts []string
	for _, c := range res.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			texts = append(texts, t.Text)
		}
	}
	text := strings.Join(texts, "\n")
	if !res.IsError {
		return a.showAnswer(structuredData(res, text), text)
	}
	var wire fault.Wire
	if data, err := json.Marshal(res.Meta["croft.run/error"]); err != nil || json.Unmarshal(data, &wire) != nil || wire.Code == "" {
		return fmt.Errorf("%w: %s", fault.Internal, text)
	}
	return wire.Err()
}
