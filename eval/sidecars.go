package eval

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"time"

	"github.com/croft-run/croft/internal/eval/agent"
	"github.com/croft-run/croft/internal/eval/replay"
	"github.com/croft-run/croft/workspace"
)

// Tools makes an MCP server over HTTP for a workspace, and a function that ends it.
type Tools func(ctx context.Context, ws *workspace.Workspace) (h http.Handler, end func(context.Context) error, err error)

// sidecars are the services of a session outside its workspace: an MCP server, and a
// recorder or a tape in place of its model.
type sidecars struct {
	agent   agent.Agent
	tools   string   // URL inside; "" for none
	traffic *traffic // nil if models are asked directly
	stops   []func() error
}

// The paths at which sidecars answer.
const (
	toolsPath = "/mcp"
	modelPath = "/model"
)

// startSidecars starts the sidecars of a session. The caller stops them, also after an
// error.
func (r *sessionRunner) startSidecars(ctx context.Context, e *execution, d *preparedEnv, artifacts string) (k *sidecars, err error) {
	k = &sidecars{agent: e.runner.agent}
	if r.plan.Tools == nil && r.plan.Record == "" && r.plan.Replay == "" {
		return k, nil
	}
	mux := http.NewServeMux()
	base, stop, err := d.env.serve(ctx, mux)
	if err != nil {
		return k, err
	}
	k.stops = append(k.stops, func() error { stop(); return nil })
	if k.traffic, err = r.tapes.open(artifacts, r.volatileDirs(d, artifacts), d.env.transport); err != nil {
		return k, err
	}
	if k.traffic != nil {
		k.stops = append(k.stops, func() error { k.traffic.waitAnswered(); return k.traffic.close() })
		if err := k.redirectModel(e.runner.config, base, mux); err != nil {
			return k, err
		}
	}
	if r.plan.Tools == nil {
		return k, nil
	}
	h, end, err := r.plan.Tools(ctx, d.env.Workspace)
	if err != nil {
		return k, err
	}
	k.stops = append(k.stops, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sidecarTimeout)
		defer cancel()
		return end(ctx)
	})
	mux.Handle(toolsPath, h)
	k.tools = base + toolsPath
	return k, nil
}

// sidecarTimeout bounds stopping the tools of a session, and waiting for answers of its
// model.
const sidecarTimeout = 10 * time.Second

// redirectModel configures the agent to send requests for its model to the tape or
// recorder.
func (k *sidecars) redirectModel(cfg agent.Config, base string, mux *http.ServeMux) error {
	moved, up, err := agent.Redirect(cfg, base+modelPath)
	if err != nil || up == nil {
		return err
	}
	if k.agent, err = agent.New(moved); err != nil {
		return err
	}
	k.traffic.redirected = true
	mux.Handle(modelPath+"/", k.traffic.trackRequests(http.StripPrefix(modelPath, replay.Handler(up, agentTransport{k.traffic}))))
	return nil
}

// judgeClient is the HTTP client of a judge.
func (k *sidecars) judgeClient() *http.Client {
	if k == nil || k.traffic == nil {
		return nil
	}
	return &http.Client{Transport: k.traffic}
}

// stop stops the sidecars in reverse order.
func (k *sidecars) stop() error {
	var errs []error
	for i := len(k.stops) - 1; i >= 0; i-- {
		errs = append(errs, k.stops[i]())
	}
	return errors.Join(errs...)
}

// volatileDirs lists the directories that differ between runs, always in this order.
func (r *sessionRunner) volatileDirs(d *preparedEnv, artifacts string) []string {
	return []string{d.env.Dir(), artifacts, r.plan.runDir, filepath.Dir(r.plan.suite.Path()), r.plan.config.Dir}
}
