package sandbox

import (
	"context"

	"github.com/croft-run/croft/workspace/driver"
)

// shell returns the guest's Shell. Results also have the requests that the proxy refused
// and the changed autorun files: see package protect.
func (h *handle) shell(ctx context.Context) (*driver.Shell, error) {
	c, err := h.att.Guest(ctx)
	if err != nil {
		return nil, err
	}
	s := *c.Shell()
	attach := s.Attach
	s.Starter = autorunStarter{s.Starter, h}
	s.Run = func(ctx context.Context, cmd driver.Command) (driver.Result, error) {
		refused := h.p.proxies().Refused(h.id)
		moment := refused.Now()
		g, err := h.protectedGuest(ctx)
		if err != nil {
			return driver.Result{}, err
		}
		limited, _, removeGroup, err := g.withCommandGroup(ctx, &cmd)
		if err != nil {
			return driver.Result{}, err
		}
		defer removeGroup()
		ended := h.autorun.StartCommand()
		res, err := g.Shell().Run(limited, cmd)
		if ended(); err == nil {
			res.AutorunChanges, res.AutorunWarnings = h.autorun.Changes(false)
			res.PrivateCommits, res.Refused = h.autorun.PrivateCommits(), refused.Since(moment)
		}
		return res, err
	}
	s.Attach = func(ctx context.Context, id string) (*driver.Session, error) { return h.reportAutorun(attach(ctx, id)) }
	return &s, nil
}

type autorunStarter struct {
	driver.Starter
	h *handle
}

func (s autorunStarter) Start(ctx context.Context, cmd driver.Command) (*driver.Session, error) {
	g, err := s.h.protectedGuest(ctx)
	if err != nil {
		return nil, err
	}
	limited, started, ended, err := g.withCommandGroup(ctx, &cmd)
	if err != nil {
		return nil, err
	}
	s.h.autorun.StartCommand()() // its end is not known
	sess, err := g.Shell().Start(limited, cmd)
	if started(); err != nil {
		ended()
	}
	return s.h.reportAutorun(sess, err)
}
