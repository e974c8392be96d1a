package evals

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/internal/server/mcpserver"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/tool/all"
	"github.com/croft-run/croft/workspace"
)

// LocalURL is the URL at which programs in the workspaces of Sandboxes reach
// Config.LocalHandler.
var LocalURL = fmt.Sprintf("http://127.0.0.1:%d", egress.RelayPort)

// Tools are the tools for the agents of an evaluation.
type Tools struct {
	Settings *config.Config
	Toolset  mcpserver.Toolset
	Version  string
	Log      *slog.Logger // nil is silent
}

// Serve returns an MCP server of the tools for one workspace, and a function that
// closes it. The agent inside the workspace calls it; the tools work from outside, as
// for any other user of the workspace. They have no secrets.
func (t Tools) Serve(ctx context.Context, ws *workspace.Workspace) (http.Handler, func(context.Context) error, error) {
	forms, err := t.Settings.Secrets.Finder()
	if err != nil {
		return nil, nil, err
	}
	set := new(tool.Set)
	if err := set.Add("workspace", ws); err != nil {
		return nil, nil, err
	}
	env, err := tool.NewEnv(tool.Config{
		Tools: slices.Concat(all.Coding(), all.Workspace()), Effects: all.Effects(), Sources: all.Sources(), Workspaces: set, Readers: tool.ReadSession,
		Finders: []secret.Finder{forms}, Log: t.Log,
	})
	if err != nil {
		return nil, nil, err
	}
	server := mcpserver.New(ctx, mcpserver.Options{Env: env, Version: t.Version, Toolset: t.Toolset, Log: t.Log})
	return server.Handler(), func(ctx context.Context) error {
		server.Drain()
		server.Close()
		return env.Close(ctx)
	}, nil
}
