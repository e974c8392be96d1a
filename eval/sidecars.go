package eval

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/croft-run/croft/eval/agent"
	"github.com/croft-run/croft/eval/replay"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
)

// Tools makes a server of tools over a workspace, which speaks MCP over HTTP, and
// what ends it.
type Tools func(ctx context.Context, ws *workspace.Workspace) (h http.Handler, end func(context.Context) error, err error)

// A sidecars is what a session gets from outside its workspace, through the fence: tools
// that work in it, and a recorder or a tape in the place of its model.
type sidecars struct {
	agent   agent.Agent
	tools   string   // URL inside; "" is none
	traffic *traffic // nil is that models are asked directly
	ends    []func() error
}

// The paths at which a sidecars answers.
const (
	toolsPath = "/mcp"
	modelPath = "/model"
)

// startSidecars makes the sidecars of a session. What it has is ended by its end, also where
// there is an error.
func (m *matrix) startSidecars(ctx context.Context, e *execution, d *preparedEnv, artifacts string) (k *sidecars, err error) {
	k = &sidecars{agent: e.runner.agent}
	if m.opts.tools == nil && m.opts.record == "" && m.opts.replay == "" {
		return k, nil
	}
	mux := http.NewServeMux()
	base, stop, err := d.env.serve(ctx, mux)
	if err != nil {
		return k, err
	}
	k.ends = append(k.ends, func() error { stop(); return nil })
	if k.traffic, err = m.trafficOf(artifacts, m.dirsOf(d, artifacts), d.env.way); err != nil {
		return k, err
	}
	if k.traffic != nil {
		k.ends = append(k.ends, func() error { k.traffic.settle(); return k.traffic.close() })
		if err := k.redirect(e.runner.config, base, mux); err != nil {
			return k, err
		}
	}
	if m.opts.tools == nil {
		return k, nil
	}
	h, end, err := m.opts.tools(ctx, d.env.Workspace)
	if err != nil {
		return k, err
	}
	k.ends = append(k.ends, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sidecarTimeout)
		defer cancel()
		return end(ctx)
	})
	mux.Handle(toolsPath, h)
	k.tools = base + toolsPath
	return k, nil
}

// sidecarTimeout bounds the end of the tools of a session, and of what its model answers.
const sidecarTimeout = 10 * time.Second

// redirect lets the agent ask the tape instead of its model.
func (k *sidecars) redirect(cfg agent.Config, base string, mux *http.ServeMux) error {
	moved, up, err := agent.Redirect(cfg, base+modelPath)
	if err != nil || up == nil {
		return err
	}
	if k.agent, err = agent.New(moved); err != nil {
		return err
	}
	k.traffic.moved = true
	mux.Handle(modelPath+"/", k.traffic.answering(http.StripPrefix(modelPath, replay.Handler(up, agentTransport{k.traffic}))))
	return nil
}

// client is how a judge asks its model.
func (k *sidecars) client() *http.Client {
	if k == nil || k.traffic == nil {
		return nil
	}
	return &http.Client{Transport: k.traffic}
}

// end lets go of what the sidecars has, the last thing first.
func (k *sidecars) end() error {
	var errs []error
	for i := len(k.ends) - 1; i >= 0; i-- {
		errs = append(errs, k.ends[i]())
	}
	return errors.Join(errs...)
}

// dirsOf lists the directories that agents name and that differ from run to run,
// always in this order.
func (m *matrix) dirsOf(d *preparedEnv, artifacts string) []string {
	return []string{d.env.Dir(), artifacts, m.runDir, filepath.Dir(m.opts.suite.Path()), m.opts.config.Dir}
}

// checkTraffic refuses what can't be recorded or replayed before anything is run.
func (m *matrix) checkTraffic(o *Options) error {
	cfg := m.opts.config.Croft
	m.opts.record, m.opts.replay = cfg.Record, cfg.Replay
	if o.Record != "" || o.Replay != "" {
		m.opts.record, m.opts.replay = o.Record, o.Replay
	}
	switch {
	case m.opts.record == "" && m.opts.replay == "":
		return nil
	case m.opts.record != "" && m.opts.replay != "":
		return fmt.Errorf("eval: record and replay: %w: one run does one or the other", fault.InvalidArgument)
	}
	if m.opts.replay != "" {
		m.opts.noModelNet = true
		if info, err := os.Stat(m.opts.replay); err != nil {
			return fmt.Errorf("eval: replay %s: %w: %w", m.opts.replay, fault.Of(err), err)
		} else if !info.IsDir() {
			return fmt.Errorf("eval: replay %s: %w: it is no directory of tapes", m.opts.replay, fault.InvalidArgument)
		}
	}
	for _, r := range m.runners {
		_, up, err := agent.Redirect(r.config, "http://127.0.0.1")
		if err != nil {
			return fmt.Errorf("eval: runner %s: %w", r.info.ID, err)
		}
		if up == nil {
			m.notices = append(m.notices, fmt.Sprintf("runner %s: nothing is recorded or replayed: env of its agent sets none of %s", r.info.ID, strings.Join(agent.ModelVariables, ", ")))
		}
	}
	return nil
}
