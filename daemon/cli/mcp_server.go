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
	"github.com/croft-run/croft/server/mcpserver"
)

// serverTools returns how the tools of a server are reached, with one workspace or
// all of them.
func (a *command) serverTools(opts toolFlags, toolset string) (*mcp.StreamableClientTransport, error) {
	if err := opts.checkForServer(); err != nil {
		return nil, err
	}
	token, err := a.serverToken()
	if err != nil {
		return nil, err
	}
	q := url.Values{"toolset": {toolset}}
	if len(opts.names) == 1 {
		q.Set("workspace", opts.names[0])
	}
	return &mcp.StreamableClientTransport{
		Endpoint:   strings.TrimSuffix(a.server, "/") + mcpserver.Path + "?" + q.Encode(),
		HTTPClient: &http.Client{Transport: tokenTransport{token}},
	}, nil
}

// checkForServer refuses flags that speak of workspaces which are made here.
func (t toolFlags) checkForServer() error {
	p := t.policy
	switch {
	case t.workspace != "" || t.workspaces != "":
		return usagef("a directory of this host is not on the server: open a workspace there (croft ws open) and name it with --ws")
	case len(t.names) > 1:
		return usagef("on a server --ws names one workspace; without it there are all")
	case t.provider != "" || t.readOnly || t.checkpoint != "" || len(t.approve) > 0:
		return usagef("--provider, --read-only, --approve and --checkpoints belong to workspaces that are made here; those of a server are as they were opened")
	case p.name != "" || p.isolation != "" || p.template != "" || len(p.allowNet) > 0 || p.openNet || len(p.secrets) > 0 ||
		!p.limits.IsZero() || p.bestEffort || len(p.env) > 0:
		return usagef("a policy belongs to workspaces that are made here; those of a server are as they were opened")
	}
	return nil
}

// tokenTransport bears a token.
type tokenTransport struct{ token string }

func (w tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+w.token)
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || res.StatusCode < 400 || res.Header.Get("Content-Type") != "application/json" {
		return res, err
	}
	defer res.Body.Close()
	// The library would tell no more than the status.
	var answer struct{ Error fault.Wire }
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&answer); err != nil || answer.Error.Code == "" {
		return nil, fmt.Errorf("server: %w: it answered %s", fault.Unavailable, res.Status)
	}
	return nil, &refusal{answer.Error.Err()}
}

// A refusal is what a server said. Libraries put their own words around it, which
// help nobody.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

// relayMCP is croft mcp on a server: what the agent says on standard input goes to
// the server, and what that says to standard output, until either ends.
func (a *command) relayMCP(ctx context.Context, opts mcpOptions) error {
	if opts.http != "" || len(opts.hosts) > 0 {
		return usagef("the server serves HTTP itself: give agents %s%s", a.server, mcpserver.Path)
	}
	transport, err := a.serverTools(opts.toolFlags, opts.toolset)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	there, err := transport.Connect(ctx)
	if err != nil {
		return serverError(a.server, err)
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
					err = here.Write(ctx, &jsonrpc.Response{ID: r.ID, Error: fmt.Errorf("server %s: %w", a.server, serverError(a.server, err))})
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
	err = errors.Join(clientIsDone(serverError(a.server, err)), there.Close())
	<-ended
	return err
}

// reconnectDelay is how long is waited before a server is connected to again.
const reconnectDelay = time.Second

// relayListChanges tells the agent when the server's tools, prompts or resources change,
// until ctx ends. The SDK opens the stream on which a server speaks unasked for its
// own clients alone, so this is one.
func relayListChanges(ctx context.Context, transport *mcp.StreamableClientTransport, agent mcp.Connection) {
	tell := func(method string) { _ = agent.Write(ctx, &jsonrpc.Request{Method: method}) } // the relay sees an agent that is gone
	client := mcp.NewClient(&mcp.Implementation{Name: "croft", Version: version()}, &mcp.ClientOptions{
		ToolListChangedHandler:     func(context.Context, *mcp.ToolListChangedRequest) { tell("notifications/tools/list_changed") },
		PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) { tell("notifications/prompts/list_changed") },
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { tell("notifications/resources/list_changed") },
	})
	for ctx.Err() == nil {
		once := &mcp.StreamableClientTransport{Endpoint: transport.Endpoint, HTTPClient: transport.HTTPClient}
		if session, err := client.Connect(ctx, once, nil); err == nil {
			stop := context.AfterFunc(ctx, func() { _ = session.Close() })
			_ = session.Wait() // whatever ended it, the next one is tried
			stop()
		}
		select {
		case <-time.After(reconnectDelay):
		case <-ctx.Done():
		}
	}
}

// serverError is the error of a server that can't be reached, or its own.
func serverError(server string, err error) error {
	if said := (*refusal)(nil); errors.As(err, &said) {
		return said.error
	}
	if fault.Of(err) != fault.Internal {
		return err
	}
	return fmt.Errorf("server %s: %w: %w", server, fault.Unavailable, err)
}

// clientIsDone makes the end of the client's stream no error.
func clientIsDone(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// plainWriter is a writer that is not closed with what writes to it.
type plainWriter struct{ io.Writer }

func (plainWriter) Close() error { return nil }

// toolOnServer is croft tool on a server.
func (a *command) toolOnServer(ctx context.Context, opts toolOptions, args []string, input json.RawMessage) (err error) {
	transport, err := a.serverTools(opts.toolFlags, string(mcpserver.Both))
	if err != nil {
		return err
	}
	transport.DisableStandaloneSSE = true
	session, err := mcp.NewClient(&mcp.Implementation{Name: "croft", Version: version()}, nil).Connect(ctx, transport, nil)
	if err != nil {
		return serverError(a.server, err)
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
		_, _ = call("Read", read) // what can't be read, the tool itself speaks of
	}
	res, err := call(args[0], input)
	if err != nil {
		return err
	}
	return a.showResult(res)
}

// structuredData is the data of an answer. A tool that sends its text once has all but
// that beside it.
func structuredData(res *mcp.CallToolResult, text string) any {
	beside, ok := res.Meta["croft.run/data"].(map[string]any)
	if res.StructuredContent != nil || !ok {
		return res.StructuredContent
	}
	beside["content"] = text
	return beside
}

// showResult prints what a tool on a server answered.
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
