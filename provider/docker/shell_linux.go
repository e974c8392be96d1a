package docker

import (
	"context"

	"github.com/croft-run/croft/workspace/driver"
)

// shell returns the guest's Shell. Results also have the requests that the proxy refused.
func (h *handle) shell(ctx context.Context) (*driver.Shell, error) {
	c, err := h.guestClient(ctx)
	if err != nil {
		return nil, err
	}
	s := c.Shell()
	run := s.Run
	s.Run = func(ctx context.Context, cmd driver.Command) (driver.Result, error) {
		refused := h.p.proxies.Refused(h.id)
		moment := refused.Now()
		res, err := run(ctx, cmd)
		if err == nil {
			res.Refused = refused.Since(moment)
		}
		return res, err
	}
	return s, nil
}
