package sandbox

import (
	"context"

	"github.com/croft-run/croft/workspace/driver"
)

// shell is the module that runs processes: each call goes to the guest, after a
// look at whether the handle still stands for the workspace.
func (h *handle) shell() *driver.Shell {
	return &driver.Shell{Starter: starter{h}, Run: h.run, Sessions: h.sessions, Attach: h.attachSession}
}

type starter struct{ h *handle }

func (s starter) Start(ctx context.Context, cmd driver.Command) (*driver.Session, error) {
	c, err := s.h.att.Guest(ctx)
	if err != nil {
		return nil, err
	}
	return s.h.telling(c.Shell().Start(ctx, cmd))
}

func (h *handle) run(ctx context.Context, cmd driver.Command) (driver.Result, error) {
	c, err := h.att.Guest(ctx)
	if err != nil {
		return driver.Result{}, err
	}
	refused := h.p.ways().Refused(h.id)
	moment := refused.Now()
	res, err := c.Shell().Run(ctx, cmd)
	if err == nil {
		res.Planted, res.Refused = h.planted(false), refused.Since(moment)
	}
	return res, err
}

func (h *handle) sessions(ctx context.Context) ([]driver.SessionInfo, error) {
	c, err := h.att.Guest(ctx)
	if err != nil {
		return nil, err
	}
	return c.Shell().Sessions(ctx)
}

func (h *handle) attachSession(ctx context.Context, id string) (*driver.Session, error) {
	c, err := h.att.Guest(ctx)
	if err != nil {
		return nil, err
	}
	return h.telling(c.Shell().Attach(ctx, id))
}
