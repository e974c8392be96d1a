package agent

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"

	acp "github.com/coder/acp-go-sdk"

	"github.com/croft-run/croft/fault"
)

// acpAgent is any program that speaks the Agent Client Protocol.
type acpAgent struct{ program }

func (acpAgent) Type() string { return "acp" }

// Prepare starts the configured program. The prompt is sent over the protocol.
func (c acpAgent) Prepare(_ context.Context, in Input) (Invocation, error) {
	if c.cfg.Command == "" {
		return Invocation{}, fmt.Errorf("agent: start an agent over ACP: %w: no command", fault.InvalidArgument)
	}
	return Invocation{
		Argv: append([]string{c.cfg.Command}, c.cfg.CommandArgs...), Env: c.envOver(nil), Dir: in.Dir,
		Converse: func(ctx context.Context, stdin io.Writer, stdout io.Reader) error {
			return c.runTurn(ctx, in, stdin, stdout)
		},
	}, nil
}

// runTurn runs one turn of a conversation: initialize, open a session, prompt.
func (c acpAgent) runTurn(ctx context.Context, in Input, stdin io.Writer, stdout io.Reader) error {
	conn := acp.NewClientSideConnection(acpClient{}, stdin, stdout)
	conn.SetLogger(slog.New(slog.DiscardHandler))
	defer func() { // the connection reads until its input is closed
		if c, ok := stdout.(io.Closer); ok && c.Close() == nil {
			<-conn.Done()
		}
	}()
	hello, err := conn.Initialize(ctx, acp.InitializeRequest{ProtocolVersion: acp.ProtocolVersionNumber,
		ClientInfo: &acp.Implementation{Name: "croft", Version: "1"}})
	if err != nil {
		return acpError("initialize", err)
	}
	id, err := c.openSession(ctx, conn, in, hello)
	if err != nil {
		return err
	}
	_, err = conn.Prompt(ctx, acp.PromptRequest{SessionId: id, Prompt: []acp.ContentBlock{acp.TextBlock(in.Prompt)}})
	if err != nil {
		return acpError("prompt", err)
	}
	return nil
}

// openSession opens a new session, or loads the one to resume, and sets the configured
// model if the agent lets clients choose.
func (c acpAgent) openSession(ctx context.Context, conn *acp.ClientSideConnection, in Input, hello acp.InitializeResponse) (acp.SessionId, error) {
	servers, err := acpTools(in, hello)
	if err != nil {
		return "", err
	}
	if in.Resume != "" {
		id := acp.SessionId(in.Resume)
		if !hello.AgentCapabilities.LoadSession {
			return "", fmt.Errorf("agent: resume %s over ACP: %w: the agent can't load sessions", id, fault.Unsupported)
		}
		_, err := conn.LoadSession(ctx, acp.LoadSessionRequest{SessionId: id, Cwd: in.Dir, McpServers: servers})
		return id, acpError("load the session", err)
	}
	s, err := conn.NewSession(ctx, acp.NewSessionRequest{Cwd: in.Dir, McpServers: servers})
	if err != nil {
		return "", acpError("open a session", err)
	}
	return s.SessionId, c.setModel(ctx, conn, s)
}

// acpTools returns the MCP servers of a session.
func acpTools(in Input, hello acp.InitializeResponse) ([]acp.McpServer, error) {
	servers := []acp.McpServer{}
	if in.Tools == "" {
		return servers, nil
	}
	if !hello.AgentCapabilities.McpCapabilities.Http {
		return nil, fmt.Errorf("agent: give tools over ACP: %w: the agent takes no servers over HTTP", fault.Unsupported)
	}
	return append(servers, acp.McpServer{Http: &acp.McpServerHttpInline{Type: "http", Name: toolServer, Url: in.Tools, Headers: []acp.HttpHeader{}}}), nil
}

// setModel sets the configured model by the method that the agent supports. An agent with
// neither method takes its model from its own settings.
func (c acpAgent) setModel(ctx context.Context, conn *acp.ClientSideConnection, s acp.NewSessionResponse) error {
	if c.cfg.Model == "" {
		return nil
	}
	if s.Models != nil {
		if string(s.Models.CurrentModelId) == c.cfg.Model {
			return nil
		}
		_, err := conn.UnstableSetSessionModel(ctx, acp.UnstableSetSessionModelRequest{SessionId: s.SessionId, ModelId: acp.UnstableModelId(c.cfg.Model)})
		return acpError("set the model", err)
	}
	for _, o := range s.ConfigOptions {
		if o.Select == nil || o.Select.Id != "model" || string(o.Select.CurrentValue) == c.cfg.Model {
			continue
		}
		set := &acp.SetSessionConfigOptionValueId{SessionId: s.SessionId, ConfigId: o.Select.Id, Value: acp.SessionConfigValueId(c.cfg.Model)}
		_, err := conn.SetSessionConfigOption(ctx, acp.SetSessionConfigOptionRequest{ValueId: set})
		return acpError("set the model", err)
	}
	return nil
}

func acpError(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("agent: %s over ACP: %w: %w", what, fault.Failed, err)
}

