package rest

import (
	"context"
	"fmt"
	"net/http"

	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/shellwire"
	"github.com/croft-run/croft/workspace"
)

const portPath = onePath + "/ports/{port}"

func (s processRoutes) portOp() huma.Operation {
	op := s.op(http.MethodGet, portPath, "dial", "Connect to a TCP port of the workspace over a WebSocket")
	op.Description = "The port is one on which a process of the workspace listens on its loopback. Binary messages are the bytes of the " +
		"connection. The text message {\"type\": \"eof\"} ends the direction of its sender, {\"type\": \"error\", \"error\": ...} says that the " +
		"connection broke. The WebSocket ends when both directions have ended. " +
		"If nothing listens on the port, the answer is E_UNAVAILABLE with the cause \"refused\"."
	return withScope(websocketOp(op), auth.Run)
}

type portInput struct {
	Target
	Port int `path:"port" minimum:"1" maximum:"65535" doc:"TCP port"`
}

func (s processRoutes) connectPort(ctx context.Context, ws *workspace.Workspace, in *portInput) (*huma.StreamResponse, error) {
	conn, err := ws.Dial(ctx, in.Port)
	if err != nil {
		return nil, err
	}
	half, ok := conn.(shellwire.HalfConn)
	if !ok {
		conn.Close()
		return nil, fmt.Errorf("port %d: the connection has no CloseWrite: %w", in.Port, fault.Internal)
	}
	upgrade := s.upgradeToWebSocket(func(ctx context.Context, _ context.CancelFunc, c *websocket.Conn) {
		shellwire.Tunnel(ctx, c, half, nil) //nolint:errcheck // both sides see how it ends
	})
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer conn.Close()
		upgrade.Body(hc)
	}}, nil
}