// acpClient grants every permission that an agent requests, as the other agents run
// without asking. It offers no files and no terminals: the agent has its own in its
// workspace.
type acpClient struct{}

func (acpClient) RequestPermission(_ context.Context, p acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
	for _, kind := range []acp.PermissionOptionKind{acp.PermissionOptionKindAllowOnce, acp.PermissionOptionKindAllowAlways} {
		i := slices.IndexFunc(p.Options, func(o acp.PermissionOption) bool { return o.Kind == kind })
		if i >= 0 {
			chosen := &acp.RequestPermissionOutcomeSelected{OptionId: p.Options[i].OptionId}
			return acp.RequestPermissionResponse{Outcome: acp.RequestPermissionOutcome{Selected: chosen}}, nil
		}
	}
	return acp.RequestPermissionResponse{Outcome: acp.RequestPermissionOutcome{Cancelled: &acp.RequestPermissionOutcomeCancelled{}}}, nil
}

// SessionUpdate does nothing: the report is made from the agent's output.
func (acpClient) SessionUpdate(context.Context, acp.SessionNotification) error { return nil }

func (acpClient) ReadTextFile(context.Context, acp.ReadTextFileRequest) (acp.ReadTextFileResponse, error) {
	return acp.ReadTextFileResponse{}, acp.NewMethodNotFound(acp.ClientMethodFsReadTextFile)
}

func (acpClient) WriteTextFile(context.Context, acp.WriteTextFileRequest) (acp.WriteTextFileResponse, error) {
	return acp.WriteTextFileResponse{}, acp.NewMethodNotFound(acp.ClientMethodFsWriteTextFile)
}

func (acpClient) CreateTerminal(context.Context, acp.CreateTerminalRequest) (acp.CreateTerminalResponse, error) {
	return acp.CreateTerminalResponse{}, acp.NewMethodNotFound(acp.ClientMethodTerminalCreate)
}

func (acpClient) KillTerminal(context.Context, acp.KillTerminalRequest) (acp.KillTerminalResponse, error) {
	return acp.KillTerminalResponse{}, acp.NewMethodNotFound(acp.ClientMethodTerminalKill)
}

func (acpClient) TerminalOutput(context.Context, acp.TerminalOutputRequest) (acp.TerminalOutputResponse, error) {
	return acp.TerminalOutputResponse{}, acp.NewMethodNotFound(acp.ClientMethodTerminalOutput)
}

func (acpClient) ReleaseTerminal(context.Context, acp.ReleaseTerminalRequest) (acp.ReleaseTerminalResponse, error) {
	return acp.ReleaseTerminalResponse{}, acp.NewMethodNotFound(acp.ClientMethodTerminalRelease)
}

func (acpClient) WaitForTerminalExit(context.Context, acp.WaitForTerminalExitRequest) (acp.WaitForTerminalExitResponse, error) {
	return acp.WaitForTerminalExitResponse{}, acp.NewMethodNotFound(acp.ClientMethodTerminalWaitForExit)
}

// Steps counts rounds with the model: messages and tool calls are one round until a tool
// has answered.
func (acpAgent) Steps() func([]byte) int {
	steps, open, calls := 0, false, map[string]bool{}
	begin := func() {
		if !open {
			steps++
		}
		open = true
	}
	return func(line []byte) int {
		u := parseRecord(line).obj("params").obj("update")
		switch u.str("sessionUpdate") {
		case "agent_message_chunk", "agent_thought_chunk":
			begin()
		case "tool_call", "tool_call_update": // an agent may send only the end of a call
			if id := u.str("toolCallId"); !calls[id] {
				calls[id] = true
				begin()
			}
			if s := u.str("status"); s == "completed" || s == "failed" {
				open = false
			}
		}
		return steps
	}
}

// isModelUpdate reports whether an update comes from a model: a message, a thought or a
// tool call.
func isModelUpdate(u record) bool {
	switch u.str("sessionUpdate") {
	case "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update":
		return true
	}
	return false
}

// Rejected reports whether the configured model is not among the models that the agent
// listed, and no model answered.
func (c acpAgent) Rejected(_ context.Context, _ Runner, _ Input, out Output) bool {
	if c.cfg.Model == "" {
		return false
	}
	all := allRecords(out.Stdout)
	if slices.ContainsFunc(all, func(r record) bool { return isModelUpdate(r.obj("params").obj("update")) }) {
		return false
	}
	for _, r := range all {
		var models []string
		for _, m := range r.obj("result").obj("models").list("availableModels") {
			models = append(models, m.str("modelId"))
		}
		for _, o := range r.obj("result").list("configOptions") {
			for _, m := range o.list("options") {
				if o.str("id") == "model" {
					models = append(models, m.str("value"))
				}
			}
		}
		if len(models) > 0 {
			return !slices.Contains(models, c.cfg.Model)
		}
	}
	return false
}

// Collect keeps the agent's output.
func (acpAgent) Collect(_ context.Context, _ Runner, in Input, out Output) (Raw, error) {
	raw, err := saveStream(in, out, func(r record) (string, bool) { return r.obj("result").text("sessionId") })
	raw.SessionID = cmp.Or(raw.SessionID, in.Resume)
	return raw, err
}
